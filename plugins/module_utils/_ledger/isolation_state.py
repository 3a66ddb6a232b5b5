# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm as its managers know it (pure): the level, the nodes that have another one, and what would be refused.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._isolation_levels import AUDIT, OFF
from .._swarm import isolation
from .._swarm.lease import in_words
from .._tasks.tasks import epoch
from .unreserved import has_gpus

# So long nothing was counted where it is safe to enforce it: a week has what is done once a week.
SAFE_S = 7 * 86400


def result(spec: Mapping[str, Any], names: Iterable[str], now: float | None) -> dict[str, Any]:
    """As a module's result has it: ``names`` are those of the services that there are, ``now`` is the manager's time."""
    # A guard that is broken counts that for no service.
    found, there, time = isolation.read(spec), {"", *names}, int(now or 0)
    return {
        "level": found.level,
        "since": in_words(found.since),
        "nodes": dict(found.nodes),
        "found": [
            {"service": service, "names": list(one.names), "last": in_words(one.last)} for service, one in found.found.items() if service in there
        ],
        # By which a run leaves out what exists no more. At another level nothing is counted.
        "services": sorted(there) if found.level == AUDIT else None,
        "again": {task: list(values) for task, values in found.again.items()},
        "read": in_words(found.read),
        "clear_for": _clear_for(found, there),
        "label": (spec.get("Labels") or {}).get(isolation.LABEL) or "",
        "time": time,
    }


def _clear_for(found: isolation.Isolation, there: Iterable[str]) -> int | None:
    """For how many seconds, up to when all was read last, all nodes were there to count, and counted nothing of a service that there still is."""
    if found.level != AUDIT or found.read is None:
        return None
    last = [one.last for service, one in found.found.items() if service in there]
    return max(0, found.read - max([found.since or 0, found.joined or 0, *last]))


def is_recent(found: Mapping[str, Any], now: float) -> bool:
    """Whether a service of ``found`` was counted so lately that it still stands against enforcing it."""
    return now - (epoch(found["last"]) or 0) < SAFE_S


def level_of(node: str, shown: Mapping[str, Any] | None) -> str:
    """The level of a node, as far as a run read or made it."""
    return str(((shown or {}).get("nodes") or {}).get(node) or OFF)


def differs(record: Mapping[str, Any], shown: Mapping[str, Any] | None) -> bool:
    """Whether a node with GPUs has another level than its swarm."""
    return has_gpus(record) and level_of(record["id"], shown) != (shown or {}).get("level", OFF)
