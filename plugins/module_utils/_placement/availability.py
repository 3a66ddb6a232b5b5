# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a node's availability, and the labels in which a run records that it changed the availability (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._swarm.owned_labels import PAUSED_FOR

FORMER = "former-availability"
SINCE = "paused-since"  # when a run set the availability, by the manager's clock
BY = "paused-by"  # the playbook that set it, as text
NOTES = (FORMER, SINCE, BY, PAUSED_FOR)
ACTIVE, PAUSED, DRAINED = "active", "pause", "drain"
_PARTICIPLES = {PAUSED: "paused", DRAINED: "drained"}


def read_mark(value: str | None) -> tuple[str | None, str]:
    """Return (the availability before the run, the availability that the run set).

    A mark ``active`` means ``active/pause``. Without a mark, return (None, …).
    """
    if value is None:
        return None, PAUSED
    former, dummy_slash, set_by_run = value.partition("/")
    return former, set_by_run or PAUSED


def is_set_by_run(spec: Mapping[str, Any], prefix: str) -> bool:
    """Return whether a run set the node's current availability. False if somebody else changed the availability later."""
    former, set_by_run = read_mark((spec.get("Labels") or {}).get(prefix + FORMER))
    return former is not None and spec.get("Availability") == set_by_run


def set_at(spec: Mapping[str, Any], prefix: str) -> str | None:
    """Return when a run set the node's current availability; None if no run set it, or if the time is unknown."""
    return (spec.get("Labels") or {}).get(prefix + SINCE) if is_set_by_run(spec, prefix) else None


def set_by(spec: Mapping[str, Any], prefix: str) -> str | None:
    """Return which playbook set the node's current availability; None if no playbook set it, or if the name is unknown."""
    return (spec.get("Labels") or {}).get(prefix + BY) if is_set_by_run(spec, prefix) else None


def paused_for(spec: Mapping[str, Any], prefix: str) -> str | None:
    """Return the fault for which the node is paused; None if the node is not paused, or is paused for another reason."""
    return (spec.get("Labels") or {}).get(prefix + PAUSED_FOR) if is_set_by_run(spec, prefix) else None


def closed_as(record: Mapping[str, Any]) -> str:
    """Return the node's state if the node is not ready, otherwise its availability. ``record`` is the node's record in the ledger."""
    return str(record["state"] if record["state"] != "ready" else record["availability"])


def why_closed(record: Mapping[str, Any]) -> str:
    """Return why a node of the ledger takes no new tasks, and who decided that, such as "paused, by hand"."""
    word = closed_as(record)
    if word == PAUSED and record.get("paused_for"):
        return "paused for a fault"
    if word not in (PAUSED, DRAINED):
        return word
    by_run = record.get("set_by") or "a run of this collection"
    return "%s, by %s" % (_PARTICIPLES[word], by_run if record["set_by_run"] else "hand")
