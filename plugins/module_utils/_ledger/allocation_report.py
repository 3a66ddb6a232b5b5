# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where processes on GPUs and reservations differ (pure): what the nodes' watchers found when a run read it last, as far as it is so still.

Only tasks that the manager has on that node now are named, by the manager's own names, and no card that another node advertises: so a node that
lies can say something about itself only. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from .._gpu.record import devices_of
from .._health.allocation_findings import IDLE, NAMES, NOT_HELD, OUTSIDE, SEEN, USED_BY_ANOTHER, Finding
from .._printable import shortened
from .._swarm.isolation import NodeFindings
from .._swarm.lease import in_words

# What a finding means, and what to do.
_TEXTS = {
    USED_BY_ANOTHER: "A GPU that a task has is used by something else too.",
    NOT_HELD: "A task uses a GPU that swarm did not give it.",
    IDLE: "A task has a GPU and does not use it.",
    OUTSIDE: "Something that is no task uses a GPU that swarm may allocate.",
    SEEN: "A container that is no task can use a GPU that a task has.",
}
_REMEDIES = {
    USED_BY_ANOTHER: "End the process, or have it reserve a GPU; isolation keeps tasks from it.",
    NOT_HELD: "Have the service reserve a GPU; isolation keeps tasks from it.",
    IDLE: "Find out whose it is, and end it if nobody needs it.",
    OUTSIDE: "End the process, or leave the card to the host by a rule with 'as: none'.",
    SEEN: "Have it reserve a GPU as a service, or name a label of it in gpu_node_isolation_allow if it is to see all of them.",
}


def allocation_findings(records: Iterable[Mapping[str, Any]], of_nodes: Mapping[str, NodeFindings]) -> list[dict[str, Any]]:
    """As a module's result has it. ``records`` are the ledger's of all nodes, ``of_nodes`` what the label of the swarm has by node."""
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
        if not of_another and _is_so_still(one, tasks):
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
                "since": in_words(one.since),
                "read": in_words(found.read),
            }


def _is_so_still(one: Finding, tasks: Mapping[str, Mapping[str, Any]]) -> bool:
    if not all(task in tasks for task in (one.task, one.holder) if task):
        return False
    holder = one.task if one.name == IDLE else one.holder if one.name in (USED_BY_ANOTHER, SEEN) else ""
    return bool(tasks[holder]["holding"]) if holder else one.name not in (USED_BY_ANOTHER, SEEN)


def text(one: Mapping[str, Any]) -> str:
    """What uses which card, and who has it, in words."""
    who = "%s (%s)" % (one["task"], one["by"]) if one["task"] and one["by"] else one["task"] or one["by"]
    if one["name"] == IDLE:
        return "%s has it and has had no process there since %s" % (who, one["since"])
    has = "which %s has" % one["holder"] if one["holder"] else "which nobody has"
    does = "sees it and has no process there" if one["name"] == SEEN else "uses it"
    return "%s %s, %s, since %s" % (who, does, has, one["since"])


def findings(found: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Those of the ledger, as it has others."""
    who: dict[str, list[str]] = {name: [] for name in NAMES}
    for one in found:
        who[one["name"]].append("%s on node %s: %s" % (one["card"], one["hostname"], text(one)))
    return [
        {"id": name, "text": "%s Here: %s. %s (docs/ISOLATION.md)" % (_TEXTS[name], shortened(several, "; "), _REMEDIES[name])}
        for name, several in who.items()
        if several
    ]
