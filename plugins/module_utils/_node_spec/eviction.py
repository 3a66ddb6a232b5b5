# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the tasks that a change of a node's labels or availability would evict (pure).

Follows swarmkit's constraint package, constraint enforcer and orchestrators. Reads only constraints on node labels,
because this collection changes nothing else that a constraint can name.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._compat import checks
from .._compat.issues import Version
from .._ledger.listed import Listed
from .._placement import node_match
from .._tasks.keep import blocking_label
from .._tasks.restarts import Restarts
from .._tasks.tasks import ENDED, WANTED, age, assigned, is_job, is_movable
from .updates import Change

# At any update of an active node, the constraint enforcer of such a leader rejects one of the tasks that have generic resources of this type. The
# content of the update does not matter (moby#44378, swarmkit#3082, swarmkit#3162).
REJECTS_HOLDERS = {
    list: checks.BY_ID["old-leader-evicts-gpu-tasks"].versions,
    int: checks.BY_ID["old-leader-evicts-discrete-tasks"].versions,
}


def broken(constraints: Iterable[str] | None, labels: Mapping[str, str]) -> str | None:
    """Return the first constraint on a node label that these labels do not meet, or None."""
    node = {"Spec": {"Labels": labels}}
    for constraint in constraints or []:
        if node_match.is_on_node_label(constraint) and not node_match.is_met(constraint, node):
            return constraint
    return None


def evictions(changes: Sequence[Change], engine: str | None, listed: Listed) -> list[list[dict[str, Any]]]:
    """Return the tasks that each change would evict. Reads the list of tasks once.

    Several changes of one node are alternatives. ``engine`` is the leader's version.
    """
    evicted: list[list[dict[str, Any]]] = [[] for _change in changes]
    by_node: dict[str, list[tuple[Change, list[dict[str, Any]]]]] = {}
    for change, records in zip(changes, evicted):
        if change["changed"]:
            by_node.setdefault(change["id"], []).append((change, records))
    by_id = {service["ID"]: service for service in listed.services}
    version, restarts = checks.parse_version(engine), Restarts()
    for task in listed.tasks:
        moved_records = []
        if task.get("NodeID") in by_node and task.get("DesiredState") in WANTED and task["Status"]["State"] not in ENDED:
            service = by_id.get(task.get("ServiceID"))
            for change, records in by_node[task["NodeID"]]:
                verdict = _verdict(change, task, service) or _rejected_by_mistake(change, task, version)
                if verdict:
                    keep_reason = blocking_label(service, age(task["Status"].get("Timestamp"), listed.now), listed.keep_label)
                    records.append(dict(_record(change, task, service, verdict), kept=keep_reason))
                    moved_records.append(records[-1])
        restarts.add(task, *moved_records)
    restarts.fill_records()
    return evicted


def _verdict(change: Change, task: Mapping[str, Any], service: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return {reason, constraint, deferred} if the change evicts the task, or None."""
    before, after = change["before"], change["after"]
    # No orchestrator of jobs handles a drain, so tasks of jobs continue to run.
    if after["Availability"] == "drain" and not is_job(task, service):
        newly = before["Availability"] != "drain"
        return {"reason": "drain", "constraint": None, "deferred": False} if newly else None
    # Check the service's current constraints, not the constraints of its tasks.
    spec = service["Spec"]["TaskTemplate"] if service else task["Spec"]
    constraints = (spec.get("Placement") or {}).get("Constraints")
    constraint = broken(constraints, after.get("Labels") or {})
    if constraint is None:
        return None
    # Swarm enforces constraints only on active nodes. If the node is not active, swarm enforces them once the node is active again.
    active = after["Availability"] == "active"
    broken_before = broken(constraints, before.get("Labels") or {}) is not None
    if broken_before and (before["Availability"] == "active" or not active):
        return None
    return {"reason": "constraint", "constraint": constraint, "deferred": not active}


def _rejected_by_mistake(change: Change, task: Mapping[str, Any], engine: Version | None) -> dict[str, Any] | None:
    if engine is None or change["after"]["Availability"] != "active":
        return None
    for value in assigned(task).values():
        first, fixed = REJECTS_HOLDERS[type(value)]
        if first <= engine < fixed:
            return {"reason": "engine", "constraint": None, "deferred": False}
    return None


def _record(change: Change, task: Mapping[str, Any], service: Mapping[str, Any] | None, verdict: Mapping[str, Any]) -> dict[str, Any]:
    record = {
        "service": service["Spec"]["Name"] if service else task.get("ServiceID"),
        "task": task["ID"],
        "slot": task.get("Slot"),
        "node": change["id"],
        "hostname": change["hostname"],
        "movable": is_movable(task, service),
        "restarts_left": None,
    }
    record.update(verdict)
    return record
