# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet that reaches no repository, and a controller without a network. Both need only the result of the playbook bundle.

Each test continues with the state after the previous test.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.lab.packages import architecture

from .fleet import CHECKOUT, LIMIT_S, STATE_DIR, Fleet, Run, community_docker, of_its_own

pytestmark = pytest.mark.rare

NAME = "e2e-air-gap"
# The three nodes that reach the repository do not belong to the fleet.
FLEET = """
vars: {nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container}
nodes:
  a1: {groups: [swarm_managers, gpu_nodes], gpus: t4x4}
  a2: {gpus: a100, image: debian12}
  a3: {gpus: a100, image: debian12, family: rhel}
  a4: {gpus: a100, image: debian12, family: suse}
  deb: {groups: [swarm_workers], image: debian12}
  dnf: {groups: [swarm_workers], image: debian12, family: rhel}
  zypper: {groups: [swarm_workers], image: debian12, family: suse}
"""
APART = ["a1", "a2", "a3", "a4"]
MACHINES = ["deb", "dnf", "zypper"]
PACKAGES = ["libnvidia-container-tools", "libnvidia-container1", "nvidia-container-toolkit", "nvidia-container-toolkit-base"]
REACH = "import urllib.request; urllib.request.urlopen('http://lab-repo/', timeout=5)"
NO_NETWORK = ("unshare", "--net", "--")


@dataclass(frozen=True)
class Controller:
    """A separate Ansible environment made from a bundle, as docs/operate/air-gap.md shows."""

    home: Path
    bundle: Path

    def run(self, *command: str | Path) -> None:
        words = [*NO_NETWORK, *map(str, command)]
        env = {"PATH": f"{self.home / 'bin'}:/usr/bin:/bin", "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(words, cwd=self.bundle, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    def install(self) -> None:
        self.run("sha256sum", "--check", "--quiet", "SHA256SUMS")
        self.run(sys.executable, "-m", "venv", self.home)
        libraries = ["ansible-core", "nvidia-ml-py", "archspec"]
        self.run(self.home / "bin/pip", "install", "--quiet", "--no-index", "--find-links", "python", *libraries)
        archives = sorted((self.bundle / "collections").glob("*.tar.gz"))
        self.run(self.home / "bin/ansible-galaxy", "collection", "install", "--offline", "-p", self.home / "collections", *archives)
        # The way to the nodes is the lab's, and not part of a bundle.
        (self.home / "collections/ansible_collections/community/docker").symlink_to(community_docker())

    def playbook(self, fleet: Fleet, inventory: Path, name: str, *arguments: str) -> Run:
        program = str(self.home / "bin/ansible-playbook")
        env = {**fleet.env, "ANSIBLE_COLLECTIONS_PATH": str(self.home / "collections"), "ANSIBLE_HOME": str(self.home / ".ansible")}
        done = subprocess.run(
            [*NO_NETWORK, program, "--inventory", str(inventory), *arguments, f"fleet.gpu_swarm.{name}"],
            cwd=self.home, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        return Run(done.returncode, done.stdout)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Start the fleet. Its first four nodes cannot reach a repository, because they cannot resolve the repository's name."""
    for fleet in of_its_own(NAME, FLEET, tmp_path_factory.mktemp("air-gap")):
        for name in APART:
            address = fleet[name].run("getent", "ahostsv4", "lab-repo").split()[0]
            fleet[name].run("ip", "route", "add", "unreachable", f"{address}/32")
        yield fleet


@pytest.fixture(scope="module")
def bundle(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Download the bundle with nodes of all three families. A second run downloads nothing."""
    folder = tmp_path_factory.mktemp("stick") / "gpu-swarm"
    inventory = fleet.inventory(swarm_workers=MACHINES)
    fleet["dnf"].run("dnf", "install", "--assumeyes", "dnf-command(download)")
    before = {name: fleet[name].run("find", "/etc", "-type", "f", "-newer", "/etc/dnf", check=False) for name in MACHINES}
    arguments = ["-e", f"bundle={folder}", "-e", f"machines={','.join(MACHINES)}"]
    run = fleet.playbook(inventory, *arguments, playbook="fleet.gpu_swarm.bundle")
    assert run.rc == 0, run.output
    again = fleet.playbook(inventory, *arguments, playbook="fleet.gpu_swarm.bundle")
    assert (again.rc, again.changed()["localhost"]) == (0, 0), again.output
    assert {name: fleet[name].run("find", "/etc", "-type", "f", "-newer", "/etc/dnf", check=False) for name in MACHINES} == before
    return folder


@pytest.fixture(scope="module")
def controller(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Controller:
    made = Controller(tmp_path_factory.mktemp("controller"), bundle)
    made.install()
    return made


@pytest.fixture(scope="module")
def inventory(fleet: Fleet, bundle: Path) -> Path:
    hosts = {name: {"nvidia_container_toolkit_package_directory": str(bundle / "packages")} for name in APART}
    return fleet.inventory(hosts, swarm_managers=["a1"], gpu_nodes=APART)


def test_the_bundle_has_what_its_page_lists(bundle: Path) -> None:
    found = sorted(path.name for path in (bundle / "packages").iterdir())
    assert found == sorted(name for one in PACKAGES for name in (f"{one}_1.20.0-1_{architecture()}.deb", f"{one}-1.20.0-1.{os.uname().machine}.rpm"))
    assert set(named("collections/")) == {".".join(path.name.split("-", 2)[:2]) for path in (bundle / "collections").iterdir()}
    wheels = {path.name.split("-")[0].replace("_", "-"): path.name.split("-")[1] for path in (bundle / "python").iterdir()}
    assert set(named("python/")) - set(wheels) == set()
    assert wheels["ansible-core"] == version("ansible-core")


def test_each_file_of_the_bundle_has_a_checksum_and_no_other_has(bundle: Path) -> None:
    lines = [line.split("  ", 1) for line in (bundle / "SHA256SUMS").read_text().splitlines()]
    files = {str(path.relative_to(bundle)): path for path in bundle.rglob("*") if path.is_file() and path.name != "SHA256SUMS"}
    assert sorted(name for _sum, name in lines) == sorted(files)
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()} == {name: sum_ for sum_, name in lines}


def named(directory: str) -> list[str]:
    """Return the entries that the page's table lists for that folder."""
    (row,) = (line for line in (CHECKOUT / "docs/operate/air-gap.md").read_text().splitlines() if line.startswith(f"| `{directory}` |"))
    return [name.strip("`") for name in re.findall(r"`[a-z0-9_.-]+`|\bansible-core\b", row.split(" | ")[1])]


def test_the_fleet_is_provisioned(fleet: Fleet, controller: Controller, inventory: Path) -> None:
    tried = {name: fleet[name].start("python3", "-c", REACH, check=False) for name in APART}
    assert [name for name, done in tried.items() if b"OSError" not in done.stderr and b"URLError" not in done.stderr] == []
    checked = controller.playbook(fleet, inventory, "provision", "--check", "--diff")
    assert checked.rc == 0, checked.output
    run = controller.playbook(fleet, inventory, "provision")
    assert run.rc == 0, run.output
    again = controller.playbook(fleet, inventory, "provision")
    assert (again.rc, again.changed()) == (0, dict.fromkeys(APART, 0)), again.output


def test_the_fleet_is_verified(fleet: Fleet, controller: Controller, inventory: Path) -> None:
    run = controller.playbook(fleet, inventory, "verify", "-e", "verify_image=lab/cuda")
    assert run.rc == 0, run.output
    assert "with something wrong: 0; proved by a task: 4" in run.output, run.output


def test_the_fleet_is_deprovisioned(fleet: Fleet, controller: Controller, inventory: Path) -> None:
    run = controller.playbook(fleet, inventory, "deprovision", "-e", "deprovision_packages=true")
    assert run.rc == 0, run.output
    for name in APART:
        assert fleet[name].swarm()["LocalNodeState"] == "inactive"
        assert fleet[name].run("find", STATE_DIR, "-mindepth", "1", check=False) == ""


def test_a_missing_version_is_reported(fleet: Fleet, tmp_path: Path) -> None:
    inventory = fleet.inventory(swarm_workers=["deb"])
    wanted = ["-e", f"bundle={tmp_path / 'none'}", "-e", "machines=deb", "-e", "nvidia_container_toolkit_version=9.9.9"]
    run = fleet.playbook(inventory, *wanted, playbook="fleet.gpu_swarm.bundle")
    assert run.rc == 2, run.output
    assert "nvidia-container-toolkit: version 9.9.9-1 is not available" in run.output
    assert list((tmp_path / "none" / "packages").iterdir()) == []
