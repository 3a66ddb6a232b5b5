# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts which services have room in the swarm, from the ledger (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

# How many tasks of a service are "running" and "pending".
Room = Mapping[str, int]


def rooms(ledger: Any) -> dict[str, Room]:
    """Return by service how many tasks have room, and how many wait for room. Count only tasks that swarm starts again. Other tasks need no room
    after they have ended.
    """
    running = Counter(task["service"] for node in (ledger or {}).get("nodes") or [] for task in node["tasks"] if task["movable"])
    waiting = pending(ledger)
    return {service: {"running": running[service], "pending": waiting.get(service, 0)} for service in {**running, **waiting}}


def pending(ledger: Any) -> dict[str, int]:
    """Return how many tasks of each service wait for room."""
    counts: Counter[str] = Counter()
    for group in (ledger or {}).get("pending") or []:
        counts[group["service"]] += group["count"]
    return dict(counts)


def newly_pending(ledger: Any, before: Mapping[str, Room] | None) -> list[str]:
    """Return the services that have lost room since the run began, with the number of their tasks. The result is empty if ``before`` is None.

    Ignore new services and added replicas, because they never had room.
    """
    lost = {}
    for service, now in rooms(ledger).items():
        earlier = (before or {}).get(service)
        if earlier:
            lost[service] = min(now["pending"] - earlier["pending"], earlier["running"] - now["running"])
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in lost.items() if count > 0]


def without_room(ledger: Any) -> list[str]:
    """Return descriptions of all services with pending tasks."""
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in pending(ledger).items()]
