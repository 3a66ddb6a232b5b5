# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds resources that a swarm counts more than once (pure). Such a resource is allocated to two tasks, or a leader still counts it for an ended job.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, Mapping, Tuple

from .._policy import generic_resources
from .._tasks.tasks import ALLOCATED, assigned

# The key for the amount of a discrete kind. Each named resource has its name as key.
AMOUNT = None

# Node id -> (service, kind) -> {tasks, values}: resources that were allocated to ended tasks of jobs.
ByKind = Dict[Tuple[str, str], Dict[str, Any]]
Finished = Dict[str, ByKind]


def held_twice(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the named resources that are allocated to more live tasks than their node advertises."""
    clashes = []
    for record in records:
        for kind, entry in record["resources"].items():
            if entry["type"] != "named" or len({item.get("value") for item in entry["held"]}) == len(entry["held"]):
                continue
            holders: dict[str, list[Mapping[str, Any]]] = {}
            for item in entry["held"]:
                holders.setdefault(item.get("value"), []).append(item)
            for value, items in holders.items():
                if len(items) > max(1, entry["values"].count(value)):
                    clashes.append({"kind": kind, "value": value, "node": record["id"], "hostname": record["hostname"], "holders": items})
    return clashes


def allocatable_again(nodes: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the allocated resources that a new leader would count as free, by task id.

    A new leader only counts how many resources the tasks of a node have. Then the leader marks the same number of resources as allocated, from the
    front of the node's list.
    """
    holders_by_kind: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for task in tasks:
        if task["Status"]["State"] in ALLOCATED and task.get("NodeID"):
            for kind, values in assigned(task).items():
                if isinstance(values, list):
                    holders_by_kind.setdefault((task["NodeID"], kind), []).extend((value, task["ID"]) for value in values)
    counted_as_free: dict[str, list[str]] = {}
    for node in nodes:
        listed = generic_resources.from_info((node.get("Description") or {}).get("Resources", {}).get("GenericResources"))
        for kind, values in listed.items():
            holders = holders_by_kind.get((node["ID"], kind), [])
            free = values[len(holders) :] if isinstance(values, list) else []
            for value, task_id in holders:
                if value in free:
                    counted_as_free.setdefault(task_id, []).append(value)
    return counted_as_free


def add_finished(finished: Finished, node_id: str, service: str, resources: Mapping[str, Any]) -> None:
    """Add the resources that were allocated to an ended task of a job."""
    by_kind = finished.setdefault(node_id, {})
    for kind, value in resources.items():
        if (service, kind) not in by_kind:
            by_kind[service, kind] = {"tasks": 0, "values": Counter()}
        entry = by_kind[service, kind]
        entry["tasks"] += 1
        entry["values"].update(value if isinstance(value, list) else {AMOUNT: value})


def finished_jobs(records: Iterable[Mapping[str, Any]], finished: Finished) -> list[dict[str, Any]]:
    """Return the resources of each node that an affected leader still counts for ended tasks of jobs.

    The leader's scheduler counts correctly, but its constraint enforcer does not. At each update of an active node, the enforcer adds up the
    allocations of live and ended tasks. Then it rejects a task that exceeds the total (moby#52652). With Docker Engine 26.1.5 the enforcer rejected
    the ended task, and the job ran again.
    """
    rows = []
    for record in records:
        by_kind = finished.get(record["id"], {})
        exceeded = {kind: _exceeded(kind, record["resources"].get(kind), by_kind) for kind in {kind for dummy_service, kind in by_kind}}
        for (service, kind), entry in sorted(by_kind.items()):
            rows.append(
                {
                    "service": service,
                    "node": record["id"],
                    "hostname": record["hostname"],
                    "kind": kind,
                    "amount": sum(entry["values"].values()),
                    "values": None if AMOUNT in entry["values"] else sorted(entry["values"]),
                    "tasks": entry["tasks"],
                    "clash": any(value in exceeded[kind] for value in entry["values"]),
                }
            )
    return rows


def _exceeded(kind: str, entry: Mapping[str, Any] | None, by_kind: ByKind) -> set[str | None]:
    """Return the values of this kind that are allocated to more tasks than the node advertises."""
    allocated: dict[str | None, int] = {}
    for (dummy_service, finished_kind), finished in by_kind.items():
        for value, count in finished["values"].items() if finished_kind == kind else ():
            allocated[value] = allocated.get(value, 0) + count
    if entry is None:
        return set(allocated)
    for item in entry["held"]:
        if item.get("value") in allocated:
            allocated[item.get("value")] += item.get("amount", 1)
    advertised: Counter[str | None] = Counter(entry["values"] if entry["type"] == "named" else {AMOUNT: entry["total"]})
    return {value for value, count in allocated.items() if count > advertised[value]}
