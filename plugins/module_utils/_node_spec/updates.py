# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Updates labels, availability and role of many nodes. Decides about the changes (pure), and then writes each node with one versioned update.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Sequence, TypedDict

from .._health import label
from .._placement.availability import ACTIVE, BY, DRAINED, FORMER, NOTES, PAUSED, SINCE, is_set_by_run, paused_for, read_mark
from .._swarm import owned_labels
from .._swarm.lease import Leased
from .._swarm.manager import Manager, OutOfSequence, SwarmError

AVAILABILITIES = (ACTIVE, PAUSED, DRAINED)
# Each attempt reads the node again. If all attempts fail, another program updates the node all the time.
ATTEMPTS = 10

# One entry of the module's option `nodes`.
Want = Dict[str, Any]


class Change(TypedDict):
    """The change of one node. ``before`` and ``after`` are its specifications in the API."""

    id: str
    hostname: str
    version: int
    before: dict[str, Any]
    after: dict[str, Any]
    changed: bool
    problems: list[str]


class Decision(NamedTuple):
    """The part of a change that may be written. ``evicted``: tasks that this part evicts. ``refused``: tasks that the rest of the change would evict,
    which is not allowed."""

    change: Change
    evicted: list[dict[str, Any]]
    refused: list[dict[str, Any]]


# A function that returns new decisions for the API's nodes, their changes and the entries of the option `nodes`.
Decide = Callable[[Sequence[Mapping[str, Any]], Sequence[Change], Sequence[Want]], Sequence[Decision]]


def check(wants: Iterable[Want], prefix: str) -> list[Want]:
    """Return the module's option `nodes`, with labels as strings. Raises SwarmError for contradictions."""
    if not prefix or not owned_labels.KEY.match(prefix):
        raise SwarmError("prefix %r: give a label key's beginning, such as 'gpu-swarm.'." % prefix)
    ids = set()
    checked = []
    for want in wants:
        if want["id"] in ids:
            raise SwarmError("nodes: node %s is listed twice. List each node once." % want["id"])
        ids.add(want["id"])
        if want["remember"] and want["availability"] == "former":
            raise SwarmError("nodes: node %s has remember=true with availability=former, which forgets the mark. Drop one of the two." % want["id"])
        if want.get("mark", owned_labels.KEEP) != owned_labels.KEEP and not want.get("host"):
            raise SwarmError("nodes: node %s has mark=%s and no host. Set host to the name of its host." % (want["id"], want["mark"]))
        labels = want["labels"]
        if labels is not None:
            labels = owned_labels.normalise(labels, prefix, want["id"])
        checked.append(dict(want, labels=labels))
    return checked


def plan(nodes: Sequence[Mapping[str, Any]], wants: Sequence[Want], prefix: str) -> list[Change]:
    """Return one change for each entry of the option ``nodes``, in order. Raises one SwarmError that lists all problems."""
    by_id = {node["ID"]: node for node in nodes}
    unknown = [want["id"] for want in wants if want["id"] not in by_id]
    if unknown:
        raise SwarmError(_describe_unknown(unknown, nodes), unknown=unknown)
    changes = [plan_one(by_id[want["id"]], want, prefix) for want in wants]
    problems = [problem for change in changes for problem in change["problems"]]
    if problems:
        raise SwarmError("These nodes cannot be updated: %s Nothing was changed." % _describe_problems(problems))
    return changes


def plan_one(node: Mapping[str, Any], want: Want, prefix: str) -> Change:
    """Return the change of one node."""
    before = node["Spec"]
    hostname = node.get("Description", {}).get("Hostname", "")
    name = "node %s (%s)" % (hostname, node["ID"])
    labels, clashes = _labels(name, before, want, prefix)
    labels, availability, mark_problems = _availability(name, before, want, labels, prefix)
    labels = _known_fault(labels, before, label.fault_of(node), want, prefix)
    after = copy.deepcopy(before)
    after["Labels"] = labels
    after["Availability"] = availability or before["Availability"]
    after["Role"] = want.get("role") or before["Role"]
    return {
        "id": node["ID"],
        "hostname": hostname,
        "version": node["Version"]["Index"],
        "before": before,
        "after": after,
        "changed": _visible_parts(before) != _visible_parts(after),
        "problems": clashes + mark_problems,
    }


def _labels(name: str, before: Mapping[str, Any], want: Want, prefix: str) -> tuple[dict[str, str], list[str]]:
    """Return (labels, problems). The labels are the node's labels after the change, with the label of the node's host."""
    labels = dict(before.get("Labels") or {})
    problems = []
    if want["labels"] is not None:
        labels, clashes = owned_labels.compute(labels, want["labels"], prefix, want.get("keep") or ())
        problems = [
            "%s has the label %s=%s, which this collection did not set, so it is not changed to %s"
            % (name, key, before["Labels"][key], want["labels"][key])
            for key in clashes
        ]
    host, bound = want.get("host"), owned_labels.bound_to(labels, prefix)
    if host and bound not in (None, host):
        problems.append("%s belongs to the host %s by its label %s, and %s is not that host" % (name, bound, prefix + owned_labels.HOST, host))
    elif host:
        labels = owned_labels.mark(labels, host, want.get("mark"), prefix)
    if want.get("mark") == owned_labels.REMOVE and not is_set_by_run(before, prefix):
        _forget(labels, *(prefix + key for key in NOTES))  # someone has changed the availability, so no later run would remove these labels
    if want.get("maintained"):
        labels = owned_labels.add_maintained(labels, want["maintained"], prefix)
    return labels, problems


def _availability(
    name: str, before: Mapping[str, Any], want: Want, labels: Mapping[str, str], prefix: str
) -> tuple[dict[str, str], str | None, list[str]]:
    """Return (labels, availability, problems). The labels may record the former availability. The availability is None if it does not change."""
    labels, problems, availability = dict(labels), [], want["availability"]
    mark, since, fault = prefix + FORMER, prefix + SINCE, prefix + owned_labels.PAUSED_FOR
    noted = {since: want.get("now"), prefix + BY: want.get("by")}  # the labels with the time of the change and the playbook
    if availability == "former":
        if not _may_return(paused_for(before, prefix), want):
            return labels, None, []  # the node has another fault now
        _forget(labels, *noted, fault)
        availability, set_by_run = read_mark(labels.pop(mark, None))
        if availability not in AVAILABILITIES + (None,):
            problems.append("%s has label %s=%s, which is not an availability" % (name, mark, availability))
        if before["Availability"] != set_by_run:
            availability = None  # someone has changed the availability since the run, so keep it
    elif want.get("paused_for") and before["Availability"] != ACTIVE:
        availability = None  # someone has paused or drained the node and will also make it active again
    elif want["remember"]:
        former, set_by_run = read_mark(labels.get(mark))
        if former is None or before["Availability"] != set_by_run:
            former = before["Availability"]  # someone has changed the availability since the run, so the mark is no longer valid
            _forget(labels, *noted, fault)
        labels[mark] = former if availability in (None, PAUSED) else "%s/%s" % (former, availability)
        for key, value in noted.items():
            if value:
                labels.setdefault(key, value)
        if want.get("paused_for"):
            labels[fault] = want["paused_for"]
    return labels, availability, problems


def _may_return(fault: str | None, want: Want) -> bool:
    """Return whether a node that is paused for ``fault`` may return to service. It may if the caller knows this fault, or has found that the fault is
    over."""
    over = want.get("over")
    return fault in (None, want.get("paused_for")) or bool(over and label.is_same_fault(fault, over))


def _forget(labels: dict[str, str], *keys: str) -> None:
    for key in keys:
        labels.pop(key, None)


def _known_fault(labels: dict[str, str], before: Mapping[str, Any], reported: str | None, want: Want, prefix: str) -> dict[str, str]:
    """Return the labels, with the reported fault if it is a known fault. When a node returns to service, it may still report the fault for which it
    was paused, or a fault that is over. The label with this fault prevents a manager from pausing the node again for the same fault."""
    known_faults = [fault for fault in ((before.get("Labels") or {}).get(prefix + owned_labels.PAUSED_FOR), want.get("over")) if fault]
    if want["availability"] != "former" or want.get("mark") == owned_labels.REMOVE or not reported:
        return labels
    return {prefix + owned_labels.PAUSED_FOR: reported, **labels} if any(label.is_same_fault(reported, fault) for fault in known_faults) else labels


def _visible_parts(spec: Mapping[str, Any]) -> tuple[dict[str, str], str, str]:
    return (spec.get("Labels") or {}, spec["Availability"], spec["Role"])


def _describe_unknown(unknown: Iterable[str], nodes: Sequence[Mapping[str, Any]]) -> str:
    names = []
    for node_id in unknown:
        same_name = [node["ID"] for node in nodes if node.get("Description", {}).get("Hostname") == node_id]
        hint = " (that is a host name; its id is %s)" % " or ".join(same_name) if same_name else ""
        names.append(node_id + hint)
    return "No such node in this swarm: %s. Give node ids as the node's own 'docker info' shows them. Nothing was changed." % ", ".join(names)


def _describe_problems(problems: Iterable[str]) -> str:
    return "%s. Remove the label if nobody needs it ('docker node update --label-rm KEY NODE'), or change that setting." % "; ".join(problems)


def write(manager: Manager | Leased, decisions: Sequence[Decision], wants: Sequence[Want], prefix: str, decide: Decide) -> list[Decision]:
    """Write all changes, and return the final decisions. If a node changed meanwhile, ``decide`` returns new ones."""
    written: list[Decision] = []
    for decision, want in zip(decisions, wants):
        change = decision.change
        try:
            written.append(_write_one(manager, decision, want, prefix, decide) if change["changed"] else decision)
        except SwarmError as exc:
            updated = [item.change["id"] for item in written if item.change["changed"]]
            raise SwarmError(
                "Node %s (%s): %s Nodes updated before this: %s." % (change["hostname"], change["id"], exc.message, ", ".join(updated) or "none"),
                **dict(exc.details, updated=updated),
            ) from exc
    return written


def _write_one(manager: Manager | Leased, decision: Decision, want: Want, prefix: str, decide: Decide) -> Decision:
    for _attempt in range(ATTEMPTS):
        change = decision.change
        try:
            manager.update_node(change["id"], change["version"], change["after"])
            return decision
        except OutOfSequence:
            node = manager.node(change["id"])
            change = plan_one(node, want, prefix)
        if change["problems"]:
            raise SwarmError(_describe_problems(change["problems"]))
        (decision,) = decide([node], [change], [want])
        if not decision.change["changed"]:
            return decision
    raise SwarmError("somebody else changed it during each of %d attempts. Run this again." % ATTEMPTS)


def diff(changes: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return Ansible's diff of the nodes that change."""
    sides: dict[str, dict[str, Any]] = {"before": {}, "after": {}}
    for change in changes:
        if change["changed"]:
            for side, shown in sides.items():
                shown["%s (%s)" % (change["hostname"], change["id"])] = {
                    "availability": change[side]["Availability"],
                    "labels": change[side].get("Labels") or {},
                    "role": change[side]["Role"],
                }
    return sides
