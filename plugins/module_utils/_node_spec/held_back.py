# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the nodes that must not be updated yet, according to their option ``if_shown`` and the ledger (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from .._ledger.shown import difference, is_not_ready
from .updates import Want


def held_back(wants: Iterable[Want], ledger: Callable[[], Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return {id, hostname, reason} of each node that must wait. Read the ledger only if a node may have to wait. Nodes that are
    not in the ledger are ignored, because the caller reports them."""
    conditional = [want for want in wants if want.get("if_shown") is not None]
    if not conditional:
        return []
    current_ledger = ledger()
    nodes = {node["id"]: node for node in current_ledger["nodes"]}
    clashing_jobs = {job["node"]: job["service"] for job in current_ledger["finished_jobs"] if job["clash"]}
    reasons = [(nodes[want["id"]], _reason(nodes[want["id"]], want, clashing_jobs)) for want in conditional if want["id"] in nodes]
    return [{"id": node["id"], "hostname": node["hostname"], "reason": reason} for node, reason in reasons if reason]


def _reason(node: Mapping[str, Any], want: Want, clashing_jobs: Mapping[str, str]) -> str | None:
    if is_not_ready(node):
        return "it is not ready"
    if node["id"] in clashing_jobs:
        return "finished job %s would run again" % clashing_jobs[node["id"]]
    return difference({"resources": want["if_shown"]}, node)
