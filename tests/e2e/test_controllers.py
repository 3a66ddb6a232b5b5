# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The oldest ansible-core that the collection takes, with the lowest community.docker, and the newest of both that pip installs: a node is
provisioned, a second run changes nothing, it is verified and deprovisioned. The newest needs a newer Python than Debian 12 has: the node is
its own controller."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from .fleet import CHECKOUT, LIMIT_S, Fleet, Run, of_its_own

pytestmark = pytest.mark.rare

NAME = "e2e-controllers"
FLEET = """
vars: {nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container}
nodes:
  c1: {groups: [swarm_managers, gpu_nodes], gpus: t4x4}
"""
# What the collection needs of a controller beside ansible-core, and of Ansible's own collections.
LIBRARIES = ["archspec", "docker", "jsondiff", "nvidia-ml-py", "tomli"]
DEPENDENCIES = ("community/docker", "community/general")
# The first `ansible` that brings community.docker 4.1; ansible-core 2.16 is older than that, and is taken apart from it.
LOWEST = ("ansible-core==2.16.*", "ansible==11.1.0")
NEWEST = ("ansible-core", "ansible")
CONTROLLER = "/srv/controller"
PLAYS = [("provision", {}), ("provision", {}), ("verify", {"verify_image": "lab/cuda"}), ("deprovision", {})]


@dataclass(frozen=True)
class Controller:
    """Libraries and collections in one directory, for a Python."""

    home: Path
    python: str  # "3.11"

    def pip(self, command: str, *words: str) -> None:
        only = ("--only-binary=:all:", f"--python-version={self.python}", "--implementation=cp", "--disable-pip-version-check", "--quiet")
        subprocess.run([sys.executable, "-m", "pip", command, *only, *words], check=True, timeout=LIMIT_S)

    def build(self, core: str, bundle: str) -> None:
        self.pip("install", f"--target={self.home / 'lib'}", core, *LIBRARIES)
        self.pip("download", "--no-deps", f"--dest={self.home}", bundle)
        (wheel,) = self.home.glob("ansible-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if name.startswith(tuple(f"ansible_collections/{one}/" for one in DEPENDENCIES))]
            archive.extractall(self.home, wanted)
        wheel.unlink()
        own = self.home / "ansible_collections" / "fleet" / "gpu_swarm"
        for part in ("plugins", "roles", "playbooks", "meta"):
            shutil.copytree(CHECKOUT / part, own / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(CHECKOUT / "galaxy.yml", own)

    def version_of(self, collection: str) -> str:
        manifest = self.home / "ansible_collections" / collection / "MANIFEST.json"
        return str(json.loads(manifest.read_text())["collection_info"]["version"])

    def core(self) -> str:
        (found,) = (self.home / "lib").glob("ansible_core-*.dist-info")
        return found.name.split("-")[1].removesuffix(".dist")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("controllers"))


def variables(home: str) -> dict[str, str]:
    return {"PYTHONPATH": f"{home}/lib", "ANSIBLE_COLLECTIONS_PATH": home, "ANSIBLE_HOME": f"{home}/.ansible", "LC_ALL": "C.UTF-8"}


def goes_through(play: str, run: Run, number: int) -> None:
    assert run.rc == 0, run.output
    assert "DEPRECATION" not in run.output, run.output
    if number == 1:
        assert run.changed() == {"c1": 0}, run.output
    if play == "verify":
        assert "with something wrong: 0; proved by a task: 1" in run.output, run.output


def test_the_oldest(fleet: Fleet, tmp_path: Path) -> None:
    controller = Controller(tmp_path / "controller", ".".join(map(str, sys.version_info[:2])))
    controller.build(*LOWEST)
    bounds = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["dependencies"]
    assert controller.core().startswith("2.16.")
    assert controller.version_of("community/docker") in SpecifierSet(bounds["community.docker"] + ",<4.2")
    inventory = fleet.inventory(swarm_managers=["c1"], gpu_nodes=["c1"])
    program = str(controller.home / "lib" / "bin" / "ansible-playbook")
    for number, (play, settings) in enumerate(PLAYS):
        words = [sys.executable, program, "--inventory", str(inventory), "--extra-vars", json.dumps(settings), f"fleet.gpu_swarm.{play}"]
        done = subprocess.run(
            words, cwd=tmp_path, env={**fleet.env, **variables(str(controller.home))}, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )  # fmt: skip
        goes_through(play, Run(done.returncode, done.stdout + done.stderr), number)


def test_the_newest(fleet: Fleet, tmp_path: Path) -> None:
    node = fleet["c1"]
    controller = Controller(tmp_path / "controller", node.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"))
    controller.build(*NEWEST)
    print(f"ansible-core {controller.core()}, community.docker {controller.version_of('community/docker')}, Python {controller.python}")
    subprocess.run(["docker", "--host", node.docker_host, "cp", str(controller.home), f"{node.container}:{CONTROLLER}"], check=True, timeout=LIMIT_S)
    here = {"c1": {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}}
    node.write(f"{CONTROLLER}/inventory.yml", fleet.inventory(here, swarm_managers=["c1"], gpu_nodes=["c1"]).read_bytes())
    env = [f"{name}={value}" for name, value in variables(CONTROLLER).items()]
    for number, (play, settings) in enumerate(PLAYS):
        words = ["--inventory", f"{CONTROLLER}/inventory.yml", "--extra-vars", json.dumps(settings), f"fleet.gpu_swarm.{play}"]
        done = node.start("env", *env, "python3", f"{CONTROLLER}/lib/bin/ansible-playbook", *words, check=False)
        goes_through(play, Run(done.returncode, (done.stdout + done.stderr).decode()), number)
