# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads tasks of the API (pure): their allocations, reservations and names, and whether they can be moved.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Iterable, Mapping

from .._policy import generic_resources
from .._swarm.owned_labels import PULL, QUEUE

# In these states, resources are allocated to the task, whatever its desired state is. A task that is shutting down still has its GPU open. The
# scheduler counts in the same way.
ALLOCATED = frozenset(["assigned", "accepted", "preparing", "ready", "starting", "running"])
# In these states, the scheduler has not placed the task yet. A task of a global service already has its node, but the scheduler has not admitted the
# task to the node.
WAITING = frozenset(["new", "pending"])
ENDED = frozenset(["complete", "shutdown", "failed", "rejected", "remove", "orphaned"])
# "complete" is the desired state of a job's task, and the state of the task after its end.
WANTED = ALLOCATED | frozenset(["complete"])
JOBS = frozenset(["ReplicatedJob", "GlobalJob"])
# With this begins the name of a service with which a node pulls an image.
PULL_NAME = "gpu-swarm-pull-"
# With this constraint, the last one, a queue stops a task: swarm ends it, and its successor waits for a node that does not exist.
NOWHERE = "node.id==nowhere"

_EPOCH = datetime(1970, 1, 1)


def assigned(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task's allocations by resource kind. Docker's API reference and its engine disagree on the key's name, so read both."""
    return generic_resources.from_info(task.get("AssignedGenericResources") or task.get("GenericResources"))


def reservations(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reservations of a task's specification, as in the API."""
    return (spec.get("Resources") or {}).get("Reservations") or {}


def still_allocated(
    tasks: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the resources of tasks of removed services: [{hostname, kind, amount, state of the node}].

    These resources are allocated until the tasks' containers stop.
    """
    service_ids = {service["ID"] for service in services}
    sums: dict[tuple[str, str], int] = {}
    for task in tasks:
        if task["Status"]["State"] in ALLOCATED and task.get("ServiceID") not in service_ids:
            for kind, value in assigned(task).items():
                key = (task.get("NodeID") or "", kind)
                sums[key] = sums.get(key, 0) + (len(value) if isinstance(value, list) else value)
    nodes_by_id = {node["ID"]: (node.get("Description", {}).get("Hostname", ""), node.get("Status", {}).get("State")) for node in nodes}
    rows = [(*nodes_by_id[node_id], kind, amount) for (node_id, kind), amount in sums.items() if node_id in nodes_by_id]
    return [{"hostname": hostname, "kind": kind, "amount": amount, "state": state} for hostname, state, kind, amount in sorted(rows)]


def is_job(task: Mapping[str, Any], service: Mapping[str, Any] | None) -> bool:
    return "JobIteration" in task or is_job_service(service)


def is_job_service(service: Mapping[str, Any] | None) -> bool:
    return bool(service) and not JOBS.isdisjoint(service["Spec"].get("Mode", ()))


def is_pull(service: Mapping[str, Any] | None) -> bool:
    """Return whether a node pulls an image with this service, before ``deploy`` updates the stack. A label alone may be on a user's service."""
    return bool(service) and PULL in (service["Spec"].get("Labels") or {}) and service["Spec"]["Name"].startswith(PULL_NAME)


def is_queued(service: Mapping[str, Any] | None) -> bool:
    """Return whether the service belongs to a queue, which starts and stops its task."""
    return bool(service) and QUEUE in (service["Spec"].get("Labels") or {})


def is_stopped_by_queue(task: Mapping[str, Any], service: Mapping[str, Any] | None) -> bool:
    """Return whether this is the waiting successor of a task that a queue stopped. No such task is pending.

    The next try of the work replaces the successor, which then stays in swarm's history with another desired state.
    """
    if task["Status"]["State"] not in WAITING or task.get("DesiredState") not in WANTED or not is_queued(service):
        return False
    constraints = ((task.get("Spec") or {}).get("Placement") or {}).get("Constraints") or []
    return constraints[-1:] == [NOWHERE]


def is_global(service: Mapping[str, Any] | None) -> bool:
    """Return whether each task of the service belongs to one node and can run nowhere else."""
    return bool(service) and any(mode in service["Spec"].get("Mode", {}) for mode in ("Global", "GlobalJob"))


def is_movable(task: Mapping[str, Any], service: Mapping[str, Any] | None) -> bool:
    """Return whether swarm starts a replacement when this task is stopped.

    The restart policy in the task decides, not the policy in its service (swarmkit orchestrator/task.go). ``restarts`` finds out whether the task has
    attempts left. Tasks of a removed service are about to end, and swarm does not replace them.
    """
    condition = ((task.get("Spec") or {}).get("RestartPolicy") or {}).get("Condition")
    return service is not None and condition != "none" and not is_job(task, service)


def name_of(task: Mapping[str, Any], service_name: str) -> str:
    """Return the task's name in the form of 'docker service ps'."""
    return "%s.%s" % (service_name, task.get("Slot") or task.get("NodeID") or task["ID"])


def epoch(stamp: str | None) -> float | None:
    """Return a timestamp of the API (RFC 3339, nanoseconds, any zone) in seconds since 1970; None if the text is empty or invalid."""
    try:
        elapsed = datetime.fromisoformat(stamp[:19]) - _EPOCH
        if stamp[-6] in "+-":
            offset = timedelta(hours=int(stamp[-5:-3]), minutes=int(stamp[-2:]))
            elapsed -= offset if stamp[-6] == "+" else -offset
    except (TypeError, ValueError, IndexError):
        return None
    seconds = elapsed.total_seconds()
    return seconds if seconds > 0 else None  # Go's zero time is in the year 1


def utc(timestamp: str | None) -> str | None:
    """Return a timestamp of the API in UTC and whole seconds, such as 2026-11-20T12:00:00Z; None if the text is empty or invalid."""
    seconds = epoch(timestamp)
    return None if seconds is None else stamp(seconds)


def stamp(seconds: float) -> str:
    """Return a time in seconds since 1970 as UTC text, such as 2026-11-20T12:00:00Z."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(stamp: str | None, now: float | None) -> int | None:
    """Return the whole seconds from the timestamp to ``now``; None if one of the times is unknown. Both times must belong to the same clock."""
    then = epoch(stamp)
    return None if then is None or now is None else max(0, int(now - then))
