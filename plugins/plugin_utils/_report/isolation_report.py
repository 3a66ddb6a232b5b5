# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm as its managers know it (pure): the level, the nodes with another level, and whether `reserved` would refuse any task.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...module_utils._isolation_levels import AUDIT, OFF
from ...module_utils._ledger.isolation_state import SAFE_S, differs, is_recent, level_of
from ...module_utils._printable import shortened

_HOUR, _DAY = 3600, 86400


def isolation(ledger: Mapping[str, Any]) -> dict[str, Any]:
    """The section *isolation* of ``output=json``. ``differ`` has the levels of nodes that differ, by host name, ``change`` the services to change."""
    shown = isolation_in(ledger)
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


def isolation_in(ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    return (ledger.get("swarm") or {}).get("isolation") or {}


def allocated_but_free_for_leader(task: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    """The GPUs of a task that swarm may allocate again, because a leader that restarted later counts them as free."""
    wrong = (shown.get("again") or {}).get(task["id"]) or []
    allocated = [value for values in task["holding"].values() if isinstance(values, list) for value in values]
    return [value for value in wrong if value in allocated]


def describe(found: Mapping[str, Any]) -> str:
    """Return the level and, under ``audit``, whether it is safe to enforce isolation."""
    return f"isolation: {found['level']}" + (f"; {_audit_result(found)}" if found["level"] == AUDIT else "")


def _audit_result(found: Mapping[str, Any]) -> str:
    if found["change"]:
        return f"change before it is enforced: {shortened([_violation(one) for one in found['change']])}"
    if found["differ"]:
        return f"not all GPU nodes have it: run provision on {shortened(sorted(found['differ']))}"
    if found["read"] is None:
        return "no run has read the violations of all nodes yet"
    by = f" (read by the run of {found['read']})"
    if found["safe"]:
        return f"no violation for {found['clear_for'] // _DAY} days: safe to enforce{by}"
    hours, days = (found["clear_for"] or 0) // _HOUR, (found["clear_for"] or 0) // _DAY
    long = f"{days} days" if days > 1 else f"{hours} hours"
    return f"no violation for {long}; safe to enforce after {SAFE_S // _DAY} days without one{by}"


def _violation(one: Mapping[str, Any]) -> str:
    return f"{one['service'] or 'the guard of a node'} ({', '.join(one['why'])})"
