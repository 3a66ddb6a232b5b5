# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the wanted state of many nodes in one call: reads the nodes, decides, writes, and then releases the caller's lease.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._ledger.leader import leader_engine
from .._ledger.ledger import ledger
from .._ledger.listed import Listed
from .._swarm import lease
from .._swarm.lease_options import LEASE_END_OPTIONS
from .._swarm.manager import Manager, SwarmError, connect
from .._tasks.tasks import epoch, utc
from . import eviction, refused_changes, updates
from .held_back import held_back


def write(params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Write the wanted state and return the result of the module swarm_nodes. Raises SwarmError."""
    prefix = params["prefix"]
    wants = updates.check(params["nodes"], prefix)
    manager = connect(params)
    wants = [dict(want, now=utc(manager.time)) for want in wants]
    nodes = manager.nodes()
    leader, now = leader_engine(nodes), epoch(manager.time)

    def listed() -> Listed:
        return Listed(nodes, manager.tasks(), manager.services(), now, params["keep_label"])

    waiting = held_back(wants, lambda: ledger(listed(), prefix))
    wants = [want for want in wants if want["id"] not in [node["id"] for node in waiting]]

    def evictions(possible: Sequence[updates.Change]) -> list[list[dict[str, Any]]]:
        return eviction.evictions(possible, leader, listed())

    def decide(nodes: Iterable[Mapping[str, Any]], changes: Sequence[updates.Change], wants: Sequence[updates.Want]) -> list[updates.Decision]:
        """Return decisions for the current tasks."""
        return refused_changes.decide(nodes, changes, wants, prefix, evictions)

    decisions = decide(nodes, updates.plan(nodes, wants, prefix), wants)
    if not check_mode:
        decisions = updates.write(lease.Leased(manager, params["holder"]) if params["holder"] else manager, decisions, wants, prefix, decide)
    changes = [decision.change for decision in decisions]
    refused = [decision for decision in decisions if decision.refused]
    released = {} if waiting or refused else _release_lease(manager, params, check_mode)
    return {
        "changed": any(change["changed"] for change in changes) or bool(released and released["lease"]["changed"]),
        "nodes": [_node(change) for change in changes],
        "evicted": [task for decision in decisions for task in decision.evicted],
        "refused": [{"id": decision.change["id"], "hostname": decision.change["hostname"], "tasks": decision.refused} for decision in refused],
        "held_back": waiting,
        "diff": updates.diff(changes),
        **released,
    }


def _release_lease(manager: Manager, params: Mapping[str, Any], check_mode: bool) -> dict[str, Any]:
    """Release the lease if wanted, and return {lease}. A failure is ignored, because the nodes are already written; the caller may retry."""
    if not params["release"]:
        return {}
    want = {"state": "absent", "holder": params["release"], **{name: params[name] for name in LEASE_END_OPTIONS}}
    try:
        return {"lease": lease.module_result(lease.acquire_or_release(manager, want, check_mode), want)}
    except SwarmError:
        return {}


def _node(change: updates.Change) -> dict[str, Any]:
    before, after = change["before"], change["after"]
    return {
        "id": change["id"],
        "hostname": change["hostname"],
        "changed": change["changed"],
        "labels_before": before.get("Labels") or {},
        "labels_after": after.get("Labels") or {},
        "availability_before": before["Availability"],
        "availability": after["Availability"],
        "role_before": before["Role"],
        "role": after["Role"],
    }
