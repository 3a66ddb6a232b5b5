# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs and stacks on two swarms of one node: one has the oldest release of Docker, one the newest. Other tests have a leader with Docker 26.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .fleet import Fleet, Node, of_its_own
from .jobs import JOB, LABEL, PRUNE, label_leaves_alone

NAME = "e2e-releases"
FLEET = """
nodes:
  l1: {groups: [swarm_managers], image: debian12, daemon_json: '{"node-generic-resources": ["NVIDIA-GPU=GPU-a"]}'}
  l2: {groups: [swarm_managers], image: debian-testing, daemon_json: '{"node-generic-resources": ["NVIDIA-GPU=GPU-a"]}'}
"""
# Each job gets the GPU when the previous job has ended.
SWEEP = {"name": "sweep", "image": "lab/task", "command": ["sh", "-c", "exit $CODE"], "array": [{"CODE": 0}, {"CODE": 3}]}
# This key needs a newer version of the Compose file format.
LIMITED = {"services": {"a": {"image": "lab/task", "command": ["sleep", "100000"], "deploy": {"resources": {"limits": {"pids": 100}}}}}}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("releases"))


@pytest.fixture(params=["l1", "l2"])
def leader(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Node]:
    node = fleet[request.param]
    node.docker("swarm", "init", "--advertise-addr", node.address)
    yield node
    node.leave()


def test_a_label_reruns_no_job_and_finished_jobs_are_removed(fleet: Fleet, leader: Node, tmp_path: Path) -> None:
    inventory = fleet.inventory(swarm_managers=[leader.name])
    (tmp_path / "job.yml").write_text(yaml.safe_dump(SWEEP))
    run = fleet.playbook(inventory, "-e", f"job={tmp_path / 'job.yml'}", playbook=JOB)
    assert (run.rc, "1 complete, 1 failed" in run.output) == (2, True), run.output

    def names() -> list[str]:
        return leader.docker("service", "ls", "--format", "{{.Name}}", "--filter", LABEL).split()

    label_leaves_alone(leader, names())
    run = fleet.playbook(inventory, "-e", "older_than=0s", "-e", "failed=true", playbook=PRUNE)
    assert (run.rc, names()) == (0, []), run.output


@pytest.mark.rare
def test_a_stack_may_have_a_limit_of_processes(fleet: Fleet, leader: Node, tmp_path: Path) -> None:
    (tmp_path / "compose.yml").write_text(yaml.safe_dump(LIMITED))
    arguments = ("-e", f"compose={tmp_path / 'compose.yml'}", "-e", "stack=limited")
    run = fleet.playbook(fleet.inventory(swarm_managers=[leader.name]), *arguments, playbook="fleet.gpu_swarm.deploy")
    assert (run.rc, "limited_a: 1 of 1 running" in run.output) == (0, True), run.output
    assert leader.docker("service", "inspect", "--format", "{{.Spec.TaskTemplate.Resources.Limits.Pids}}", "limited_a") == "100"


WITH_A_GPU = """
services:
  a:
    image: lab/task
    command: [sleep, "100000"]
    stop_signal: SIGKILL
    gpus: [{count: 1}]
"""


def test_a_service_with_a_gpu_may_have_its_own_network(fleet: Fleet, leader: Node, tmp_path: Path) -> None:
    """The oldest leader stops a GPU task when its network arrives on the node. So a service without GPUs must bring the network to the node first."""
    inventory, old = fleet.inventory(swarm_managers=[leader.name]), leader.name == "l1"
    (tmp_path / "compose.yml").write_text(WITH_A_GPU)
    deploy = ("-e", f"compose={tmp_path / 'compose.yml'}", "-e", "stack=gpu")
    run, again = (fleet.playbook(inventory, *deploy, playbook="fleet.gpu_swarm.deploy") for _time in range(2))
    assert (run.rc, "gpu_a: 1 of 1 running" in run.output, "failed, the last with" in run.output) == (0, True, False), run.output
    assert ("network-evicts-gpu-tasks" in run.output) is old, run.output
    assert (again.rc, again.changed()[leader.name]) == (0, 0), again.output
    names = {"gpu_a", *(["gpu_a-gpu-swarm-network"] if old else [])}
    assert set(leader.docker("service", "ls", "--format", "{{.Name}}").split()) == names
    # If such a service is not ours, status reports a finding.
    leader.docker("network", "create", "--driver", "overlay", "theirs")
    by_hand = ("--detach", "--name", "by-hand", "--network", "theirs", "--generic-resource", "NVIDIA-GPU=1")
    leader.docker("service", "create", *by_hand, "lab/task", "sleep", "9")
    status = fleet.playbook(inventory, playbook="fleet.gpu_swarm.status")
    assert ("Here: service by-hand." in " ".join(status.output.split())) is old, status.output
    gone = fleet.playbook(inventory, "-e", "stack=gpu", "-e", "state=absent", playbook="fleet.gpu_swarm.deploy")
    assert (gone.rc, leader.docker("service", "ls", "--format", "{{.Name}}").split()) == (0, ["by-hand"]), gone.output
