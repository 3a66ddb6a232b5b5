# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the nodes of a fleet from a manager, and stops managers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .fleet import Fleet, wait_until

GPU_NODES = ("g1", "g2")
KIND = "NVIDIA-GPU"
# The label with a node's former availability while a run has paused it.
MARK = "gpu-swarm.former-availability"


def named(resources: list[dict[str, Any]] | None) -> dict[str, list[str]]:
    """Return the kinds and values of a GenericResources list of the Docker API."""
    found: dict[str, list[str]] = {}
    for entry in resources or []:
        spec = entry["NamedResourceSpec"]
        found.setdefault(spec["Kind"], []).append(spec["Value"])
    return {kind: sorted(values) for kind, values in found.items()}


def member(fleet: Fleet, name: str, manager: str = "m1") -> dict[str, Any]:
    """Return a node as the manager shows it."""
    return fleet[manager].docker_json("node", "inspect", fleet[name].swarm()["NodeID"])[0]


def shown(fleet: Fleet, name: str, by: str = "m1") -> dict[str, list[str]]:
    return named(member(fleet, name, by)["Description"]["Resources"].get("GenericResources"))


def availabilities(fleet: Fleet, name: str, since: str, by: str = "m1") -> list[str]:
    """Return the values that a node's availability has had since the time ``since``, in order."""
    manager = fleet[by]
    stop = manager.run("date", "+%s.%N")
    filters = ("--filter", "type=node", "--filter", f"node={member(fleet, name, by)['ID']}")
    text = manager.docker("events", "--since", since, "--until", stop, *filters, "--format", "{{json .Actor.Attributes}}")
    events = [json.loads(line) for line in text.splitlines()]
    return [event["availability.new"] for event in events if "availability.new" in event]


def availability_of(fleet: Fleet, name: str) -> tuple[str, str | None]:
    """Return a node's availability, and the former availability that a run has recorded."""
    spec = member(fleet, name)["Spec"]
    return spec["Availability"], spec["Labels"].get(MARK)


def classes_of(fleet: Fleet, node: str) -> list[str]:
    labels = fleet["m1"].docker_json("node", "inspect", fleet[node].swarm()["NodeID"])[0]["Spec"]["Labels"]
    return [key for key in labels if key.startswith("gpu.class.")]


@contextmanager
def lease_of(fleet: Fleet, holder: str) -> Iterator[None]:
    planted = fleet.module("m1", "fleet.gpu_swarm.swarm_lease", {"holder": holder})
    assert planted.rc == 0, planted.output
    try:
        yield
    finally:
        ended = fleet.module("m1", "fleet.gpu_swarm.swarm_lease", {"holder": holder, "state": "absent"})
        assert ended.rc == 0, ended.output


def the_leader(fleet: Fleet) -> str:
    """Return the leader. Its node is found by id: after a restart, the leader was once listed under a worker's host name."""
    words = fleet["m1"].docker("node", "ls", "--format", "{{.ID}} {{.ManagerStatus}}")
    leader = next(line.split()[0] for line in words.splitlines() if line.endswith("Leader"))
    return next(name for name in fleet.hosts if fleet[name].swarm()["NodeID"] == leader)


def works(fleet: Fleet, name: str) -> bool:
    """Return whether a manager reports a working swarm, which needs a quorum."""
    words = fleet[name].run("docker", "node", "ls", "--format", "{{.Self}} {{.Status}} {{.ManagerStatus}}", check=False)
    return bool(re.search(r"^true Ready (Leader|Reachable)$", words, re.MULTILINE))


def describe_managers(fleet: Fleet, names: Iterable[str]) -> str:
    """Return each manager's list of nodes, and the end of its dockerd's journal, for the message of a failed test.

    A node can stay down although its dockerd answers. The leader sets a node to ready only when the node's agent registers, and to down when its
    heartbeats stop for about 15 s (swarmkit: manager/dispatcher/dispatcher.go). If both happen within the same 100 ms, "down" may be written last,
    while the leader accepts the heartbeats of the new session. Then the node stays down until its agent registers again: the leader's journal has
    "was successfully registered" for this node, and the node's message is "heartbeat failure".
    """
    status = "docker node inspect --format '{{.ID}} {{.Description.Hostname}}: {{.Status.State}} {{.Status.Message}}' $(docker node ls --quiet)"
    commands = ("date", "docker node ls", status, "journalctl --unit docker --no-pager --lines 200 --output short-precise")
    parts = [f"== {name}: {command}\n{fleet[name].run('sh', '-c', command + ' 2>&1', check=False)}" for name in names for command in commands]
    return "\n".join(["", *parts])


@contextmanager
def stopped(fleet: Fleet, name: str) -> Iterator[None]:
    """Stop dockerd of a manager. Also stop dockerd's socket unit, which would start dockerd again."""
    try:
        fleet[name].run("systemctl", "stop", "docker.socket", "docker.service")
        yield
    finally:
        fleet[name].dockerd("start")
        wait_until("the manager to be back", lambda: works(fleet, name), shown=lambda: describe_managers(fleet, [name]))
