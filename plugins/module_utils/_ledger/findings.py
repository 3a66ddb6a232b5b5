# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The known issues that a ledger shows (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._compat import checks
from .._compat.issues import Trap
from .._policy import generic_resources, inventories
from .._printable import shortened


def findings(ledger: Mapping[str, Any], leader: str | None, guarded: bool, more: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """[{id, text}], one for each known issue that the ledger shows. The text says what goes wrong, who is affected, and the remedy.

    ``guarded``: all nodes with GPUs have a guard that refuses GPUs to tasks that did not reserve them. ``more``: by id of other known issues, who
    is affected.
    """
    # A service with a share of a GPU's memory gets no device by itself, so it has to set the variable. Under a guard, only tasks that run are
    # reported: they started before the guard, or are allowed. The guard refuses all others.
    seeing = [one for one in ledger["unreserved"] if not one["reserves"] and (one["nodes"] or not guarded)]
    found = (
        ("new-leader-claims-again", [_twice(one) for one in ledger["held_twice"]]),
        ("two-kinds-one-gpu", _inventories(ledger["nodes"])),
        ("finished-jobs-count", [_finished(one, leader) for one in ledger["finished_jobs"] if one["clash"]]),
        ("variable-set-by-hand", [_seeing(one) for one in seeing if _is_by_hand(one)]),
        ("no-reservation-sees-all", [_seeing(one) for one in seeing if not _is_by_hand(one)]),
        *more.items(),
    )
    return [_finding(checks.BY_ID[trap_id], who) for trap_id, who in found if who]


def _finding(trap: Trap, who: Sequence[str]) -> dict[str, str]:
    return {"id": trap.id, "text": "%s Here: %s. %s (%s; %s)" % (trap.wrong, shortened(who, "; "), trap.remedy, trap.id, trap.reference)}


def _twice(one: Mapping[str, Any]) -> str:
    tasks = " and ".join(holder["name"] for holder in one["holders"])
    return "%s %s on node %s, allocated to %s" % (one["kind"], one["value"], one["hostname"], tasks)


def _inventories(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    named = []
    for node in nodes:
        shown = {kind: entry["total"] if entry["values"] is None else entry["values"] for kind, entry in node["resources"].items()}
        found = inventories.find_double_counting(shown)
        named += ["%s and %s on node %s" % (found[0], shortened(found[1]), node["hostname"])] if found else []
    return named


def _finished(one: Mapping[str, Any], leader: str | None) -> str:
    what = shortened(one["values"]) if one["values"] else "%d %s" % (one["amount"], one["kind"])
    return "job %s on node %s with %s, under the leader's Docker Engine %s" % (one["service"], one["hostname"], what, leader)


def _is_by_hand(one: Mapping[str, Any]) -> bool:
    return any(name.startswith(generic_resources.ENV_PREFIX) for name in one["variables"])


def _seeing(one: Mapping[str, Any]) -> str:
    variables = ", ".join("%s=%s" % item for item in one["variables"].items())
    where = "on node %s" % shortened(one["nodes"]) if one["nodes"] else "on whatever node it is placed"
    return "service %s with %s %s" % (one["service"], variables, where)
