# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resources that a swarm counts more than once (pure): allocated to two tasks, or still counted for jobs that have ended.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterable, Mapping, Tuple

from .._policy import generic_resources
from .._tasks.tasks import ALLOCATED, assigned

# What the amounts of a discrete kind are counted under, as names are under themselves.
AMOUNT = None

# Node id -> (service, kind) -> {tasks, given}: what was allocated to ended tasks of jobs.
ByKind = Dict[Tuple[str, str], Dict[str, Any]]
Finished = Dict[str, ByKind]


def held_twice(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The named resources of the ledger's nodes that are allocated to more live tasks than the node has of them."""
    found = []
    for record in records:
        for kind, entry in record["resources"].items():
            if entry["type"] != "named" or len({item.get("value") for item in entry["held"]}) == len(entry["held"]):
                continue
            holders: dict[str, list[Mapping[str, Any]]] = {}
            for item in entry["held"]:
                holders.setdefault(item.get("value"), []).append(item)
            for value, items in holders.items():
                if len(items) > max(1, entry["values"].count(value)):
                    found.append({"kind": kind, "value": value, "node": record["id"], "hostname": record["hostname"], "holders": items})
    return found


def claimed_anew(nodes: Iterable[Mapping[str, Any]], tasks: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """By task what it has and a leader counts as free that begins now: it counts how many its nodes' tasks have, from the front of each list."""
    given_to: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for task in tasks:
        if task["Status"]["State"] in ALLOCATED and task.get("NodeID"):
            for kind, given in assigned(task).items():
                if isinstance(given, list):
                    given_to.setdefault((task["NodeID"], kind), []).extend((value, task["ID"]) for value in given)
    found: dict[str, list[str]] = {}
    for node in nodes:
        listed = generic_resources.from_info((node.get("Description") or {}).get("Resources", {}).get("GenericResources"))
        for kind, values in listed.items():
            holders = given_to.get((node["ID"], kind), [])
            free = values[len(holders) :] if isinstance(values, list) else []
            for value, task_id in holders:
                if value in free:
                    found.setdefault(task_id, []).append(value)
    return found


def add_finished(finished: Finished, node_id: str, service: str, resources: Mapping[str, Any]) -> None:
    """Notes what was allocated to an ended task of a job: ``finished`` is node id -> (service, kind) -> {tasks, given}."""
    by_kind = finished.setdefault(node_id, {})
    for kind, value in resources.items():
        if (service, kind) not in by_kind:
            by_kind[service, kind] = {"tasks": 0, "given": Counter()}
        entry = by_kind[service, kind]
        entry["tasks"] += 1
        entry["given"].update(value if isinstance(value, list) else {AMOUNT: value})


def finished_jobs(records: Iterable[Mapping[str, Any]], finished: Finished) -> list[dict[str, Any]]:
    """What the ended tasks of jobs still have of each node, for a leader that counts it.

    Not its scheduler does, but its constraint enforcer, whenever an active node is updated: it adds up what was allocated
    to live and ended tasks, and rejects a task whose share is not there any more (moby#52652; with Docker Engine 26.1.5
    the ended one was seen rejected, and its job run again).
    """
    found = []
    for record in records:
        by_kind = finished.get(record["id"], {})
        over = {kind: _overdrawn(kind, record["resources"].get(kind), by_kind) for kind in {kind for dummy_service, kind in by_kind}}
        for (service, kind), entry in sorted(by_kind.items()):
            found.append(
                {
                    "service": service,
                    "node": record["id"],
                    "hostname": record["hostname"],
                    "kind": kind,
                    "amount": sum(entry["given"].values()),
                    "values": None if AMOUNT in entry["given"] else sorted(entry["given"]),
                    "tasks": entry["tasks"],
                    "clash": any(one in over[kind] for one in entry["given"]),
                }
            )
    return found


def _overdrawn(kind: str, entry: Mapping[str, Any] | None, by_kind: ByKind) -> set[str | None]:
    """What is allocated more often than the node has it."""
    given: dict[str | None, int] = {}
    for (dummy_service, one), finished in by_kind.items():
        for value, count in finished["given"].items() if one == kind else ():
            given[value] = given.get(value, 0) + count
    if entry is None:
        return set(given)
    for item in entry["held"]:
        if item.get("value") in given:
            given[item.get("value")] += item.get("amount", 1)
    there: Counter[str | None] = Counter(entry["values"] if entry["type"] == "named" else {AMOUNT: entry["total"]})
    return {value for value, count in given.items() if count > there[value]}
