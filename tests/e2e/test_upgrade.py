# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet that the release before has provisioned, with work on it, and a run of that release which was left half-way: what it wrote on
nodes and into the swarm is understood. Each test goes on with what the one before it left."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from .fleet import CHECKOUT, DAEMON_JSON, STATE_DIR, Fleet, advertised_as, of_its_own

pytestmark = pytest.mark.rare

NAME = "e2e-upgrade"
BY_A_PERSON = '{ "log-opts": {"max-size": "10m"},   "debug":false}'
FLEET = f"""
vars: {{nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container}}
nodes:
  u1: {{groups: [swarm_managers, gpu_nodes], gpus: t4x4, image: debian12}}
  u2: {{gpus: rtx4090x2, daemon_json: '{BY_A_PERSON}'}}
"""
NODES = ["u1", "u2"]
# What stands in a swarm's label while somebody's run has it.
OTHER = {"holder": "bob@elsewhere pid 7", "ttl": 600}


def released(path: Path) -> Path:
    """The newest release, as it stands in this repository's history, where Ansible finds collections."""
    versions = yaml.safe_load((CHECKOUT / "changelogs" / "changelog.yaml").read_text())["releases"]
    newest = max(versions, key=lambda version: tuple(map(int, version.split("."))))
    log = ["git", "-C", str(CHECKOUT), "log", "--format=%H", f"--grep=^Release {newest}$"]
    commits = subprocess.run(log, capture_output=True, text=True, check=True).stdout.split()
    assert commits, f"the history here has no commit 'Release {newest}': this test takes a whole clone"
    target = path / "ansible_collections" / "fleet" / "gpu_swarm"
    target.mkdir(parents=True)
    tree = ["git", "-C", str(CHECKOUT), "archive", commits[0], "plugins", "roles", "playbooks", "meta", "galaxy.yml"]
    packed = subprocess.run(tree, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-xC", str(target)], input=packed, check=True)
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("upgrade"))


@pytest.fixture(scope="module")
def old(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """The same fleet, for runs of the release before."""
    return replace(fleet, env={**fleet.env, "ANSIBLE_COLLECTIONS_PATH": str(released(tmp_path_factory.mktemp("released")))})


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=["u1"], gpu_nodes=NODES)


@pytest.fixture(scope="module")
def before(fleet: Fleet, old: Fleet, inventory: Path) -> dict[str, dict[str, bytes | None]]:
    """The nodes' files before anything. By now a service has a GPU of u1, and a container made a run leave u2 paused."""
    found = {name: fleet[name].files() for name in NODES}
    manager, waiting = fleet["u1"], fleet["u2"]
    run = old.playbook(inventory)
    assert run.rc == 0, run.output
    manager.docker(
        "service", "create", "--quiet", "--name", "train", "--generic-resource", "NVIDIA-GPU=1", "--constraint", "node.hostname==u1", "lab/task"
    )
    waiting.docker("run", "--detach", "--name", "notebook", "lab/task")
    try:
        run = old.playbook(inventory, "--limit", "u2", *advertised_as("OTHER"), "--extra-vars", json.dumps({"provision_wait": 4}))
    finally:
        waiting.docker("rm", "--force", "notebook")
    assert run.rc == os.EX_TEMPFAIL, run.output
    assert availability(fleet, "u2") == "pause"
    return found


def availability(fleet: Fleet, name: str) -> str:
    return str(fleet["u1"].docker("node", "inspect", "--format", "{{.Spec.Availability}}", name))


def tasks(fleet: Fleet) -> list[str]:
    return fleet["u1"].docker("service", "ps", "--no-trunc", "--format", "{{.ID}} {{.Node}} {{.DesiredState}}", "train").splitlines()


def state(fleet: Fleet) -> Any:
    """When each daemon was started, and the tasks of the service: as long as this stays, nobody's work was touched."""
    return [fleet[name].started() for name in NODES], tasks(fleet)


def test_its_lease_is_respected(fleet: Fleet, old: Fleet, inventory: Path, before: dict[str, Any]) -> None:
    taken = old.module("u1", "fleet.gpu_swarm.swarm_lease", OTHER)
    assert '"acquired": true' in taken.output, taken.output
    was = state(fleet)
    try:
        run = fleet.playbook(inventory)
        assert run.rc == 2, run.output
        assert f"another run changes this swarm: {OTHER['holder']}" in run.output, run.output
        assert state(fleet) == was
    finally:
        freed = fleet.module("u1", "fleet.gpu_swarm.swarm_lease", {**OTHER, "state": "absent"})
    assert '"changed": true' in freed.output, freed.output


def test_a_check_run_reports_and_touches_nothing(fleet: Fleet, inventory: Path, before: dict[str, Any]) -> None:
    was = state(fleet)
    for name in NODES:
        fleet[name].touch()
    run = fleet.playbook(inventory, "--check", "--diff")
    assert run.rc == 0, run.output
    assert {name: fleet[name].touched() for name in NODES} == {name: [] for name in NODES}
    assert state(fleet) == was


def test_the_new_run_finishes_the_old_one_and_restarts_nothing(fleet: Fleet, inventory: Path, before: dict[str, Any]) -> None:
    was = state(fleet)
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    assert availability(fleet, "u2") == "active"
    assert state(fleet) == was
    again = fleet.playbook(inventory)
    assert (again.rc, again.changed()) == (0, dict.fromkeys(NODES, 0)), again.output
    assert state(fleet) == was


def test_all_of_both_is_removed(fleet: Fleet, inventory: Path, before: dict[str, dict[str, bytes | None]]) -> None:
    """The files are what they were before the release before came."""
    fleet["u1"].docker("service", "rm", "train")
    run = fleet.playbook(inventory, playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    for name in NODES:
        assert fleet[name].read(DAEMON_JSON) == before[name][DAEMON_JSON]
        assert fleet[name].run("find", STATE_DIR, "-mindepth", "1", check=False) == ""
    assert fleet["u2"].read(DAEMON_JSON) == BY_A_PERSON.encode()
