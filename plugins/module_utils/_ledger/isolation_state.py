# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the isolation of a swarm from the swarm's label (pure): the level, nodes with another level, and the services that the guard would refuse.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._isolation_levels import AUDIT, OFF
from .._swarm import isolation
from .._swarm.lease import format_time
from .._tasks.tasks import epoch
from .unreserved import has_gpus

# Enforcing is safe after this time without a count (seconds). A week includes weekly jobs.
SAFE_S = 7 * 86400


def result(spec: Mapping[str, Any], names: Iterable[str], now: float | None) -> dict[str, Any]:
    """Return the state for a module's result. ``names`` are the names of all services. ``now`` is the manager's time."""
    # A broken guard counts tasks without a service. The name of such an entry is "".
    state, existing, time = isolation.read(spec), {"", *names}, int(now or 0)
    return {
        "level": state.level,
        "since": format_time(state.since),
        "nodes": dict(state.nodes),
        "found": [
            {"service": service, "names": list(count.names), "last": format_time(count.last)}
            for service, count in state.found.items()
            if service in existing
        ],
        # A run uses these names to drop the counts of removed services. Guards count only with the level audit.
        "services": sorted(existing) if state.level == AUDIT else None,
        "again": {task: list(values) for task, values in state.again.items()},
        "read": format_time(state.read),
        "clear_for": _seconds_without_count(state, existing),
        "label": (spec.get("Labels") or {}).get(isolation.LABEL) or "",
        "time": time,
    }


def _seconds_without_count(state: isolation.Isolation, existing: Iterable[str]) -> int | None:
    """Return for how many seconds before the last complete reading no node counted an existing service; None without a complete reading."""
    if state.level != AUDIT or state.read is None:
        return None
    last = [count.last for service, count in state.found.items() if service in existing]
    return max(0, state.read - max([state.since or 0, state.joined or 0, *last]))


def is_recent(count: Mapping[str, Any], now: float) -> bool:
    """Return whether a service was counted so recently that enforcing is not safe yet. ``count`` is an entry of ``found``."""
    return now - (epoch(count["last"]) or 0) < SAFE_S


def level_of(node: str, shown: Mapping[str, Any] | None) -> str:
    """Return the level of a node that a run last read or set."""
    return str(((shown or {}).get("nodes") or {}).get(node) or OFF)


def differs(record: Mapping[str, Any], shown: Mapping[str, Any] | None) -> bool:
    """Return whether a node with GPUs has another level than its swarm."""
    return has_gpus(record) and level_of(record["id"], shown) != (shown or {}).get("level", OFF)
