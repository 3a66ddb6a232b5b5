# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole way with the real dnf and the real zypper, on nodes whose facts are those of RHEL's and SUSE's families.

What follows the first test runs the role alone. Each test goes on from what the one before it left.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import rpms
from tests.lab.lab import Lab
from tests.lab.packages import NVIDIA, URL

from .fleet import Fleet, Node, Run, of_its_own, toolkit

FLEET = """\
vars:
  nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container
nodes:
  r1: {groups: [swarm_managers, gpu_nodes], gpus: rtx4090x2, image: debian12, family: rhel}
  s1: {gpus: t4x4, image: debian12, family: suse, retired: [nvidia-docker2, nvidia-container-runtime], toolkit: 1.14.0}
"""
NODES = ["r1", "s1"]
PLAYBOOK = Path(__file__).with_name("toolkit.yml")
PACKAGES = ["libnvidia-container-tools", "libnvidia-container1", "nvidia-container-toolkit", "nvidia-container-toolkit-base"]
RETIRED = ["nvidia-container-runtime", "nvidia-docker2"]
DEFINITIONS = {"r1": "/etc/yum.repos.d/nvidia-container-toolkit.repo", "s1": "/etc/zypp/repos.d/nvidia-container-toolkit.repo"}
KEYS = {"r1": "/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit", "s1": "/usr/share/keyrings/nvidia-container-toolkit-keyring.asc"}
UPGRADE = {"r1": ("dnf", "--assumeyes", "upgrade"), "s1": ("zypper", "--non-interactive", "update")}
MARK = "/var/lib/gpu-swarm/packages-unfinished"
DAEMON_JSON = b'{"debug": false}\n'
# As NVIDIA's nvidia-docker.repo had it, with a section of somebody else's, which stays. Nobody reaches any of the three.
STALE = "[{0}]\nname={0}\nbaseurl=https://nvidia.github.io/{0}/stable/rpm/$basearch\nenabled=0\n\n"
OWN = "[own]\nname=own\nbaseurl=http://mirror.invalid/own\nenabled=0\n\n"
DNF_CONF = "/etc/dnf/dnf.conf"
PROXY = Path(__file__).with_name("forward.py")
PROXY_URL = "http://127.0.0.1:3128"
# No node can resolve this name: what it serves came through the proxy.
BEHIND_IT = f"http://mirror.invalid/{NVIDIA}"


@pytest.fixture(scope="module")
def fleet(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("rpm")
    given = pytestconfig.getoption("--rpm-fleet")
    if given:
        yield Fleet.of(given, work)
        return
    yield from of_its_own("rpm", FLEET, work)


def installed(node: Node) -> dict[str, list[str]]:
    """The versions of each package, as rpm's database has them: each twice would be an error."""
    lines = node.run("rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\n").splitlines()
    found: dict[str, list[str]] = {}
    for name, version in (line.split() for line in lines):
        if name in (*PACKAGES, *RETIRED):
            found.setdefault(name, []).append(version)
    return found


def role(fleet: Fleet, **settings: Any) -> Run:
    inventory = fleet.inventory(swarm_managers=["r1"], gpu_nodes=NODES)
    return fleet.playbook(inventory, *toolkit(**settings), playbook=str(PLAYBOOK))


def is_there(fleet: Fleet, version: str) -> None:
    """In one version, once, and no transaction is open."""
    for name in NODES:
        assert installed(fleet[name]) == {package: [f"{version}-1"] for package in PACKAGES}
        assert fleet[name].read(MARK) is None
        assert f"version {version}" in fleet[name].run("nvidia-ctk", "--version")


def goes_well(done: Run, fleet: Fleet, version: str) -> None:
    assert done.rc == 0, done.output
    is_there(fleet, version)


def as_it_is(fleet: Fleet) -> dict[str, Any]:
    return {name: (installed(fleet[name]), fleet[name].read(DEFINITIONS[name]), fleet[name].read(KEYS[name])) for name in NODES}


def is_refused(done: Run, fleet: Fleet, before: dict[str, Any], *texts: str) -> None:
    assert done.failed() == NODES, done.output
    for name in NODES:
        for text in texts:
            assert text in done.failures(name)[-1]
    assert as_it_is(fleet) == before
    assert [fleet[name].read(MARK) for name in NODES] == [None, None]


def test_a_fleet_is_provisioned(fleet: Fleet) -> None:
    """From nothing, and from nvidia-docker2, whose package owns daemon.json; then there is nothing left to do."""
    inventory = fleet.inventory(swarm_managers=["r1"], gpu_nodes=NODES)
    fleet["s1"].write("/etc/docker/daemon.json", DAEMON_JSON)
    other = {name: str(Path(path).with_name("nvidia-docker.repo")) for name, path in DEFINITIONS.items()}
    for name in NODES:
        fleet[name].write(other[name], (STALE.format("libnvidia-container") + OWN + STALE.format("nvidia-docker")).encode())
    done = fleet.playbook(inventory, *toolkit(version="1.20.0"))
    assert done.rc == 0, done.output
    is_there(fleet, "1.20.0")
    for name in NODES:
        assert done.row(name).split()[-1] == "ready"
        assert fleet[name].read(other[name]) == OWN.encode()
    assert json.loads(fleet["s1"].read("/etc/docker/daemon.json") or b"")["debug"] is False
    done = fleet.playbook(inventory, *toolkit(version="1.20.0"))
    assert (done.rc, done.changed()) == (0, dict.fromkeys(NODES, 0)), done.output


@pytest.mark.rare
def test_a_version_is_held_and_changed_all_the_same(fleet: Fleet) -> None:
    """versionlock comes from a repository of the node; the next version is held in place of the former."""
    for version in ("1.18.1", "1.19.1"):
        goes_well(role(fleet, version=version, hold=True), fleet, version)
    for name in NODES:
        fleet[name].run(*UPGRADE[name])
    is_there(fleet, "1.19.1")


@pytest.mark.rare
def test_what_is_held_stays_unless_the_hold_is_the_role_s(fleet: Fleet) -> None:
    before = as_it_is(fleet)
    is_refused(role(fleet, version="1.20.0"), fleet, before, "The package manager holds libnvidia-container1", "nvidia_container_toolkit_hold")
    done = role(fleet, version="1.19.1", hold=False)
    assert done.rc == 0, done.output
    for name in NODES:
        fleet[name].run(*UPGRADE[name])
    is_there(fleet, "1.20.0")


def test_a_killed_transaction_is_finished_by_the_next_run(fleet: Fleet) -> None:
    """rpm has the package twice then, and nvidia-ctk reports the wanted version already."""
    for name in NODES:
        fleet[name].run("touch", rpms.KILL)
    done = role(fleet, version="1.19.1")
    assert done.failed() == NODES, done.output
    for name in NODES:
        assert "could not install version 1.19.1-1" in done.failures(name)[-1]
        assert [sorted(found) for found in installed(fleet[name]).values() if len(found) == 2] == [["1.19.1-1", "1.20.0-1"]]
        assert "version 1.19.1" in fleet[name].run("nvidia-ctk", "--version")
        assert fleet[name].read(rpms.KILL) is None
        assert fleet[name].read(MARK) is not None
    goes_well(role(fleet, version="1.19.1"), fleet, "1.19.1")
    for name in NODES:
        assert fleet[name].run("rpm", "--verify", *PACKAGES) == ""


@pytest.fixture
def mirrors() -> Iterator[Path]:
    folder = Lab.from_environment().repository / "rpm-tests"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def a_mirror(mirrors: Path, name: str) -> Path:
    target = mirrors / name / rpms.repository(Lab.from_environment()).relative_to(Lab.from_environment().repository / NVIDIA)
    shutil.copytree(rpms.repository(Lab.from_environment()), target)
    return target


def test_what_is_not_signed_or_not_as_it_was_signed_is_not_installed(fleet: Fleet, mirrors: Path) -> None:
    """The metadata is, not each package: a package that was exchanged has another checksum."""
    changed, exchanged = a_mirror(mirrors, "changed"), a_mirror(mirrors, "exchanged")
    (changed / "repodata/repomd.xml").write_bytes((changed / "repodata/repomd.xml").read_bytes() + b"\n")
    for name in PACKAGES:
        package = exchanged / rpms.file_name(name, "1.20.0-1")
        package.write_bytes(package.read_bytes()[:-1] + b"x")
    before, settings = as_it_is(fleet), {"version": "1.20.0", "key_url": f"{URL}/gpgkey"}
    done = role(fleet, repository="http://lab-repo/rpm-tests/changed", **settings)
    is_refused(done, fleet, before, "cannot be read, and its definition was left as it was")
    done = role(fleet, repository="http://lab-repo/rpm-tests/exchanged", **settings)
    assert done.failed() == NODES, done.output
    for name in NODES:
        assert "cannot get version 1.20.0-1" in done.failures(name)[-1]
    is_there(fleet, "1.19.1")


@pytest.mark.rare
def test_the_package_manager_s_proxy_is_used(fleet: Fleet) -> None:
    """By its own settings; Debian's zypper knows only those of its environment."""
    dnf_conf = fleet["r1"].read(DNF_CONF) or b""
    inventory = fleet.inventory({"s1": {"proxy_environment": {"http_proxy": PROXY_URL}}}, swarm_managers=["r1"], gpu_nodes=NODES)
    started = ("--collect", "--unit=forward", "--service-type=notify", "--property=NotifyAccess=all")
    try:
        fleet["r1"].write(DNF_CONF, dnf_conf + f"proxy={PROXY_URL}\n".encode())
        for name in NODES:
            fleet[name].write("/run/forward.py", PROXY.read_bytes())
            fleet[name].run("systemd-run", *started, "python3", "/run/forward.py")
        settings = toolkit(version="1.20.0", repository=BEHIND_IT, key_url=f"{URL}/gpgkey")
        done = fleet.playbook(inventory, *settings, playbook=str(PLAYBOOK))
    finally:
        fleet["r1"].write(DNF_CONF, dnf_conf)
        for name in NODES:
            fleet[name].run("systemctl", "stop", "forward.service", check=False)
    goes_well(done, fleet, "1.20.0")
    for name in NODES:
        assert BEHIND_IT in (fleet[name].read(DEFINITIONS[name]) or b"").decode()


@pytest.mark.rare
def test_packages_as_files_need_no_repository(fleet: Fleet, tmp_path: Path) -> None:
    for name in PACKAGES:
        shutil.copy2(rpms.repository(Lab.from_environment()) / rpms.file_name(name, "1.19.1-1"), tmp_path)
    definitions = {path: fleet[name].read(path) for name, path in DEFINITIONS.items()}
    for name, path in DEFINITIONS.items():
        fleet[name].run("rm", path)
    try:
        done = role(fleet, version="1.19.1", package_directory=str(tmp_path), hold=True)
        goes_well(done, fleet, "1.19.1")
        assert [fleet[name].read(path) for name, path in DEFINITIONS.items()] == [None, None]
    finally:
        for name, path in DEFINITIONS.items():
            fleet[name].write(path, definitions[path] or b"")


def test_all_of_it_is_removed_with_the_repository_and_the_hold(fleet: Fleet) -> None:
    inventory = fleet.inventory(swarm_managers=["r1"], gpu_nodes=NODES)
    done = fleet.playbook(inventory, *toolkit(hold=True), "--extra-vars", "deprovision_packages=true", playbook="fleet.gpu_swarm.deprovision")
    assert done.rc == 0, done.output
    assert as_it_is(fleet) == dict.fromkeys(NODES, ({}, None, None))
    assert "nvidia" not in (fleet["r1"].read("/etc/dnf/plugins/versionlock.list") or b"").decode()
    assert "nvidia" not in (fleet["s1"].read("/etc/zypp/locks") or b"").decode()
