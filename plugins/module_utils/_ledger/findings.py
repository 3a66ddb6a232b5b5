# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the known issues that a ledger shows (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._compat import checks
from .._compat.issues import Trap
from .._policy import generic_resources, inventories
from .._printable import shortened


def findings(ledger: Mapping[str, Any], leader: str | None, guarded: bool, others: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return [{id, text}], one for each known issue that the ledger shows. The text says what goes wrong, who is affected, and the remedy.

    ``guarded``: all nodes with GPUs have a guard that refuses GPUs to tasks that did not reserve them. ``others``: the affected objects of other
    known issues, by id of the issue.
    """
    # Skip services that reserve memory of a GPU, because they get no device unless they set the variable. With a guard, report only services with
    # running tasks: the guard allowed these tasks, or they started before the guard was installed. The guard refuses all other tasks.
    seeing = [service for service in ledger["unreserved"] if not service["reserves"] and (service["nodes"] or not guarded)]
    affected = (
        ("new-leader-claims-again", [_describe_clash(clash) for clash in ledger["held_twice"]]),
        ("two-kinds-one-gpu", _double_inventories(ledger["nodes"])),
        ("finished-jobs-count", [_describe_finished(job, leader) for job in ledger["finished_jobs"] if job["clash"]]),
        ("variable-set-by-hand", [_describe_service(service) for service in seeing if _is_by_hand(service)]),
        ("no-reservation-sees-all", [_describe_service(service) for service in seeing if not _is_by_hand(service)]),
        *others.items(),
    )
    return [_finding(checks.BY_ID[trap_id], texts) for trap_id, texts in affected if texts]


def _finding(trap: Trap, affected: Sequence[str]) -> dict[str, str]:
    return {"id": trap.id, "text": "%s Here: %s. %s (%s; %s)" % (trap.wrong, shortened(affected, "; "), trap.remedy, trap.id, trap.reference)}


def _describe_clash(clash: Mapping[str, Any]) -> str:
    tasks = " and ".join(holder["name"] for holder in clash["holders"])
    return "%s %s on node %s, allocated to %s" % (clash["kind"], clash["value"], clash["hostname"], tasks)


def _double_inventories(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    texts = []
    for node in nodes:
        shown = {kind: entry["total"] if entry["values"] is None else entry["values"] for kind, entry in node["resources"].items()}
        double = inventories.find_double_counting(shown)
        texts += ["%s and %s on node %s" % (double[0], shortened(double[1]), node["hostname"])] if double else []
    return texts


def _describe_finished(job: Mapping[str, Any], leader: str | None) -> str:
    resources = shortened(job["values"]) if job["values"] else "%d %s" % (job["amount"], job["kind"])
    return "job %s on node %s with %s, under the leader's Docker Engine %s" % (job["service"], job["hostname"], resources, leader)


def _is_by_hand(service: Mapping[str, Any]) -> bool:
    return any(name.startswith(generic_resources.ENV_PREFIX) for name in service["variables"])


def _describe_service(service: Mapping[str, Any]) -> str:
    variables = ", ".join("%s=%s" % item for item in service["variables"].items())
    where = "on node %s" % shortened(service["nodes"]) if service["nodes"] else "on any node where it is placed"
    return "service %s with %s %s" % (service["service"], variables, where)
