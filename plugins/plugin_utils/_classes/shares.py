# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Divides the replicas of a service among classes of nodes (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping


def shares(total: int, room: Mapping[str, int], former: Mapping[str, int]) -> dict[str, int]:
    """Return the replicas of each class, in proportion to the tasks that fit there now (``room``).

    Each class keeps its ``former`` replicas if the total allows it. Swarm cannot move tasks between classes, so another division would stop tasks.
    """
    result = {name: former.get(name, 0) for name in room}
    order = list(room)
    weights = room if any(room.values()) else dict.fromkeys(room, 1)
    while sum(result.values()) > total:
        largest = max((name for name in order if result[name]), key=lambda name: (result[name] > room[name], result[name] / max(room[name], 0.5)))
        result[largest] -= 1
    while sum(result.values()) < total:
        # Webster's method. A class without room gets replicas only if no class has room.
        smallest = max(order, key=lambda name: (result[name] < room[name], weights[name] / (2 * result[name] + 1), -order.index(name)))
        result[smallest] += 1
    return result
