# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports differences between the processes on GPUs and the allocations (pure). The last run read these findings from the watchers. Only findings
that still apply are reported.

A finding may only name tasks that are on the reporting node now, and no card that another node advertises. So a node can only lie about itself.
The names of tasks come from the manager. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import shlex
from typing import Any, Iterable, Iterator, Mapping

from .._gpu.record import devices_of
from .._health.allocation_findings import IDLE, NAMES, NO_LOAD, NOT_HELD, OUTSIDE, SEEN, USED_BY_ANOTHER, Finding
from .._printable import shortened
from .._swarm.isolation import NodeFindings
from .._swarm.lease import format_time

# The meaning of each finding, and its remedy.
_TEXTS = {
    USED_BY_ANOTHER: "A GPU that is allocated to a task is used by something else too.",
    NOT_HELD: "A task uses a GPU that is not allocated to it.",
    IDLE: "A task does not use the GPU that is allocated to it.",
    NO_LOAD: "A task has processes on the GPU that is allocated to it, but the GPU computes nothing.",
    OUTSIDE: "A process that belongs to no task uses a GPU that swarm may allocate.",
    SEEN: "A container that belongs to no task can use a GPU that is allocated to a task.",
}
_ASK = "Ask its owner. If nobody needs the service, stop all its tasks: %s (a global service: docker service rm NAME)."
_REMEDIES = {
    USED_BY_ANOTHER: "End the process, or have it reserve a GPU; isolation keeps tasks from it.",
    NOT_HELD: "Have the service reserve a GPU; isolation keeps tasks from it.",
    IDLE: _ASK,
    NO_LOAD: _ASK,
    OUTSIDE: "End the process, or reserve the card for the host with a rule 'as: none'.",
    SEEN: "Have it reserve a GPU as a service, or list one of its labels in gpu_node_isolation_allow if it may see all GPUs.",
}


def allocation_findings(records: Iterable[Mapping[str, Any]], of_nodes: Mapping[str, NodeFindings]) -> list[dict[str, Any]]:
    """Return the findings for a module's result.

    ``records`` are the ledger's records of all nodes. ``of_nodes`` are the findings in the swarm's label, by node.
    """
    records = list(records)
    owners: dict[str, set[str]] = {}
    for record in records:
        for card in _cards(record):
            owners.setdefault(card, set()).add(record["id"])
    return [finding for record in records if record["id"] in of_nodes for finding in _findings_of_node(record, of_nodes[record["id"]], owners)]


def _cards(record: Mapping[str, Any]) -> Iterator[str]:
    return (card for entry in record["resources"].values() for value in entry["values"] or () for card in devices_of(value))


def _findings_of_node(record: Mapping[str, Any], reported: NodeFindings, owners: Mapping[str, set[str]]) -> Iterator[dict[str, Any]]:
    tasks = {task["id"]: task for task in record["tasks"]}
    for finding in reported.found:
        is_of_another_node = finding.card in owners and record["id"] not in owners[finding.card]
        if not is_of_another_node and _still_applies(finding, tasks):
            task, holder = tasks.get(finding.task, {}), tasks.get(finding.holder, {})
            yield {
                "name": finding.name,
                "node": record["id"],
                "hostname": record["hostname"],
                "card": finding.card,
                "task_id": finding.task or None,
                "task": task.get("name"),
                "service": task.get("service") or holder.get("service"),
                "holder_id": finding.holder or None,
                "holder": holder.get("name"),
                "by": finding.by,
                "since": format_time(finding.since),
                "read": format_time(reported.read),
            }


def _still_applies(finding: Finding, tasks: Mapping[str, Mapping[str, Any]]) -> bool:
    if not all(task in tasks for task in (finding.task, finding.holder) if task):
        return False
    holder = finding.task if finding.name in (IDLE, NO_LOAD) else finding.holder if finding.name in (USED_BY_ANOTHER, SEEN) else ""
    return bool(tasks[holder]["holding"]) if holder else finding.name not in (USED_BY_ANOTHER, SEEN)


def describe(finding: Mapping[str, Any]) -> str:
    """Return a text that says which task uses the card, and which task the card is allocated to."""
    user = "%s (%s)" % (finding["task"], finding["by"]) if finding["task"] and finding["by"] else finding["task"] or finding["by"]
    if finding["name"] == IDLE:
        return "it is allocated to %s, which has had no process there since %s" % (user, finding["since"])
    if finding["name"] == NO_LOAD:
        return "it is allocated to %s, which has computed nothing there since %s" % (user, finding["since"])
    owner = finding["holder"] or "no task"
    action = "sees it and has no process there" if finding["name"] == SEEN else "uses it"
    return "%s %s, but it is allocated to %s (since %s)" % (user, action, owner, finding["since"])


def findings(differences: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return these findings in the form of the ledger's other findings."""
    by_name: dict[str, list[Mapping[str, Any]]] = {name: [] for name in NAMES}
    for finding in differences:
        by_name[finding["name"]].append(finding)
    return [{"id": name, "text": _text(name, affected)} for name, affected in by_name.items() if affected]


def _text(name: str, affected: Iterable[Mapping[str, Any]]) -> str:
    places = ["%s on node %s: %s" % (finding["card"], finding["hostname"], describe(finding)) for finding in affected]
    remedy = _REMEDIES[name]
    if remedy is _ASK:
        services = dict.fromkeys(finding["service"] for finding in affected if finding["service"])
        remedy %= "docker service scale %s" % " ".join("%s=0" % shlex.quote(service) for service in services)
    return "%s Here: %s. %s (docs/operate/allocation-check.md)" % (_TEXTS[name], shortened(places, "; "), remedy)
