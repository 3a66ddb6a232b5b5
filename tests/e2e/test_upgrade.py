# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet that the previous release provisioned, with work on it. One of its runs stopped half-way, and one was killed while it changed a node.

The new release understands everything that these runs wrote on nodes and into the swarm. Each test continues with the state after the previous test.
"""

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

from .fleet import CHECKOUT, DAEMON_JSON, STATE_DIR, Fleet, Node, advertised_as, of_its_own, wait_until

pytestmark = pytest.mark.rare

NAME = "e2e-upgrade"
BY_A_PERSON = '{ "log-opts": {"max-size": "10m"},   "debug":false}'
FLEET = f"""
vars: {{nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container}}
nodes:
  u1: {{groups: [swarm_managers, gpu_nodes], gpus: t4x4, image: debian12}}
  u2: {{gpus: rtx4090x2, daemon_json: '{BY_A_PERSON}'}}
  u3: {{gpus: rtx4090x2, daemon_json: '{BY_A_PERSON}'}}
"""
NODES = ["u1", "u2"]
KILLED = "u3"
EVERY = [*NODES, KILLED]
PLAY = "fleet.gpu_swarm.provision"
# The labels about GPUs on u2, with both releases.
PREFIX = "acme."
# The GPU model of u2 and u3.
MODEL = "NVIDIA-GeForce-RTX-4090"
COMPOSE = """
services:
  large:
    image: lab/task
    x-gpu: {model: "*4090*", memory_min: 20000}
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}
"""
JOURNAL = f"{STATE_DIR}/journal.json"
# The swarm's label while a run has the lease.
OTHER = {"holder": "bob@elsewhere pid 7", "ttl": 600}


def released(path: Path) -> Path:
    """Return the newest release from this repository's history, in a folder where Ansible finds collections."""
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
    """Return the same fleet for runs of the previous release."""
    return replace(fleet, env={**fleet.env, "ANSIBLE_COLLECTIONS_PATH": str(released(tmp_path_factory.mktemp("released")))})


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory({"u2": {"gpu_node_label_prefix": PREFIX}}, swarm_managers=["u1"], gpu_nodes=EVERY)


@pytest.fixture(scope="module")
def before(fleet: Fleet, old: Fleet, inventory: Path) -> dict[str, dict[str, bytes | None]]:
    """Return the original files. Then a service gets a GPU of u1, a container makes a run leave u2 paused, and a run is killed on u3."""
    found = {name: fleet[name].files() for name in EVERY}
    manager, waiting = fleet["u1"], fleet["u2"]
    run = old.playbook(inventory)
    assert run.rc == 0, run.output
    manager.docker(
        "service", "create", "--quiet", "--name", "train", "--generic-resource", "NVIDIA-GPU=1", "--constraint", "node.hostname==u1", "lab/task"
    )
    change = ["--limit", KILLED, *advertised_as("HALF")]
    old.killed_when("a change of u3", lambda: ended_within(fleet[KILLED]), inventory, *change, playbook=PLAY)
    assert fleet[KILLED].read(JOURNAL)
    waiting.docker("run", "--detach", "--name", "notebook", "lab/task")
    try:
        run = old.playbook(inventory, "--limit", "u2", *advertised_as("OTHER"), "--extra-vars", json.dumps({"provision_wait": 4}))
    finally:
        waiting.docker("rm", "--force", "notebook")
    assert run.rc == os.EX_TEMPFAIL, run.output
    assert availability(fleet, "u2") == "pause"
    return found


# This runs on the node itself, because a change may end before two commands from here reach the node.
ENDS_WITHIN = r"""
until test -e "$1"; do sleep 0.01; done
pkill --signal KILL --full '^/usr/bin/python3[.0-9]*( |$)'
test -e "$1"
"""


def ended_within(node: Node) -> bool:
    """Wait for a change of this node, kill the run, and return whether the change was still unfinished."""
    return node.start("timeout", "60", "sh", "-c", ENDS_WITHIN, "-", JOURNAL, check=False).returncode == 0


def labels(fleet: Fleet, name: str) -> dict[str, str]:
    found: dict[str, str] = fleet["u1"].docker_json("node", "inspect", "--format", "{{json .Spec.Labels}}", name)
    return found


def availability(fleet: Fleet, name: str) -> str:
    return str(fleet["u1"].docker("node", "inspect", "--format", "{{.Spec.Availability}}", name))


def advertises(fleet: Fleet, name: str) -> set[str]:
    """Return the kinds that the manager shows."""
    resources = fleet["u1"].docker_json("node", "inspect", "--format", "{{json .Description.Resources.GenericResources}}", name)
    return {one["NamedResourceSpec"]["Kind"] for one in resources}


def tasks(fleet: Fleet) -> list[str]:
    return fleet["u1"].docker("service", "ps", "--no-trunc", "--format", "{{.ID}} {{.Node}} {{.DesiredState}}", "train").splitlines()


def state(fleet: Fleet) -> Any:
    """Return the start time of each daemon, and the tasks of the service. If these are unchanged, the run has disturbed no work."""
    return [fleet[name].started() for name in NODES], tasks(fleet)


def test_the_lease_of_the_previous_release_is_respected(fleet: Fleet, old: Fleet, inventory: Path, before: dict[str, Any]) -> None:
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


def test_a_check_run_reports_and_changes_nothing(fleet: Fleet, inventory: Path, before: dict[str, Any]) -> None:
    was = state(fleet)
    for name in NODES:
        fleet[name].touch()
    run = fleet.playbook(inventory, "--check", "--diff")
    assert run.rc == 0, run.output
    assert {name: fleet[name].touched() for name in NODES} == {name: [] for name in NODES}
    assert state(fleet) == was


def test_a_killed_change_of_a_node_is_finished_and_its_labels_are_known(fleet: Fleet, inventory: Path, before: dict[str, Any]) -> None:
    """A label is removed with its setting, but another owner's label stays. The lease of the killed run expires meanwhile."""
    fleet["u1"].docker("node", "update", "--label-add", "gpu.rack=r3", KILLED)
    assert {"gpu.mem_ge_16", "gpu.mem_ge_24"} <= set(labels(fleet, KILLED))
    was = state(fleet)
    run = fleet.playbook(inventory, "--limit", KILLED, "--extra-vars", json.dumps({"gpu_node_label_memory": [24]}))
    assert run.rc == 0, run.output
    left = fleet[KILLED].read(JOURNAL)
    assert left is None or json.loads(left).get("kind") == "label"  # the new watcher has a journal of its own while it writes its label
    assert (availability(fleet, KILLED), advertises(fleet, KILLED)) == ("active", {"NVIDIA-GPU"})
    found = labels(fleet, KILLED)
    assert ("gpu.mem_ge_16" in found, found["gpu.mem_ge_24"], found["gpu.rack"]) == (False, "true", "r3")
    assert state(fleet) == was


def test_the_new_run_finishes_the_old_one_without_a_restart(fleet: Fleet, inventory: Path, before: dict[str, Any]) -> None:
    was = state(fleet)
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    assert availability(fleet, "u2") == "active"
    assert state(fleet) == was
    again = fleet.playbook(inventory)
    assert (again.rc, again.changed()) == (0, dict.fromkeys(EVERY, 0)), again.output
    assert state(fleet) == was


def models(fleet: Fleet, inventory: Path) -> dict[str, int]:
    """Return how many GPUs of each model ``status`` shows."""
    run = fleet.playbook(inventory, "-e", "output=json", playbook="fleet.gpu_swarm.status")
    found = next(json.loads(line) for line in run.output.splitlines() if line.startswith("{"))
    return {row["model"]: row["total"] for row in found["totals"]}


def about_gpus(fleet: Fleet, name: str) -> set[str]:
    """Return the prefix of the node's labels that describe GPUs."""
    return {key[: -len("model")] for key in labels(fleet, name) if key.endswith("model")}


def test_the_prefix_of_labels_is_known_from_the_swarm(fleet: Fleet, before: dict[str, Any], tmp_path: Path) -> None:
    """Another controller uses this prefix, although its inventory does not set it."""
    path, inventory = tmp_path / "compose.yml", fleet.inventory(swarm_managers=["u1"])
    path.write_text(COMPOSE)
    assert {name: about_gpus(fleet, name) for name in EVERY} == {"u1": {"gpu."}, "u2": {PREFIX}, "u3": {"gpu."}}
    assert models(fleet, inventory) == {"Tesla-T4": 4, MODEL: 4}
    run = fleet.playbook(inventory, "-e", f"compose={path}", "-e", "stack=e2e", "--check", playbook="fleet.gpu_swarm.deploy")
    assert run.rc == 0, run.output
    assert "=true is added to u2, u3" in run.output, run.output


def test_without_a_prefix_there_are_no_labels_and_nodes_report_the_model(
    fleet: Fleet, inventory: Path, before: dict[str, Any], tmp_path: Path
) -> None:
    """Labels of both prefixes are removed. The leader stops a task at an update of its node, so u1 reports no model before its task has ended."""
    was = [fleet[name].started() for name in NODES]
    run = fleet.playbook(inventory, "--extra-vars", json.dumps({"gpu_node_label_prefix": ""}))
    assert run.rc == 0, run.output
    assert "evicts task train.1" in run.output, run.output
    assert {name: about_gpus(fleet, name) for name in EVERY} == {name: set() for name in EVERY}
    assert labels(fleet, KILLED)["gpu.rack"] == "r3"
    # u1 may report its model too: under Docker 20.10, it does so while no task has one of its GPUs, such as after the eviction.
    wait_until("the model of u2 and u3", lambda: models(fleet, inventory).get(MODEL) == 4, shown=lambda: models(fleet, inventory))
    (path := tmp_path / "compose.yml").write_text(COMPOSE)
    run = fleet.playbook(inventory, "-e", f"compose={path}", "-e", "stack=e2e", "--check", playbook="fleet.gpu_swarm.deploy")
    assert run.rc == 2, run.output
    assert "no GPU labels: u1, u2, u3. Their gpu_node_label_prefix is empty." in run.output, run.output
    assert [fleet[name].started() for name in NODES] == was


def test_everything_of_both_releases_is_removed(fleet: Fleet, inventory: Path, before: dict[str, dict[str, bytes | None]]) -> None:
    """The files are the same as before the previous release. NVIDIA's packages stay by default, and so does the record of their files."""
    fleet["u1"].docker("service", "rm", "train")
    run = fleet.playbook(inventory, playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    for name in EVERY:
        assert fleet[name].read(DAEMON_JSON) == before[name][DAEMON_JSON]
        assert fleet[name].run("find", STATE_DIR, "-mindepth", "1", check=False) == f"{STATE_DIR}/toolkit-files.json"
    assert [fleet[name].read(DAEMON_JSON) for name in ("u2", KILLED)] == [BY_A_PERSON.encode()] * 2
