# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a swarm's ledger together with its queues. Without queues, this takes no longer than the ledger alone.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Collection, Mapping

from .._ledger.listed import Listed
from .._ledger.read import ledger_of
from .._ledger.reading import keeping
from .._swarm.manager import Manager
from .._tasks.tasks import epoch, is_queued
from .queue_state import state_of
from .queue_view import view_of
from .queue_words import LOST, OVER, RUNNING, STARTING, UNKNOWN, WAITING
from .queues import LABEL
from .service_changes import as_submitted

_UNKNOWN: Mapping[str, Any] = {
    "queue": UNKNOWN, "weight": None, "priority": None, "time_limit_s": None, "max": {}, "per_owner": {}, "used": {}, "share": None,
    "waiting": 0, "running": 0,
}  # fmt: skip


def read_ledger_and_queue(manager: Manager, prefix: str, explained: Collection[str] = ()) -> dict[str, Any]:
    """Return the result of ``read_ledger`` with ``queue``: the view of the queues, or None in a swarm without queues."""
    nodes, services, now = manager.nodes(), manager.services(), epoch(manager.time)
    tasks: list[Mapping[str, Any]] = []
    each = keeping(manager.tasks(), tasks) if any(map(is_queued, services)) else manager.tasks()
    shown = [as_submitted(service, state_of(service)) if _is_explained(service, explained) else service for service in services]
    result = ledger_of(manager, Listed(nodes, each, shown, now), prefix, explained)
    return dict(result, queue=queue_in(Listed(nodes, tasks, services, now), manager.spec, now or time.time()))


def queue_in(listed: Listed, spec: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """Return the view of the queues; None if the swarm has no queues and no service names one. ``spec`` is the specification of the swarm.

    Each row of ``queues`` gets four more fields:
    ``states`` and ``reasons``: how much work is in each state, and how much work waits for each reason;
    ``since``: when the oldest waiting work was submitted;
    ``kept``: the nodes that are kept for the next work.
    One row with the name UNKNOWN counts the work of all queues that do not exist, except for work that is over.
    """
    if LABEL not in (spec.get("Labels") or {}) and not any(map(is_queued, listed.services)):
        return None
    view = view_of(listed, spec, now)
    queues = {row["queue"]: dict(row, **_no_work()) for row in view["queues"]}
    for row in view["work"]:
        queue = queues.get(row["queue"])
        if queue is None and row["state"] == OVER:
            continue
        if queue is None:
            queue = queues.setdefault(UNKNOWN, {**_UNKNOWN, "used": {}, **_no_work()})
            queue["waiting"] += row["state"] == WAITING
            if row["state"] in (STARTING, RUNNING, LOST):
                queue["running"] += 1
                queue["used"].update({kind: queue["used"].get(kind, 0) + amount for kind, amount in row["amounts"].items()})
        _count(queue, row)
    return {**view, "queues": list(queues.values())}


def _no_work() -> dict[str, Any]:
    return {"states": {}, "reasons": {}, "since": None, "kept": []}


def _count(queue: dict[str, Any], row: Mapping[str, Any]) -> None:
    queue["states"][row["state"]] = queue["states"].get(row["state"], 0) + 1
    if row["state"] == WAITING:
        queue["reasons"][row["reason"]] = queue["reasons"].get(row["reason"], 0) + 1
        queue["since"] = min(filter(None, [queue["since"], row["since"]]), default=None)
        queue["kept"] += row["kept"]


def _is_explained(service: Mapping[str, Any], explained: Collection[str]) -> bool:
    """Return whether a person asks why this queued work waits. The answer then ignores the constraint that an admission added."""
    return is_queued(service) and (service["ID"] in explained or service["Spec"]["Name"] in explained)
