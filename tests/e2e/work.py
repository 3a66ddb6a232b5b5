# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Work on a fleet: services, containers outside the swarm, and the GPUs that they see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .conftest import NODES
from .fleet import Fleet, Node, wait_until

# Prints how many devices a task sees.
COUNT = "set -- /dev/nvidia[0-9]; [ -e $1 ] && echo $# || echo 0"


def containers(node: Node, service: str = "") -> list[str]:
    """Return the running containers on a node. With a service, return only its containers."""
    of = ("--filter", f"label=com.docker.swarm.service.name={service}") if service else ()
    return node.docker("ps", "--quiet", "--no-trunc", *of).splitlines()


def all_running(manager: Node, service: str, count: int) -> list[dict[str, Any]]:
    ids = manager.docker("service", "ps", "--quiet", "--no-trunc", "--filter", "desired-state=running", service).split()
    tasks = manager.inspect_tasks(ids) if ids else []
    return tasks if [task["Status"]["State"] for task in tasks] == ["running"] * count else []


@contextmanager
def by_hand(node: Node) -> Iterator[str]:
    """Start a container outside the swarm."""
    container = node.docker("run", "--detach", "--name", "notebook", "lab/task")
    try:
        yield container
    finally:
        node.docker("rm", "--force", "notebook")


@contextmanager
def service(fleet: Fleet, name: str, count: int, *options: str) -> Iterator[list[dict[str, Any]]]:
    """Create a service, and wait until its tasks run."""
    manager = fleet["m1"]
    manager.docker(
        "service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", name, "--replicas", str(count), *options, "lab/task"
    )  # fmt: skip
    try:
        yield wait_until(f"the tasks of {name}", lambda: all_running(manager, name, count))
    finally:
        remove(fleet, name)


def remove(fleet: Fleet, service: str) -> None:
    """Remove the service if it exists, and wait for the end of its tasks."""
    if service in fleet["m1"].docker("service", "ls", "--format", "{{.Name}}").split():
        fleet["m1"].docker("service", "rm", service)
    wait_until(f"the tasks of {service} to end", lambda: not any(containers(fleet[name], service) for name in NODES))


def cards(node: Node, container: str) -> list[str]:
    return re.findall("GPU-[0-9a-f-]{36}", node.docker("exec", container, "nvidia-smi", "-L"))


def variables(node: Node, container: str) -> dict[str, str]:
    """Return the variables of the container's first process. `docker exec` gets only the variables that the container was created with."""
    pid = node.docker("inspect", "--format", "{{.State.Pid}}", container).strip()
    return dict(line.partition("=")[::2] for line in node.run("cat", f"/proc/{pid}/environ").split("\0"))
