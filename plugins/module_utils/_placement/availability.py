# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The availability of nodes, and the mark of a run that changed it (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._swarm.owned_labels import PAUSED_FOR

FORMER = "former-availability"
SINCE = "paused-since"  # beside it: when a run set the availability, by the manager's clock
BY = "paused-by"  # and which playbook, in words
NOTES = (FORMER, SINCE, BY, PAUSED_FOR)
ACTIVE, PAUSED, DRAINED = "active", "pause", "drain"
_DONE = {PAUSED: "paused", DRAINED: "drained"}


def read_mark(value: str | None) -> tuple[str | None, str]:
    """(the former availability, the one that a run set) of a mark: ``active`` stands for ``active/pause``; (None, …) without one."""
    if value is None:
        return None, PAUSED
    former, dummy_slash, set_by_run = value.partition("/")
    return former, set_by_run or PAUSED


def is_set_by_run(spec: Mapping[str, Any], prefix: str) -> bool:
    """Whether a run set the availability that the node has: one that somebody has changed since is theirs."""
    former, set_by_run = read_mark((spec.get("Labels") or {}).get(prefix + FORMER))
    return former is not None and spec.get("Availability") == set_by_run


def set_at(spec: Mapping[str, Any], prefix: str) -> str | None:
    """When a run set the availability that the node has; None where none did, or that is not known."""
    return (spec.get("Labels") or {}).get(prefix + SINCE) if is_set_by_run(spec, prefix) else None


def set_by(spec: Mapping[str, Any], prefix: str) -> str | None:
    """Which playbook set the availability that the node has; None where none did, or that is not known."""
    return (spec.get("Labels") or {}).get(prefix + BY) if is_set_by_run(spec, prefix) else None


def paused_for(spec: Mapping[str, Any], prefix: str) -> str | None:
    """The fault for which a node is paused; None where it is not, or for something else."""
    return (spec.get("Labels") or {}).get(prefix + PAUSED_FOR) if is_set_by_run(spec, prefix) else None


def closed_as(record: Mapping[str, Any]) -> str:
    """The state of a node of the ledger where that is not ready, else its availability."""
    return str(record["state"] if record["state"] != "ready" else record["availability"])


def why_closed(record: Mapping[str, Any]) -> str:
    """Why a node of the ledger takes no new tasks, and who wanted that."""
    word = closed_as(record)
    if word == PAUSED and record.get("paused_for"):
        return "paused for a fault"
    if word not in (PAUSED, DRAINED):
        return word
    by_run = record.get("set_by") or "a run of this collection"
    return "%s, by %s" % (_DONE[word], by_run if record["set_by_run"] else "hand")
