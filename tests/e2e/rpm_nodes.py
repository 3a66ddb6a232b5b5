# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Test cases for the toolkit on nodes with rpm and any package manager. Each case runs on all nodes of the fleet at once.

Each case continues with the state after the previous case, in the order of this file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.lab import rpms
from tests.lab.lab import Lab
from tests.lab.packages import NVIDIA, URL

from .fleet import Fleet, Node, Run, toolkit

PLAYBOOK = Path(__file__).with_name("toolkit.yml")
PACKAGES = ["libnvidia-container-tools", "libnvidia-container1", "nvidia-container-toolkit", "nvidia-container-toolkit-base"]
RETIRED = ["nvidia-container-runtime", "nvidia-docker2"]
MARK = "/var/lib/gpu-swarm/packages-unfinished"
PROXY = Path(__file__).with_name("forward.py")
PROXY_URL = "http://127.0.0.1:3128"
# No node can resolve this name, so every file from this host came through the proxy.
BEHIND_IT = f"http://mirror.invalid/{NVIDIA}"


# Like NVIDIA's nvidia-docker.repo, with another owner's section, which must not be removed. None of the three repositories can be reached.
STALE = "[{0}]\nname={0}\nbaseurl=https://nvidia.github.io/{0}/stable/rpm/$basearch\nenabled=0\n\n"
OWN = "[own]\nname=own\nbaseurl=http://mirror.invalid/own\nenabled=0\n\n"


@dataclass(frozen=True)
class Manager:
    """A package manager of a node: its paths, and its command to upgrade everything."""

    definition: str
    key: str
    upgrade: tuple[str, ...]
    locks: str
    conf: str  # the file with the proxy setting; empty if the package manager uses the environment


DNF = Manager(
    definition="/etc/yum.repos.d/nvidia-container-toolkit.repo",
    key="/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit",
    upgrade=("dnf", "--assumeyes", "upgrade"),
    locks="/etc/dnf/plugins/versionlock.list",
    conf="/etc/dnf/dnf.conf",
)
ZYPPER = Manager(
    definition="/etc/zypp/repos.d/nvidia-container-toolkit.repo",
    key="/usr/share/keyrings/nvidia-container-toolkit-keyring.asc",
    upgrade=("zypper", "--non-interactive", "update"),
    locks="/etc/zypp/locks",
    conf="",
)
MANAGERS = {"r1": DNF, "s1": ZYPPER, "f1": replace(DNF, locks="/etc/dnf/versionlock.toml")}


def nodes(fleet: Fleet) -> dict[str, tuple[Node, Manager]]:
    return {name: (fleet[name], MANAGERS[name]) for name in sorted(fleet.hosts)}


def members(fleet: Fleet, hosts: dict[str, dict[str, Any]] | None = None) -> Path:
    """Write an inventory of all nodes."""
    names = sorted(fleet.hosts)
    return fleet.inventory(hosts, swarm_managers=names[:1], gpu_nodes=names)


def installed(node: Node) -> dict[str, list[str]]:
    """Return the versions of each package in rpm's database. Two versions of one package would be an error."""
    lines = node.run("rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\n").splitlines()
    found: dict[str, list[str]] = {}
    for name, version in (line.split() for line in lines):
        if name in (*PACKAGES, *RETIRED):
            found.setdefault(name, []).append(version)
    return found


def role(fleet: Fleet, *arguments: str, **settings: Any) -> Run:
    return fleet.playbook(members(fleet), *arguments, *toolkit(**settings), playbook=str(PLAYBOOK))


def upgrade(fleet: Fleet) -> None:
    """Upgrade everything, as an administrator would."""
    for node, manager in nodes(fleet).values():
        node.run(*manager.upgrade)


def assert_version(fleet: Fleet, version: str) -> None:
    """Check that each package is installed once, in one version, and that no transaction is open."""
    for node, _manager in nodes(fleet).values():
        assert installed(node) == {package: [f"{version}-1"] for package in PACKAGES}
        assert node.read(MARK) is None
        assert f"version {version}" in node.run("nvidia-ctk", "--version")


def assert_installed(done: Run, fleet: Fleet, version: str) -> None:
    assert done.rc == 0, done.output
    assert_version(fleet, version)


def state_of(fleet: Fleet) -> dict[str, Any]:
    return {name: (installed(node), node.read(manager.definition), node.read(manager.key)) for name, (node, manager) in nodes(fleet).items()}


def assert_refused(done: Run, fleet: Fleet, before: dict[str, Any], *texts: str) -> None:
    assert done.failed() == list(nodes(fleet)), done.output
    for name, (node, _manager) in nodes(fleet).items():
        for text in texts:
            assert text in done.failures(name)[-1]
        assert node.read(MARK) is None
    assert state_of(fleet) == before


def provision_nodes(fleet: Fleet) -> None:
    """Install over any state, including other definitions of NVIDIA's repositories. A second run changes nothing."""
    inventory = members(fleet)
    other = {name: str(Path(manager.definition).with_name("nvidia-docker.repo")) for name, (_node, manager) in nodes(fleet).items()}
    for name, path in other.items():
        fleet[name].write(path, (STALE.format("libnvidia-container") + OWN + STALE.format("nvidia-docker")).encode())
    done = fleet.playbook(inventory, *toolkit(version="1.20.0"))
    assert_installed(done, fleet, "1.20.0")
    assert {name: done.row(name).split()[-1] for name in nodes(fleet)} == dict.fromkeys(nodes(fleet), "ready")
    assert {name: fleet[name].read(path) for name, path in other.items()} == dict.fromkeys(other, OWN.encode())
    done = fleet.playbook(inventory, *toolkit(version="1.20.0"))
    assert (done.rc, done.changed()) == (0, dict.fromkeys(nodes(fleet), 0)), done.output


def change_held_version(fleet: Fleet) -> None:
    """Upgrade a held version. The hold moves to the new version."""
    for version in ("1.18.1", "1.19.1"):
        assert_installed(role(fleet, version=version, hold=True), fleet, version)
    upgrade(fleet)
    assert_version(fleet, "1.19.1")


def keep_foreign_hold(fleet: Fleet) -> None:
    before = state_of(fleet)
    assert_refused(role(fleet, version="1.20.0"), fleet, before, "The package manager holds libnvidia-container1", "nvidia_container_toolkit_hold")
    done = role(fleet, version="1.19.1", hold=False)
    assert done.rc == 0, done.output
    upgrade(fleet)
    assert_version(fleet, "1.20.0")


def finish_killed_upgrade(fleet: Fleet) -> None:
    """Kill rpm during an upgrade. Then rpm's database lists the package twice, and nvidia-ctk already reports the wanted version."""
    for node, _manager in nodes(fleet).values():
        node.run("touch", rpms.KILL)
    done = role(fleet, version="1.19.1")
    assert done.failed() == list(nodes(fleet)), done.output
    for name, (node, _manager) in nodes(fleet).items():
        assert "could not install version 1.19.1-1" in done.failures(name)[-1]
        assert [sorted(found) for found in installed(node).values() if len(found) == 2] == [["1.19.1-1", "1.20.0-1"]]
        assert "version 1.19.1" in node.run("nvidia-ctk", "--version")
        assert node.read(rpms.KILL) is None
        assert node.read(MARK) is not None
    assert_installed(role(fleet, version="1.19.1"), fleet, "1.19.1")
    for node, _manager in nodes(fleet).values():
        assert node.run("rpm", "--verify", *PACKAGES) == ""


@contextmanager
def a_mirror(name: str) -> Iterator[Path]:
    """Serve a copy of the repository beside the original."""
    lab = Lab.from_environment()
    target = lab.repository / name / rpms.repository(lab).relative_to(lab.repository / NVIDIA)
    shutil.copytree(rpms.repository(lab), target)
    try:
        yield target
    finally:
        shutil.rmtree(lab.repository / name)


def refuse_changed_package(fleet: Fleet) -> None:
    """Replace the metadata, then a package. Only the metadata is signed, so only a checksum shows the changed package."""
    before, settings = state_of(fleet), {"version": "1.20.0", "key_url": f"{URL}/gpgkey"}
    with a_mirror("changed") as changed:
        (changed / "repodata/repomd.xml").write_bytes((changed / "repodata/repomd.xml").read_bytes() + b"\n")
        done = role(fleet, repository="http://lab-repo/changed", **settings)
        assert_refused(done, fleet, before, "cannot be read, and its definition was left as it was")
    with a_mirror("exchanged") as exchanged:
        for name in PACKAGES:
            package = exchanged / rpms.file_name(name, "1.20.0-1")
            package.write_bytes(package.read_bytes()[:-1] + b"x")
        done = role(fleet, repository="http://lab-repo/exchanged", **settings)
        assert done.failed() == list(nodes(fleet)), done.output
        for name in nodes(fleet):
            assert "cannot get version 1.20.0-1" in done.failures(name)[-1]
    assert_version(fleet, "1.19.1")


@contextmanager
def proxies(fleet: Fleet) -> Iterator[Path]:
    """Configure a proxy on each node, in the package manager's settings. Without such a setting, the yielded inventory has the proxy."""
    confs = {name: node.read(manager.conf) or b"" for name, (node, manager) in nodes(fleet).items() if manager.conf}
    bare = {name: {"proxy_environment": {"http_proxy": PROXY_URL}} for name in nodes(fleet) if name not in confs}
    started = ("--collect", "--unit=forward", "--service-type=notify", "--property=NotifyAccess=all")
    try:
        for name, (node, manager) in nodes(fleet).items():
            if name in confs:
                node.write(manager.conf, confs[name] + f"proxy={PROXY_URL}\n".encode())
            node.write("/run/forward.py", PROXY.read_bytes())
            node.run("systemd-run", *started, "python3", "/run/forward.py")
        yield members(fleet, bare)
    finally:
        for name, (node, manager) in nodes(fleet).items():
            if name in confs:
                node.write(manager.conf, confs[name])
            node.run("systemctl", "stop", "forward.service", check=False)


def install_through_proxy(fleet: Fleet) -> None:
    with proxies(fleet) as inventory:
        settings = toolkit(version="1.20.0", repository=BEHIND_IT, key_url=f"{URL}/gpgkey")
        done = fleet.playbook(inventory, *settings, playbook=str(PLAYBOOK))
    assert_installed(done, fleet, "1.20.0")
    for node, manager in nodes(fleet).values():
        assert BEHIND_IT in (node.read(manager.definition) or b"").decode()


def install_from_files(fleet: Fleet, folder: Path) -> None:
    for name in PACKAGES:
        shutil.copy2(rpms.repository(Lab.from_environment()) / rpms.file_name(name, "1.19.1-1"), folder)
    former = {name: node.read(manager.definition) for name, (node, manager) in nodes(fleet).items()}
    for node, manager in nodes(fleet).values():
        node.run("rm", manager.definition)
    try:
        done = role(fleet, version="1.19.1", package_directory=str(folder), hold=True)
        assert_installed(done, fleet, "1.19.1")
        assert [node.read(manager.definition) for node, manager in nodes(fleet).values()] == [None] * len(former)
    finally:
        for name, (node, manager) in nodes(fleet).items():
            node.write(manager.definition, former[name] or b"")


def remove_toolkit(fleet: Fleet) -> None:
    """Remove the toolkit with its repository and hold."""
    done = fleet.playbook(members(fleet), *toolkit(hold=True), "--extra-vars", "deprovision_packages=true", playbook="fleet.gpu_swarm.deprovision")
    assert done.rc == 0, done.output
    assert state_of(fleet) == dict.fromkeys(nodes(fleet), ({}, None, None))
    for node, manager in nodes(fleet).values():
        assert "nvidia" not in (node.read(manager.locks) or b"").decode()
        assert node.run("find", "/var/lib", "-maxdepth", "1", "-name", "gpu-swarm*") == ""
    for name in {"r1", "f1"} & nodes(fleet).keys():  # s1 had the toolkit before
        assert fleet[name].run("find", "/etc/nvidia-container-runtime", check=False) == ""
