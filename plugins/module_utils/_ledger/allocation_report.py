# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where processes on GPUs and allocations differ (pure): the findings of the nodes' watchers at the last run, as far as they still apply.

A finding may name only tasks that are on that node now, under the manager's names, and no card that another node advertises. So a node that lies
can lie only about itself. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from .._gpu.record import devices_of
from .._health.allocation_findings import IDLE, NAMES, NOT_HELD, OUTSIDE, SEEN, USED_BY_ANOTHER, Finding
from .._printable import shortened
from .._swarm.isolation import NodeFindings
from .._swarm.lease import format_time

# What a finding means, and what to do.
_TEXTS = {
    USED_BY_ANOTHER: "A GPU that is allocated to a task is used by something else too.",
    NOT_HELD: "A task uses a GPU that is not allocated to it.",
    IDLE: "A task does not use the GPU that is allocated to it.",
    OUTSIDE: "A process that belongs to no task uses a GPU that swarm may allocate.",
    SEEN: "A container that belongs to no task can use a GPU that is allocated to a task.",
}
_REMEDIES = {
    USED_BY_ANOTHER: "End the process, or have it reserve a GPU; isolation keeps tasks from it.",
    NOT_HELD: "Have the service reserve a GPU; isolation keeps tasks from it.",
    IDLE: "Find out whose it is, and end it if nobody needs it.",
    OUTSIDE: "End the process, or leave the card to the host by a rule with 'as: none'.",
    SEEN: "Have it reserve a GPU as a service, or name a label of it in gpu_node_isolation_allow if it is to see all of them.",
}


def allocation_findings(records: Iterable[Mapping[str, Any]], of_nodes: Mapping[str, NodeFindings]) -> list[dict[str, Any]]:
    """Return the findings for a module's result.

    ``records`` are the ledger's of all nodes, ``of_nodes`` are the findings of the swarm's label by node.
    """
    records = list(records)
    owners: dict[str, set[str]] = {}
    for record in records:
        for card in _cards(record):
            owners.setdefault(card, set()).add(record["id"])
    return [one for record in records if record["id"] in of_nodes for one in _of_node(record, of_nodes[record["id"]], owners)]


def _cards(record: Mapping[str, Any]) -> Iterator[str]:
    return (card for entry in record["resources"].values() for value in entry["values"] or () for card in devices_of(value))


def _of_node(record: Mapping[str, Any], found: NodeFindings, owners: Mapping[str, set[str]]) -> Iterator[dict[str, Any]]:
    tasks = {task["id"]: task for task in record["tasks"]}
    for one in found.found:
        of_another = one.card in owners and record["id"] not in owners[one.card]
        if not of_another and _still_applies(one, tasks):
            task, holder = tasks.get(one.task, {}), tasks.get(one.holder, {})
            yield {
                "name": one.name,
                "node": record["id"],
                "hostname": record["hostname"],
                "card": one.card,
                "task_id": one.task or None,
                "task": task.get("name"),
                "service": task.get("service") or holder.get("service"),
                "holder_id": one.holder or None,
                "holder": holder.get("name"),
                "by": one.by,
                "since": format_time(one.since),
                "read": format_time(found.read),
            }


def _still_applies(one: Finding, tasks: Mapping[str, Mapping[str, Any]]) -> bool:
    if not all(task in tasks for task in (one.task, one.holder) if task):
        return False
    holder = one.task if one.name == IDLE else one.holder if one.name in (USED_BY_ANOTHER, SEEN) else ""
    return bool(tasks[holder]["holding"]) if holder else one.name not in (USED_BY_ANOTHER, SEEN)


def describe(one: Mapping[str, Any]) -> str:
    """Return a text that says who uses the card, and who it is allocated to."""
    who = "%s (%s)" % (one["task"], one["by"]) if one["task"] and one["by"] else one["task"] or one["by"]
    if one["name"] == IDLE:
        return "%s has it and has had no process there since %s" % (who, one["since"])
    has = "which %s has" % one["holder"] if one["holder"] else "which nobody has"
    does = "sees it and has no process there" if one["name"] == SEEN else "uses it"
    return "%s %s, %s, since %s" % (who, does, has, one["since"])


def findings(found: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the same findings in the form of the ledger's other findings."""
    who: dict[str, list[str]] = {name: [] for name in NAMES}
    for one in found:
        who[one["name"]].append("%s on node %s: %s" % (one["card"], one["hostname"], describe(one)))
    return [
        {"id": name, "text": "%s Here: %s. %s (docs/ISOLATION.md)" % (_TEXTS[name], shortened(several, "; "), _REMEDIES[name])}
        for name, several in who.items()
        if several
    ]
