# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm as its managers know it (pure): the level, the nodes with another level, and whether `reserved` would refuse any task.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._isolation_levels import AUDIT, OFF
from .._ledger.isolation_state import SAFE_S, differs, is_recent, level_of
from .._printable import shortened

_HOUR, _DAY = 3600, 86400


def isolation(ledger: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section *isolation* of ``output=json``. ``differ`` has the levels of nodes that differ, by host name. ``change`` has the services to
    change.
    """
    swarm_isolation = isolation_in(ledger)
    level = str(swarm_isolation.get("level") or OFF)
    recent = (
        [violation for violation in swarm_isolation.get("found") or [] if is_recent(violation, swarm_isolation["time"])] if level == AUDIT else []
    )
    differ = {node["hostname"]: level_of(node["id"], swarm_isolation) for node in ledger["nodes"] if differs(node, swarm_isolation)}
    return {
        "level": level,
        "since": swarm_isolation.get("since"),
        "differ": differ,
        "change": [{"service": violation["service"], "why": violation["names"]} for violation in recent],
        "read": swarm_isolation.get("read"),
        "clear_for": swarm_isolation.get("clear_for"),
        "safe": level == AUDIT and not recent and not differ and (swarm_isolation.get("clear_for") or 0) >= SAFE_S,
    }


def isolation_in(ledger: Mapping[str, Any]) -> Mapping[str, Any]:
    return (ledger.get("swarm") or {}).get("isolation") or {}


def allocated_but_free_for_leader(task: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    """Return the GPUs of a task that swarm may allocate again, because a leader that restarted later counts them as free."""
    free_for_leader = (shown.get("again") or {}).get(task["id"]) or []
    allocated = [value for values in task["holding"].values() if isinstance(values, list) for value in values]
    return [value for value in free_for_leader if value in allocated]


def describe(report: Mapping[str, Any]) -> str:
    """Return the level and, under ``audit``, whether it is safe to enforce isolation."""
    return f"isolation: {report['level']}" + (f"; {_audit_result(report)}" if report["level"] == AUDIT else "")


def _audit_result(report: Mapping[str, Any]) -> str:
    if report["change"]:
        return f"change these before isolation is enforced: {shortened([_violation(violation) for violation in report['change']])}"
    if report["differ"]:
        return f"not all GPU nodes have this level: run provision on {shortened(sorted(report['differ']))}"
    if report["read"] is None:
        return "no run has read the violations of all nodes yet"
    source = f" (read by the run of {report['read']})"
    if report["safe"]:
        return f"no violation for {report['clear_for'] // _DAY} days: safe to enforce{source}"
    hours, days = (report["clear_for"] or 0) // _HOUR, (report["clear_for"] or 0) // _DAY
    clear_time = f"{days} days" if days > 1 else f"{hours} hours"
    return f"no violation for {clear_time}; safe to enforce after {SAFE_S // _DAY} days without one{source}"


def _violation(violation: Mapping[str, Any]) -> str:
    return f"{violation['service'] or 'the guard of a node'} ({', '.join(violation['why'])})"
