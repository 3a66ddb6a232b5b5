# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm as its label shows it (pure): its level, nodes with another level, and what would be refused.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._isolation_levels import AUDIT, OFF
from .._swarm import isolation
from .._swarm.lease import format_time
from .._tasks.tasks import epoch
from .unreserved import has_gpus

# Enforcing is safe after this time without a count (seconds). A week includes what runs once a week.
SAFE_S = 7 * 86400


def result(spec: Mapping[str, Any], names: Iterable[str], now: float | None) -> dict[str, Any]:
    """Return the state for a module's result. ``names`` are those of all services, ``now`` is the manager's time."""
    # A broken guard counts under no service, hence "".
    found, there, time = isolation.read(spec), {"", *names}, int(now or 0)
    return {
        "level": found.level,
        "since": format_time(found.since),
        "nodes": dict(found.nodes),
        "found": [
            {"service": service, "names": list(one.names), "last": format_time(one.last)} for service, one in found.found.items() if service in there
        ],
        # With these a run drops counts of removed services. Only the level audit counts.
        "services": sorted(there) if found.level == AUDIT else None,
        "again": {task: list(values) for task, values in found.again.items()},
        "read": format_time(found.read),
        "clear_for": _clear_for(found, there),
        "label": (spec.get("Labels") or {}).get(isolation.LABEL) or "",
        "time": time,
    }


def _clear_for(found: isolation.Isolation, there: Iterable[str]) -> int | None:
    """For how many seconds before the last complete reading all nodes counted, and counted nothing of a service that still exists."""
    if found.level != AUDIT or found.read is None:
        return None
    last = [one.last for service, one in found.found.items() if service in there]
    return max(0, found.read - max([found.since or 0, found.joined or 0, *last]))


def is_recent(found: Mapping[str, Any], now: float) -> bool:
    """Return whether a service of ``found`` was counted so recently that enforcing is not safe yet."""
    return now - (epoch(found["last"]) or 0) < SAFE_S


def level_of(node: str, shown: Mapping[str, Any] | None) -> str:
    """Return the level of a node as a run last read or set it."""
    return str(((shown or {}).get("nodes") or {}).get(node) or OFF)


def differs(record: Mapping[str, Any], shown: Mapping[str, Any] | None) -> bool:
    """Return whether a node with GPUs has another level than its swarm."""
    return has_gpus(record) and level_of(record["id"], shown) != (shown or {}).get("level", OFF)
