# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one task of the API contains (pure): what is allocated to it and what it reserves, its name, whether it can be moved.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Iterable, Mapping

from .._policy import generic_resources

# Resources are allocated to a task from its assignment to its end, whatever it is desired to be meanwhile: a task
# that shuts down still has its GPU open. The scheduler counts the same way.
ALLOCATED = frozenset(["assigned", "accepted", "preparing", "ready", "starting", "running"])
# Not assigned yet. A task of a global service has its node already then, but has not been admitted to it.
WAITING = frozenset(["new", "pending"])
ENDED = frozenset(["complete", "shutdown", "failed", "rejected", "remove", "orphaned"])
# "complete" is what a job's task is desired to become, and what it is when it ended.
WANTED = ALLOCATED | frozenset(["complete"])
JOBS = frozenset(["ReplicatedJob", "GlobalJob"])

_EPOCH = datetime(1970, 1, 1)


def assigned(task: Mapping[str, Any]) -> dict[str, Any]:
    """What the scheduler allocated to a task, by kind. Docker's API reference and its engine disagree on the key's name."""
    return generic_resources.from_info(task.get("AssignedGenericResources") or task.get("GenericResources"))


def reservations(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a task's specification reserves, as the API has it."""
    return (spec.get("Resources") or {}).get("Reservations") or {}


def still_allocated(
    tasks: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What tasks of removed services still have, until their containers have stopped: [{hostname, kind, amount, state}], ``state`` of the node."""
    there = {service["ID"] for service in services}
    sums: dict[tuple[str, str], int] = {}
    for task in tasks:
        if task["Status"]["State"] in ALLOCATED and task.get("ServiceID") not in there:
            for kind, given in assigned(task).items():
                key = (task.get("NodeID") or "", kind)
                sums[key] = sums.get(key, 0) + (len(given) if isinstance(given, list) else given)
    known = {node["ID"]: (node.get("Description", {}).get("Hostname", ""), node.get("Status", {}).get("State")) for node in nodes}
    found = [(*known[node_id], kind, amount) for (node_id, kind), amount in sums.items() if node_id in known]
    return [{"hostname": hostname, "kind": kind, "amount": amount, "state": state} for hostname, state, kind, amount in sorted(found)]


def is_job(task: Mapping[str, Any], service: Mapping[str, Any] | None) -> bool:
    return "JobIteration" in task or is_job_service(service)


def is_job_service(service: Mapping[str, Any] | None) -> bool:
    return bool(service) and not JOBS.isdisjoint(service["Spec"].get("Mode", ()))


def is_global(service: Mapping[str, Any] | None) -> bool:
    """Whether each of its tasks belongs to a node, where it can run or nowhere."""
    return bool(service) and any(mode in service["Spec"].get("Mode", {}) for mode in ("Global", "GlobalJob"))


def is_movable(task: Mapping[str, Any], service: Mapping[str, Any] | None) -> bool:
    """Whether swarm starts another task in its place when this one is stopped.

    By the task's own policy (swarmkit orchestrator/task.go); whether a limit of attempts is used up is known by restarts.
    Where the service was removed, its tasks are about to end, and nothing follows.
    """
    condition = ((task.get("Spec") or {}).get("RestartPolicy") or {}).get("Condition")
    return service is not None and condition != "none" and not is_job(task, service)


def name_of(task: Mapping[str, Any], service_name: str) -> str:
    """As 'docker service ps' has it."""
    return "%s.%s" % (service_name, task.get("Slot") or task.get("NodeID") or task["ID"])


def epoch(stamp: str | None) -> float | None:
    """Seconds since 1970 of a timestamp of the API (RFC 3339, nanoseconds, any zone); None if there is none."""
    try:
        since = datetime.fromisoformat(stamp[:19]) - _EPOCH
        if stamp[-6] in "+-":
            ahead = timedelta(hours=int(stamp[-5:-3]), minutes=int(stamp[-2:]))
            since -= ahead if stamp[-6] == "+" else -ahead
    except (TypeError, ValueError, IndexError):
        return None
    seconds = since.total_seconds()
    return seconds if seconds > 0 else None  # Go's zero time is in the year 1


def utc(time: str | None) -> str | None:
    """The same moment in whole seconds of UTC, such as 2026-11-20T12:00:00Z; None if there is none."""
    seconds = epoch(time)
    return None if seconds is None else stamp(seconds)


def stamp(seconds: float) -> str:
    """Seconds since 1970 as text."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(stamp: str | None, now: float | None) -> int | None:
    """Whole seconds since then, by the clock that ``now`` was read from; None where either is not known."""
    then = epoch(stamp)
    return None if then is None or now is None else max(0, int(now - then))
