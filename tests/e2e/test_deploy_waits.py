# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy of a stack that waits for free GPUs, beside a job: exit status 75, a job that runs once, and a manager that does not answer meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import Loud
from .fleet import Fleet, wait_until

PLAYBOOK = "fleet.gpu_swarm.deploy"
STACK = "waits"
# The fleet has six GPUs.
COMPOSE = """
services:
  large:
    image: lab/task
    command: ["sleep", "100000"]
    stop_grace_period: 1s
    gpus: [{count: 1}]
    deploy: {replicas: 7}
  once:
    image: lab/task
    command: ["grep", "-qx", "of-a-job", "/run/secrets/key"]
    secrets: [key]
    # Not on the manager: its dockerd stops, maybe before the job has ended, and a task that starts right after that can fail for want of a network.
    deploy: {mode: replicated-job, placement: {constraints: [node.role==worker]}}
secrets:
  key: {content: of-a-job}
"""


@pytest.fixture
def compose(fleet: Fleet, first: Loud, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "compose.yml"
    path.write_text(COMPOSE)
    yield path
    manager = fleet["m1"]
    tasks = manager.docker("stack", "ps", "--quiet", STACK).split()
    manager.docker("stack", "rm", STACK)
    # The next test's services need these GPUs.
    wait_until("their tasks to end", lambda: not manager.inspect_tasks(tasks))


@pytest.mark.rare
def test_a_stack_waits_for_room(fleet: Fleet, inventory: Path, compose: Path, tmp_path: Path) -> None:
    manager = fleet["m1"]
    arguments = ["-e", f"compose={compose}", "-e", f"stack={STACK}"]
    refused = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert refused.rc == 2, refused.output
    assert "there is room for 6 of 7 tasks" in refused.output

    arguments += ["-e", "gpu_stack_allow_pending=true", "-e", "gpu_stack_wait_timeout=20"]
    log = tmp_path / "ansible.log"
    log.touch()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(fleet.playbook, inventory, *arguments, playbook=PLAYBOOK, env={"ANSIBLE_LOG_PATH": str(log)})
        # Once the stack file is stored, only the wait remains.
        wait_until("the stack to be deployed", lambda: f"{STACK}_stack-file" in manager.run("docker", "config", "ls", check=False))
        manager.run("systemctl", "stop", "docker.service", "docker.socket")
        try:
            wait_until("the run to notice", lambda: "note: no answer; retrying" in log.read_text())
        finally:
            manager.dockerd("start")
        done = run.result()
    assert (done.rc, f"The stack {STACK} is deployed, but not all of it runs yet: " in done.output) == (75, True), done.output
    assert f"{STACK}_large: 6 of 7 running; " in done.output
    assert f"{STACK}_once: 1 of 1 complete" in done.output

    # While the leader did not answer, swarm itself may have run the job again (moby#53632).
    before = manager.docker("service", "ps", "--quiet", f"{STACK}_once").split()
    again = fleet.playbook(inventory, *arguments, "-e", "gpu_stack_wait_timeout=0", playbook=PLAYBOOK)
    assert again.rc == 75, again.output
    assert "nothing has changed, so the stack is not deployed again: its jobs would run once more" in again.output
    assert manager.docker("service", "ps", "--quiet", f"{STACK}_once").split() == before
