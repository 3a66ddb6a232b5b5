# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Describes the tasks that a change of nodes would evict, and the tasks that swarm_nodes refused to evict (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._fleet.outcome import State
from .._fleet.workload import SPENT
from .._settings.declaration import ALL, NEVER, SERVICES

# The reason if the answer of a manager has no text.
NO_REASON = "the manager did not say why"
# The option ``evict`` of swarm_nodes by ``provision_disrupt`` of the host.
EVICT = {NEVER: "none", SERVICES: "movable", ALL: "any"}
_REASONS = {
    "drain": "started after the node was assessed, and a drain would stop it",
    "engine": "the Docker Engine that leads the swarm may reject it",
}

Record = Mapping[str, Any]


def describe(task: Record) -> str:
    """Describe a task of ``evicted`` or ``refused``, and why it would end."""
    why = f"{task['constraint']} would no longer be met" if task["constraint"] else _REASONS[task["reason"]]
    spent = f", and {SPENT}" if task.get("restarts_left") == 0 else ""
    kept = f", and it is kept by its label {task['kept']}" if task.get("kept") else ""
    return f"task {task['service']}.{task['slot'] or task['task']} ({why}{spent}{kept})"


def refused_by_node(refused: Iterable[Record]) -> dict[str, list[str]]:
    """Return by node id the tasks because of which swarm_nodes did not write the node, each task once. ``refused`` may come from several calls."""
    tasks: dict[str, dict[str, None]] = {}
    for item in refused:
        tasks.setdefault(item["id"], {}).update(dict.fromkeys(map(describe, item["tasks"])))
    return {node_id: list(descriptions) for node_id, descriptions in tasks.items()}


def not_written(answer: Mapping[str, Any], node_id: str, what: str) -> dict[str, str]:
    """Return the outcome of a host whose node swarm_nodes did not write, or {}. If the call failed, the reason begins with ``what``."""
    if "nodes" not in answer:
        return {"state": State.FAILED.value, "reason": f"{what}: {answer.get('msg') or NO_REASON}"}
    tasks = refused_by_node(answer.get("refused") or []).get(node_id)
    return {"state": State.WAITING.value, "reason": ", ".join(tasks)} if tasks else {}
