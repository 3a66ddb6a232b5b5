# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm, as its managers know it (pure): the level, the nodes with another one, and whether `reserved` would refuse anything.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._ledger.isolation import SAFE_S, differs, is_recent, level_of
from ...module_utils._printable import shortened
from ...module_utils._swarm.isolation import AUDIT, OFF

_HOUR, _DAY = 3600, 86400


def isolation(ledger: Mapping[str, Any]) -> dict[str, Any]:
    """As ``output=json`` has it: ``differ`` are by host name the levels of nodes with another one, ``change`` the services that would be refused."""
    shown = shown_by(ledger)
    level = str(shown.get("level") or OFF)
    recent = [one for one in shown.get("found") or [] if is_recent(one, shown["time"])] if level == AUDIT else []
    differ = {node["hostname"]: level_of(node["id"], shown) for node in ledger["nodes"] if differs(node, shown)}
    return {
        "level": level,
        "since": shown.get("since"),
        "differ": differ,
        "change": [{"service": one["service"], "why": one["names"]} for one in recent],
        "read": shown.get("read"),
        "clear_for": shown.get("clear_for"),
        "safe": level == AUDIT and not recent and not differ and (shown.get("clear_for") or 0) >= SAFE_S,
    }


def shown_by(ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    return (ledger.get("swarm") or {}).get("isolation") or {}


def allocated_again(task: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    """What of a task's GPUs swarm may give to another one: its leader, which began anew since, counts it as free."""
    wrong = (shown.get("again") or {}).get(task["id"]) or []
    allocated = [value for given in task["holding"].values() if isinstance(given, list) for value in given]
    return [value for value in wrong if value in allocated]


def in_words(found: Mapping[str, Any]) -> str:
    """The level, and under ``audit`` whether it is safe to enforce it."""
    return f"isolation: {found['level']}" + (f"; {_counted(found)}" if found["level"] == AUDIT else "")


def _counted(found: Mapping[str, Any]) -> str:
    if found["change"]:
        return f"change before it is enforced: {shortened([_in_words(one) for one in found['change']])}"
    if found["differ"]:
        return f"not all nodes with GPUs have it: run provision on {shortened(sorted(found['differ']))}"
    if found["read"] is None:
        return "no run has read yet what all nodes counted"
    by = f" (read by the run of {found['read']})"
    if found["safe"]:
        return f"no violation for {found['clear_for'] // _DAY} days: safe to enforce{by}"
    hours, days = (found["clear_for"] or 0) // _HOUR, (found["clear_for"] or 0) // _DAY
    long = f"{days} days" if days > 1 else f"{hours} hours"
    return f"no violation for {long}; safe to enforce after {SAFE_S // _DAY} days without one{by}"


def _in_words(one: Mapping[str, Any]) -> str:
    return f"{one['service'] or 'the guard of a node'} ({', '.join(one['why'])})"
