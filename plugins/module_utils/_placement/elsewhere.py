# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds out whether another node could run a task (pure).

Compares the requirements of the task's service with each node, as ``pending`` does. This code uses the nodes' total resources, because free resources
change all the time.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, Mapping, Sequence

from .._tasks.tasks import is_global
from . import pending


def set_elsewhere(records: Sequence[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]]) -> None:
    """Set ``elsewhere`` of each task in ``records``, the ledger's records of nodes."""
    by_id = {record["id"]: record for record in records}
    schedulable = [(node, by_id[node["ID"]]) for node in nodes if pending.is_schedulable(by_id[node["ID"]])]
    by_name = {service["Spec"]["Name"]: service for service in services}
    suitable = {}
    for record in records:
        for task in record["tasks"]:
            name = task["service"]
            if name not in suitable:
                suitable[name] = _suitable_nodes(by_name.get(name), schedulable)
            task["elsewhere"] = None if suitable[name] is None else any(node_id != record["id"] for node_id in suitable[name])


def _suitable_nodes(service: Mapping[str, Any] | None, schedulable: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str] | None:
    """Return the ids of up to two nodes that could run the service's tasks. Two nodes are enough, because at most one of the two is the task's
    present node.

    Return None for a global service, because each of its tasks belongs to one node. Return None for a removed service too.
    """
    if service is None or is_global(service):
        return None
    spec = service["Spec"]["TaskTemplate"]
    wants = pending.wanted_by(spec)
    return list(islice((node["ID"] for node, record in schedulable if pending.matches(spec, node) and _is_large_enough(wants, node, record)), 2))


def _is_large_enough(wants: Mapping[str, float], node: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    if not wants:
        return True
    total = pending.place(node, record, {}).total
    return all(total.get(kind, 0) >= pending.required_free(amount) for kind, amount in wants.items())
