# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which services have room in the swarm, by the manager's ledger (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

# Of a service: its tasks "running" and "pending".
Room = Mapping[str, int]


def rooms(ledger: Any) -> dict[str, Room]:
    """Of each service, how many of its tasks have room and how many wait for some. Of the first, only those that swarm starts again:
    one that ends by itself leaves nothing that has to have room."""
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
    """The services that have lost room since the run began, with the number of their tasks; none for a ``before`` of None.

    Neither a service that is new nor replicas that were added since: these never had room.
    """
    lost = {}
    for service, now in rooms(ledger).items():
        then = (before or {}).get(service)
        if then:
            lost[service] = min(now["pending"] - then["pending"], then["running"] - now["running"])
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in lost.items() if count > 0]


def without_room(ledger: Any) -> list[str]:
    """All that is pending, in words."""
    return [f"service {service} ({count} {'task' if count == 1 else 'tasks'})" for service, count in pending(ledger).items()]
