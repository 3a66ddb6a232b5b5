# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm, stored in a label of the swarm itself (pure).

It has the swarm's level, the level of each node as a run last read or set it, what the nodes counted at the level ``audit``, and at any level where
processes and allocations differ according to the watchers.

It is not stored in labels of nodes: an old leader may stop a task whenever a node is updated, and a change of the level must not stop any.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Sequence

from .._health import allocation_findings
from .._health.allocation_findings import Finding
from .._isolation_levels import AUDIT, EXCLUSIVE, LEVELS, OFF, RESERVED

LABEL = "gpu-swarm.isolation"
ENFORCED = (RESERVED, EXCLUSIVE)  # what a task did not reserve is hidden from it, or it is refused
UNKNOWN = "unknown"  # what somebody else wrote there
# How long the counts of a service are kept after the last one, and of how many services (the latest).
KEPT_S = 30 * 86400
MOST = 20
_YEAR_10000 = 253402300800


class Found(NamedTuple):
    """What ``audit`` counted of a service."""

    names: tuple[str, ...]  # of what
    last: int  # in seconds since 1970


class NodeFindings(NamedTuple):
    """Of one node."""

    read: int  # when a run read it
    found: Sequence[Finding]


class Isolation(NamedTuple):
    """Times are whole seconds since 1970."""

    level: str = OFF
    since: int | None = None
    nodes: Mapping[str, str] = {}  # by id the level of each node that has a guard
    found: Mapping[str, Found] = {}  # by service
    read: int | None = None  # when a run read what all of these nodes counted
    joined: int | None = None  # when the latest node reached the level ``audit``; before that it counted nothing
    allocation_findings: Mapping[str, NodeFindings] = {}  # by id, of each node that has any
    leader: str | None = None  # which leader of the managers counted the tasks last, and since when its dockerd runs
    again: Mapping[str, tuple[str, ...]] = {}  # by task what it has and that leader counts as free


def read(spec: Mapping[str, Any]) -> Isolation:
    """The isolation in a swarm's spec. Without a label it is off."""
    value = (spec.get("Labels") or {}).get(LABEL)
    if not value or value in LEVELS:
        return Isolation(value or OFF)
    try:
        return _parsed(json.loads(value))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return Isolation(UNKNOWN)


def _parsed(kept: Mapping[str, Any]) -> Isolation:
    nodes = {str(one): level for level, ids in (kept.get("nodes") or {}).items() if level in LEVELS for one in ids}
    found = {str(name): Found(tuple(map(str, one["names"])), _time(one["last"])) for name, one in (kept.get("found") or {}).items()}
    level = kept["level"] if kept["level"] in LEVELS else UNKNOWN
    times = [_seconds(kept.get(name)) for name in ("since", "read", "joined")]
    by_node = (kept.get("allocation_findings") or {}).items()
    of_nodes = {str(node): NodeFindings(_time(one["read"]), tuple(allocation_findings.checked(one["found"]))) for node, one in by_node}
    leader, again = kept.get("leader"), {str(task): tuple(map(str, values)) for task, values in (kept.get("again") or {}).items()}
    return Isolation(level, times[0], nodes, found, times[1], times[2], of_nodes, None if leader is None else str(leader), again)


def _seconds(value: Any) -> int | None:
    return None if value is None else _time(value)


def _time(value: Any) -> int:
    """The value as whole seconds since 1970. Raises ValueError if no calendar has that time."""
    moment = int(value)
    if not 0 <= moment < _YEAR_10000:
        raise ValueError("%s is no time" % moment)
    return moment


def write(spec: dict[str, Any], isolation: Isolation) -> dict[str, Any]:
    """The spec with this isolation in its label. If everything is off, the label is removed."""
    labels = {key: value for key, value in (spec.get("Labels") or {}).items() if key != LABEL}
    if isolation.level != OFF or isolation.nodes or isolation.allocation_findings:
        labels[LABEL] = json.dumps(as_shown(isolation), separators=(",", ":"))
    return dict(spec, Labels=labels)


def as_shown(isolation: Isolation) -> dict[str, Any]:
    """The content of the label, also shown in a diff."""
    nodes: dict[str, list[str]] = {}
    for node, level in sorted(isolation.nodes.items()):
        nodes.setdefault(level, []).append(node)
    found = {name: {"names": list(one.names), "last": one.last} for name, one in isolation.found.items()}
    by_node = sorted(isolation.allocation_findings.items())
    of_nodes = {node: {"read": one.read, "found": allocation_findings.as_lists(one.found)} for node, one in by_node}
    again = {task: list(values) for task, values in isolation.again.items()}
    made = {**isolation._asdict(), "nodes": nodes, "found": found, "allocation_findings": of_nodes, "again": again}
    return {key: value for key, value in made.items() if value not in (None, {})}


def merged(before: Isolation, change: Mapping[str, Any], now: int) -> Isolation:
    """The isolation after a change. A field of ``change`` that is None changes nothing.

    ``level`` is the new level of the swarm. ``nodes`` are new levels by node id. ``listed`` are all nodes; data about others is dropped. ``found`` is
    what nodes counted by service, without names if the service no longer exists. ``whole``: it comes from all nodes that have a guard.
    ``allocation_findings`` are the watchers' findings by node.
    """
    level = change.get("level") or before.level
    listed, found = change.get("listed"), change.get("found")
    nodes = {**before.nodes, **(change.get("nodes") or {})}
    nodes = {node: one for node, one in nodes.items() if one != OFF and (listed is None or node in listed)}
    known = level == before.level and (before.since is not None or level == UNKNOWN)
    since = before.since if known else now  # a new swarm has a label without it
    findings = _merge_findings(before.allocation_findings, change.get("allocation_findings") or {}, listed, now)
    kept = Isolation(level, since, nodes, allocation_findings=findings)
    if level != OFF:
        kept = kept._replace(leader=before.leader, again=before.again)
    if level != AUDIT:
        return kept
    came = any(one == AUDIT and before.nodes.get(node) != AUDIT for node, one in nodes.items())
    return kept._replace(
        found=_found(before, found or {}, since or 0, now),
        read=now if change.get("whole") else before.read,
        joined=now if came else before.joined,
    )


def _merge_findings(
    before: Mapping[str, NodeFindings], read_now: Mapping[str, Any], listed: Sequence[str] | None, now: int
) -> dict[str, NodeFindings]:
    """The last findings of each node, cut to a limit. A node that lies cannot displace the first finding of another node."""
    found = {**before, **{node: NodeFindings(now, tuple(_not_ahead(these, now))) for node, these in read_now.items()}}
    there = {node: one for node, one in found.items() if one.found and (listed is None or node in listed)}
    kept = sorted((place, node) for node, one in there.items() for place in range(len(one.found)))[: allocation_findings.MOST_OF_ALL]
    count = {node: sum(1 for dummy, other in kept if other == node) for node in there}
    return {node: there[node]._replace(found=there[node].found[: count[node]]) for node in sorted(there) if count[node]}


def _not_ahead(found: Any, now: int) -> list[Finding]:
    return [one._replace(since=min(one.since, now)) for one in allocation_findings.checked(found)]


def _found(before: Isolation, found: Mapping[str, Any], since: int, now: int) -> dict[str, Found]:
    """The former and new counts together. Counts from before the level began are dropped, and times from a clock that is ahead are corrected."""
    both = dict(before.found) if before.level == AUDIT else {}
    for service, one in found.items():
        known = both.get(service, Found((), 0))
        both[service] = Found(tuple(sorted({*known.names, *one["names"]})), max(known.last, min(int(one["last"]), now)))
    gone = {service for service, one in found.items() if not one["names"]}  # otherwise short-lived services would displace long-lived ones
    recent = {service: one for service, one in both.items() if one.last >= max(since, now - KEPT_S) and service not in gone}
    newest = sorted(recent, key=lambda service: (-recent[service].last, service))[:MOST]
    return {service: recent[service] for service in sorted(newest)}
