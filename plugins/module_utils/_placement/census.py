# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts the tasks of all services in one pass (pure). Counts in the same way as swarmkit's scheduler and orchestrators.

manager/scheduler/nodeinfo.go counts a task from its assignment to its end. The task is counted as a replica only while swarm wants the task to run.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, Mapping, Set, Tuple

from .._tasks.tasks import ALLOCATED, ENDED, WAITING, WANTED, is_stopped_by_queue

HOST = "host"

# (protocol, number)
Port = Tuple[str, int]
Ports = Dict[str, Set[Port]]


class Tally:
    """The tasks of one service."""

    def __init__(self) -> None:
        self.live = 0  # tasks that are assigned to a node and that swarm wants to run
        self.waiting = 0  # tasks that the scheduler has not placed yet
        self.unallocated = 0  # waiting tasks without an address in their networks
        self.delayed = 0  # live tasks that start after a delay
        self.stopped = False  # whether a queue stopped the service's task
        self.complete = 0  # tasks that are complete in the job's current iteration
        self.ended = 0  # tasks that ended and were not started again
        self.since: str | None = None  # when the first waiting task began to wait
        self.scheduler_message = ""  # why the scheduler could not place a waiting task
        self.failure = ("", "")  # when the last task failed, and why
        self.networks: set[str] = set()  # the drivers of the service's networks
        self.nodes: set[str] = set()  # nodes with a live or waiting task
        self.slots: set[int] = set()  # slots with a live or waiting task
        self.last: dict[int, tuple[str, str]] = {}  # by slot: creation time and state of the newest task that is neither live nor waiting

    def add(self, task: Mapping[str, Any], is_current: bool) -> None:
        status, desired = task["Status"], task.get("DesiredState")
        state = status["State"]
        self.networks.update(_drivers(task))
        slot = task.get("Slot") or 0
        if desired in WANTED and state in ALLOCATED | WAITING:
            self.nodes.add(task.get("NodeID") or "")
            self.slots.add(slot)
        elif desired != "remove":
            self.last[slot] = max(self.last.get(slot, ("", "")), (task.get("CreatedAt") or "", state))
        if state in ALLOCATED and desired in WANTED:
            self.live += 1
            self.delayed += desired == "ready"
        elif state in WAITING and desired in WANTED:
            self._add_waiting(status)
        elif state == "complete" and is_current:
            self.complete += 1
        if state in ENDED and desired != "remove":
            self.ended += 1
            if state in ("failed", "rejected"):
                self.failure = max(self.failure, (status.get("Timestamp") or "", status.get("Err") or status.get("Message") or ""))

    def _add_waiting(self, status: Mapping[str, Any]) -> None:
        self.waiting += 1
        self.unallocated += status["State"] == "new"
        self.since = min(self.since or "~", status.get("Timestamp") or "~").rstrip("~") or None
        self.scheduler_message = status.get("Err") or status.get("Message") or self.scheduler_message


class Census:
    """The tasks of all services, by service and by node."""

    def __init__(self) -> None:
        self.replicas: Counter[tuple[str, str]] = Counter()  # (node id, service id) -> tasks that swarm wants to run
        self.ports: Ports = {}  # the host's ports that tasks have published, by node id
        self._tallies: dict[str, Tally] = {}

    def add(self, task: Mapping[str, Any], service: Mapping[str, Any] | None) -> None:
        service_id, node_id = task.get("ServiceID") or "", task.get("NodeID")
        tally = self._tallies.setdefault(service_id, Tally())
        if is_stopped_by_queue(task, service):
            tally.stopped = True
            return
        tally.add(task, task.get("JobIteration") == ((service or {}).get("JobStatus") or {}).get("JobIteration"))
        if not node_id or task["Status"]["State"] not in ALLOCATED:
            return
        self.replicas[node_id, service_id] += task.get("DesiredState") in WANTED
        ports = _ports_in_use(task, service)
        if ports:
            self.ports.setdefault(node_id, set()).update(ports)

    def tally_of(self, service_id: str) -> Tally:
        return self._tallies.get(service_id) or Tally()


def host_ports(spec: Mapping[str, Any] | None) -> set[Port]:
    """Return the host's ports that a service's specification publishes.

    Ports with a number that the node chooses never conflict and are not listed.
    """
    return _published_on_host(((spec or {}).get("EndpointSpec") or {}).get("Ports"))


def _ports_in_use(task: Mapping[str, Any], service: Mapping[str, Any] | None) -> set[Port]:
    """Return the host's ports that a task uses.

    The API does not show the ports of a task's specification, so compare the ports in the task's status with the ports of its service. During an
    update older tasks may use other ports, so compare with the ports of the service's former specification too.
    """
    specified = host_ports((service or {}).get("Spec")) | host_ports((service or {}).get("PreviousSpec"))
    shown = _published_on_host((task["Status"].get("PortStatus") or {}).get("Ports"))
    return (shown & specified if service else shown) or host_ports((service or {}).get("Spec"))


def _published_on_host(ports: Iterable[Mapping[str, Any]] | None) -> set[Port]:
    fixed = [port for port in ports or [] if port.get("PublishMode") == HOST and port.get("PublishedPort")]
    return {(port.get("Protocol") or "tcp", port["PublishedPort"]) for port in fixed}


def _drivers(task: Mapping[str, Any]) -> set[str]:
    networks = [attachment.get("Network") or {} for attachment in task.get("NetworksAttachments") or []]
    return {name for network in networks if (name := (network.get("DriverState") or {}).get("Name"))}
