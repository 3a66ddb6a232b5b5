# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy: an ordinary Compose file runs on the swarm, its tasks see the GPUs that it counts, and nothing is deployed that cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Loud
from .fleet import Fleet, wait_until

PLAYBOOK = "fleet.gpu_swarm.deploy"
STACK = "e2e"
COMPOSE = """
name: another
services:
  train:
    image: lab/task
    restart: unless-stopped
    env_file: own.env
    command: ["sh", "-c", "echo $$SAYS; cat /note; nvidia-smi -L; exec sleep 100000"]
    configs: [{source: note, target: /note}]
    depends_on: {web: {condition: service_started}}
    stop_grace_period: 1s
    deploy:
      replicas: ${REPLICAS}
      resources:
        reservations:
          devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]
  web: {image: lab/task, command: ["sleep", "100000"], stop_grace_period: 1s}
configs:
  note: {file: note.txt}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    files = {"compose.yml": COMPOSE, ".env": "REPLICAS=2\n", "own.env": "SAYS='it costs $5'\nAPI_KEY=k3y\n", "note.txt": "carried\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "large.yml").write_text(COMPOSE.replace("count: 1", "count: 64"))
    return folder


@pytest.fixture(scope="module", autouse=True)
def stack(fleet: Fleet, first: Loud) -> Iterator[None]:
    """The manager's own Python lacks what docker_stack needs."""
    assert fleet["m1"].start("python3", "-c", "import jsondiff", check=False).returncode
    yield
    fleet["m1"].start("docker", "stack", "rm", STACK)


def test_a_compose_file_runs(fleet: Fleet, inventory: Path, project: Path) -> None:
    arguments = ["-e", f"compose={project / 'compose.yml'}", "-e", f"stack={STACK}", "--diff"]
    checked = fleet.playbook(inventory, "--check", *arguments, playbook=PLAYBOOK)
    assert checked.rc == 0, checked.output
    assert "services.train.restart has no meaning on Swarm" in checked.output
    assert "kind: NVIDIA-GPU" in checked.output
    assert "k3y" not in checked.output
    assert not fleet["m1"].docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}").strip()

    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert f"{STACK}_train: 2 of 2 running" in run.output
    assert "k3y" not in run.output

    def log() -> str:
        return fleet["m1"].docker("service", "logs", "--raw", f"{STACK}_train")

    wait_until("both tasks to write", lambda: log().count("GPU-") == 2)
    assert log().count("it costs $5") == log().count("carried") == 2
    again = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert (again.rc, again.changed()["m1"]) == (0, 0), again.output


def test_what_no_node_could_run_is_not_deployed(fleet: Fleet, inventory: Path, project: Path) -> None:
    arguments = ["-e", f"compose={project / 'large.yml'}", "-e", f"stack={STACK}x"]
    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 2, run.output
    assert f"{STACK}x_train needs 64 NVIDIA-GPU on one node" in run.output
    assert not fleet["m1"].docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}x").strip()


def test_it_is_removed(fleet: Fleet, inventory: Path) -> None:
    run = fleet.playbook(inventory, "-e", f"stack={STACK}", "-e", "state=absent", playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    for kind in ("service", "config"):
        assert not fleet["m1"].docker(kind, "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}").strip()
