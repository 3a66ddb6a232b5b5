# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the oldest supported ansible-core, and of the newest release that pip installs.

Each of them provisions, verifies and deprovisions a manager and a worker. A second run changes nothing. The oldest also manages a worker with
zypper, with the lowest community.general. A node with Debian 13's Python is its own controller, with the newest ansible-core.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.runner import cores

from .fleet import CHECKOUT, LIMIT_S, Fleet, Run, of_its_own

pytestmark = pytest.mark.rare

NAME = "e2e-controllers"
FLEET = """
vars: {nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container}
nodes:
  c1: {groups: [swarm_managers, gpu_nodes], gpus: t4x4}
  w1: {gpus: t4x4, image: debian12}
  s1: {gpus: t4x4, image: debian12, family: suse}
"""
NODES = ["c1", "w1"]
ZYPPER = ["s1"]  # the only use of community.general: with its lowest allowed version
CONTROLLER = "/srv/controller"
CHECK = "--check"
PLAYS = [
    ("provision", {}, CHECK),
    ("provision", {}),
    ("provision", {}),
    ("verify", {"verify_image": "lab/cuda"}),
    ("provision", {}, CHECK),
    ("deprovision", {}),
]
CORES = [cores.OLDEST, cores.NEWEST]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("controllers"))


def variables(home: str) -> dict[str, str]:
    return {"ANSIBLE_COLLECTIONS_PATH": home, "ANSIBLE_HOME": f"{home}/.ansible", "LC_ALL": "C.UTF-8"}


def arguments_of(inventory: str, play: str, settings: dict[str, str], *more: str) -> list[str]:
    return ["--inventory", inventory, "--extra-vars", json.dumps(settings), *more, f"fleet.gpu_swarm.{play}"]


def run_cycle(number: int, run: Run, nodes: list[str]) -> None:
    """Play the whole cycle. ``number`` is an index of PLAYS."""
    assert run.rc == 0, run.output
    deprecated = [line for line in run.output.splitlines() if "DEPRECATION" in line]
    assert deprecated == [], run.output
    if number in (2, 4):
        assert run.changed() == dict.fromkeys(nodes, 0), run.output
    if number == 3:
        assert f"with something wrong: 0; proved by a task: {len(nodes)}" in run.output, run.output


@pytest.mark.parametrize("core", CORES, ids=[core.name for core in CORES])
def test_an_ansible_core_runs_the_whole_cycle(fleet: Fleet, tmp_path: Path, core: cores.Core) -> None:
    before, versions = cores.provide(core)
    bounds = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["dependencies"]
    assert versions["community.general"] in SpecifierSet(bounds["community.general"] + (",<8.1" if core is cores.OLDEST else ",>=9"))
    nodes = [*NODES, *(ZYPPER if core is cores.OLDEST else ())]
    inventory = str(fleet.inventory(swarm_managers=["c1"], gpu_nodes=nodes))
    env = {**fleet.env, **variables(str(core.home))}
    for number, (play, settings, *more) in enumerate(PLAYS):
        command = [*before, str(core.interpreter.with_name("ansible-playbook")), *arguments_of(inventory, play, settings, *more)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        run_cycle(number, Run(done.returncode, done.stdout + done.stderr), nodes)


def carried(home: Path, core: cores.Core) -> Path:
    """Return the folder with everything that a controller needs."""
    own = home / "ansible_collections" / "fleet" / "gpu_swarm"
    for part in ("plugins", "roles", "playbooks", "meta"):
        shutil.copytree(CHECKOUT / part, own / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "galaxy.yml", own)
    shutil.copytree(core.packages, home / "lib", ignore=shutil.ignore_patterns("__pycache__", "ansible_test"))
    return home


def test_a_node_can_be_its_own_controller(fleet: Fleet, tmp_path: Path) -> None:
    node, core = fleet["c1"], cores.NEWEST
    cores.provide(core)
    assert node.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])") == core.python
    home = carried(tmp_path / "controller", core)
    subprocess.run(["docker", "--host", node.docker_host, "cp", str(home), f"{node.container}:{CONTROLLER}"], check=True, timeout=LIMIT_S)
    here = {"c1": {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}}
    node.write(f"{CONTROLLER}/inventory.yml", fleet.inventory(here, swarm_managers=["c1"], gpu_nodes=["c1"]).read_bytes())
    env = [f"{name}={value}" for name, value in {**variables(CONTROLLER), "PYTHONPATH": f"{CONTROLLER}/lib"}.items()]
    for number, (play, settings, *more) in enumerate(PLAYS):
        program = ["python3", "-m", "ansible", "playbook", *arguments_of(f"{CONTROLLER}/inventory.yml", play, settings, *more)]
        done = node.start("env", *env, *program, check=False)
        run_cycle(number, Run(done.returncode, (done.stdout + done.stderr).decode()), ["c1"])
