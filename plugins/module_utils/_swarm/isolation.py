# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The isolation of a swarm, stored in a label of the swarm itself (pure).

The label contains the level of the swarm, and the level that a run last read or set on each node. It also contains the counts of the nodes at the
level ``audit``, and the watchers' findings about differences between processes and allocations.

The isolation is not stored in labels of nodes, because an old leader may stop tasks when a node is updated. A change of the level must not stop any
task.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Sequence

from .._health import allocation_findings
from .._health.allocation_findings import Finding
from .._isolation_levels import AUDIT, EXCLUSIVE, LEVELS, OFF, RESERVED

LABEL = "gpu-swarm.isolation"
ENFORCED = (RESERVED, EXCLUSIVE)  # at these levels a guard hides GPUs that a task did not reserve, or refuses the task
UNKNOWN = "unknown"  # somebody else wrote the label
# The counts of a service are dropped after this time without a new count (seconds). Only the latest services are kept.
KEPT_S = 30 * 86400
MOST_SERVICES = 20
_YEAR_10000 = 253402300800


class AuditCount(NamedTuple):
    """What guards at the level ``audit`` counted for a service."""

    names: tuple[str, ...]  # what was counted
    last: int  # the last time, in seconds since 1970


class NodeFindings(NamedTuple):
    """The findings of one node's watcher."""

    read: int  # when a run read these findings
    found: Sequence[Finding]


class Isolation(NamedTuple):
    """The isolation of a swarm. Times are whole seconds since 1970."""

    level: str = OFF
    since: int | None = None
    nodes: Mapping[str, str] = {}  # the level of each node with a guard, by node id
    found: Mapping[str, AuditCount] = {}  # the counts by service
    read: int | None = None  # when a run read the counts of all these nodes
    joined: int | None = None  # when the last node reached the level ``audit``; before that, this node counted nothing
    allocation_findings: Mapping[str, NodeFindings] = {}  # by node id
    leader: str | None = None  # the last leader, and when its dockerd was started
    again: Mapping[str, tuple[str, ...]] = {}  # allocated resources that the last leader counts as free, by task


def read(spec: Mapping[str, Any]) -> Isolation:
    """Return the isolation in a swarm's spec. Without a label the level is off."""
    value = (spec.get("Labels") or {}).get(LABEL)
    if not value or value in LEVELS:
        return Isolation(value or OFF)
    try:
        return _parse(json.loads(value))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return Isolation(UNKNOWN)


def _parse(label: Mapping[str, Any]) -> Isolation:
    nodes = {str(node_id): level for level, ids in (label.get("nodes") or {}).items() if level in LEVELS for node_id in ids}
    counts = (label.get("found") or {}).items()
    found = {str(service): AuditCount(tuple(map(str, count["names"])), _time(count["last"])) for service, count in counts}
    level = label["level"] if label["level"] in LEVELS else UNKNOWN
    since, read_at, joined = (_optional_time(label.get(name)) for name in ("since", "read", "joined"))
    by_node = (label.get("allocation_findings") or {}).items()
    of_nodes = {str(node): NodeFindings(_time(item["read"]), tuple(allocation_findings.valid_findings(item["found"]))) for node, item in by_node}
    leader, again = label.get("leader"), {str(task): tuple(map(str, values)) for task, values in (label.get("again") or {}).items()}
    return Isolation(level, since, nodes, found, read_at, joined, of_nodes, None if leader is None else str(leader), again)


def _optional_time(value: Any) -> int | None:
    return None if value is None else _time(value)


def _time(value: Any) -> int:
    """Return the value as whole seconds since 1970. Raises ValueError if it is not between 1970 and the year 9999."""
    seconds = int(value)
    if not 0 <= seconds < _YEAR_10000:
        raise ValueError("%s is not a time" % seconds)
    return seconds


def write(spec: dict[str, Any], isolation: Isolation) -> dict[str, Any]:
    """Return the spec with this isolation in its label. If everything is off, the label is removed."""
    labels = {key: value for key, value in (spec.get("Labels") or {}).items() if key != LABEL}
    if isolation.level != OFF or isolation.nodes or isolation.allocation_findings:
        labels[LABEL] = json.dumps(as_shown(isolation), separators=(",", ":"))
    return dict(spec, Labels=labels)


def as_shown(isolation: Isolation) -> dict[str, Any]:
    """Return the content of the label. A diff shows the same text."""
    nodes: dict[str, list[str]] = {}
    for node, level in sorted(isolation.nodes.items()):
        nodes.setdefault(level, []).append(node)
    found = {service: {"names": list(count.names), "last": count.last} for service, count in isolation.found.items()}
    by_node = sorted(isolation.allocation_findings.items())
    of_nodes = {node: {"read": item.read, "found": allocation_findings.as_lists(item.found)} for node, item in by_node}
    again = {task: list(values) for task, values in isolation.again.items()}
    label = {**isolation._asdict(), "nodes": nodes, "found": found, "allocation_findings": of_nodes, "again": again}
    return {key: value for key, value in label.items() if value not in (None, {})}


def merged(before: Isolation, change: Mapping[str, Any], now: int) -> Isolation:
    """Return the isolation after a change. A field of ``change`` that is None changes nothing.

    ``level`` is the new level of the swarm. ``nodes`` are new levels by node id. ``listed`` are all nodes; data about other nodes is dropped.
    ``found`` are the counts of the nodes, by service; a service that no longer exists has no names. ``whole`` is true if the counts include all nodes
    with a guard. ``allocation_findings`` are the watchers' findings by node.
    """
    level = change.get("level") or before.level
    listed, found = change.get("listed"), change.get("found")
    nodes = {**before.nodes, **(change.get("nodes") or {})}
    nodes = {node: node_level for node, node_level in nodes.items() if node_level != OFF and (listed is None or node in listed)}
    is_since_known = level == before.level and (before.since is not None or level == UNKNOWN)
    since = before.since if is_since_known else now  # a new swarm has no time in its label
    findings = _merge_findings(before.allocation_findings, change.get("allocation_findings") or {}, listed, now)
    result = Isolation(level, since, nodes, allocation_findings=findings)
    if level != OFF:
        result = result._replace(leader=before.leader, again=before.again)
    if level != AUDIT:
        return result
    has_joined = any(node_level == AUDIT and before.nodes.get(node) != AUDIT for node, node_level in nodes.items())
    return result._replace(
        found=_merge_counts(before, found or {}, since or 0, now),
        read=now if change.get("whole") else before.read,
        joined=now if has_joined else before.joined,
    )


def _merge_findings(
    before: Mapping[str, NodeFindings], read_now: Mapping[str, Any], listed: Sequence[str] | None, now: int
) -> dict[str, NodeFindings]:
    """Return the last findings of each node, limited in number. A node that reports false findings cannot displace the first finding of another
    node."""
    merged = {**before, **{node: NodeFindings(now, tuple(_not_in_future(findings, now))) for node, findings in read_now.items()}}
    listed_only = {node: item for node, item in merged.items() if item.found and (listed is None or node in listed)}
    kept = sorted((place, node) for node, item in listed_only.items() for place in range(len(item.found)))[: allocation_findings.MAX_FINDINGS_OF_ALL]
    count = {node: sum(1 for dummy, other in kept if other == node) for node in listed_only}
    return {node: listed_only[node]._replace(found=listed_only[node].found[: count[node]]) for node in sorted(listed_only) if count[node]}


def _not_in_future(findings: Any, now: int) -> list[Finding]:
    return [finding._replace(since=min(finding.since, now)) for finding in allocation_findings.valid_findings(findings)]


def _merge_counts(before: Isolation, found: Mapping[str, Any], since: int, now: int) -> dict[str, AuditCount]:
    """Return the former and new counts together.

    Counts from before the level began are dropped, and times from a clock that is ahead are corrected.
    """
    counts = dict(before.found) if before.level == AUDIT else {}
    for service, count in found.items():
        former = counts.get(service, AuditCount((), 0))
        counts[service] = AuditCount(tuple(sorted({*former.names, *count["names"]})), max(former.last, min(int(count["last"]), now)))
    removed = {service for service, count in found.items() if not count["names"]}  # otherwise short-lived services would displace other services
    recent = {service: count for service, count in counts.items() if count.last >= max(since, now - KEPT_S) and service not in removed}
    newest = sorted(recent, key=lambda service: (-recent[service].last, service))[:MOST_SERVICES]
    return {service: recent[service] for service in sorted(newest)}
