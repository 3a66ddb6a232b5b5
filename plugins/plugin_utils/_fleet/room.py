# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which services have room in the swarm, by the ledger (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

# How many tasks of a service are "running" and "pending".
Room = Mapping[str, int]


def rooms(ledger: Any) -> dict[str, Room]:
    """By service, how many tasks have room and how many wait for room. Only tasks count that swarm starts again: other tasks need no room once they
    have ended."""
    running = Counter(task["service"] for node in (ledger or {}).get("nodes") or [] for task in node["tasks"] if task["movable"])
    waiting = pending(ledger)
    return {service: {"running": running[service], "pending": waiting.get(service, 0)} for service in {**running, **waiting}}


def pending(ledger: Any) -> dict[str, int]:
    """How many tasks of each service wait for room."""
    found: Counter[str] = Counter()
    for group in (ledger or {}).get("pending") or []:
        found[group["service"]] += group["count"]
    return dict(found)


def newly_pending(ledger: Any, before: Mapping[str, Room] | None) -> list[str]:
    """The services that have lost room since the run began, with the number of their tasks. None of them if ``before`` is None.

    New services and added replicas do not count: they never had room.
    """
    lost = {}
    for service, now in rooms(ledger).items():
        then = (before or {}).get(service)
        if then:
            lost[service] = min(now["pending"] - then["pending"], then["running"] - now["running"])
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in lost.items() if count > 0]


def without_room(ledger: Any) -> list[str]:
    """All services with pending tasks, in words."""
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in pending(ledger).items()]
