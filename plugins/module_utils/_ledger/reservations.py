# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds which generic resources the services with tasks reserve, and which nodes they could run on (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Sequence, Tuple

from .._placement import pending
from .._policy import generic_resources
from .._tasks.tasks import is_global, reservations

# (service, needs of a task, its placement) -> the group of such tasks.
Reserving = Dict[Tuple[str, str, str], Dict[str, Any]]


def add(reserving: Reserving, task: Mapping[str, Any], service: Mapping[str, Any] | None, service_name: str) -> None:
    """Add a running or waiting task to its group, if it reserves generic resources."""
    spec = task.get("Spec") or {}
    wants, placement = reservations(spec).get("GenericResources"), spec.get("Placement")
    if not wants:
        return
    key = (service_name, repr(wants), repr(placement))
    if key not in reserving:
        # All tasks of one version of a service have the same values, so compute these values once.
        reserving[key] = {
            "service": service_name,
            "wants": generic_resources.from_info(wants),
            "tasks": 0,
            "spec": {"Placement": placement},
            "nodes": [] if is_global(service) else None,
        }
    group = reserving[key]
    group["tasks"] += 1
    if group["nodes"] is not None and task.get("NodeID"):
        group["nodes"].append(task["NodeID"])


def records(reserving: Reserving, nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups in the form of the module's result. The advertised resources do not matter here, because a run may change them."""
    rows = []
    able_by_placement: dict[str, list[Mapping[str, Any]]] = {}
    for (dummy_service, dummy_wants, placement), group in reserving.items():
        if placement not in able_by_placement:
            able_by_placement[placement] = pending.matching_nodes(group["spec"], nodes)
        able = able_by_placement[placement]
        rows.append(
            {
                "service": group["service"],
                "tasks": group["tasks"],
                "wants": group["wants"],
                "able": None if len(able) == len(nodes) else [node["ID"] for node in able],
                "nodes": group["nodes"],
            }
        )
    return sorted(rows, key=lambda row: (row["service"] or "", -row["tasks"]))
