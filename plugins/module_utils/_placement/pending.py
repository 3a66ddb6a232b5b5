# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds out why tasks are pending (pure), in addition to the scheduler's own reason.

Compares constraints, platform and resources, for all groups of tasks at once. ``explain`` checks one service with every filter.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from .._policy import generic_resources, offered_devices
from .._printable import shortened
from .._tasks.tasks import age, reservations
from . import node_match
from .availability import ACTIVE, closed_as

# Resource kinds of swarm contain no "=".
CPUS, MEMORY = "=CPUs", "=GiB of memory"
UNITS = {CPUS: 1e9, MEMORY: 2.0**30}


# Groups of waiting tasks. The key has the values that all tasks of a group share: service, node, the scheduler's reason, needs.
Waiting = Dict[Tuple[str, str, Tuple[str, str, str], str], Dict[str, Any]]


class Place(NamedTuple):
    node: Mapping[str, Any]  # of the API
    record: Mapping[str, Any]  # of the ledger
    total: dict[str, float]
    free: dict[str, float]


# (constraints, platforms) -> the nodes that meet these requirements.
PlacesByPlacement = Dict[Tuple[Tuple[str, ...], Tuple[Tuple[Any, Any], ...]], List[Place]]


def is_schedulable(record: Mapping[str, Any]) -> bool:
    """Return whether the node is schedulable: ready and active."""
    return closed_as(record) == ACTIVE


def add(waiting: Waiting, task: Mapping[str, Any], service_name: str) -> None:
    """Add a task to its group. A service may have thousands of tasks with one specification."""
    status, spec = task["Status"], task.get("Spec") or {}
    reason = (status["State"], status.get("Message", ""), status.get("Err", ""))
    needs = {"Resources": spec.get("Resources"), "Placement": spec.get("Placement")}
    key = (task.get("ServiceID"), task.get("NodeID"), reason, repr(needs))
    group = waiting.setdefault(key, {"service": service_name, "spec": needs, "tasks": [], "since": status.get("Timestamp")})
    group["tasks"].append(task["ID"])
    group["since"] = min(group["since"] or "", status.get("Timestamp") or "") or None


def pending(
    waiting: Waiting,
    nodes: Iterable[Mapping[str, Any]],
    records: Iterable[Mapping[str, Any]],
    reserved: Mapping[str, Sequence[int]],
    now: float | None,
) -> list[dict[str, Any]]:
    """Return the groups in the form of the module's result, the largest group first."""
    by_id = {record["id"]: record for record in records}
    # Imported here, because this code is not needed while no task waits.
    places = [place(node, by_id[node["ID"]], reserved) for node in nodes] if waiting else []
    places_by_placement: PlacesByPlacement = {}
    missing: dict[tuple[str, str | None], list[str]] = {}  # reasons by needs and node, because thousands of services may have the same needs
    groups = []
    for (dummy_service, node_id, reason, needs), group in waiting.items():
        wants = wanted_by(group["spec"])
        if (needs, node_id) not in missing:
            missing[needs, node_id] = _reasons(group["spec"], wants, places, node_id, places_by_placement)
        generic = {kind: amount for kind, amount in wants.items() if kind not in UNITS}
        groups.append(
            {
                "service": group["service"],
                "count": len(group["tasks"]),
                "tasks": sorted(group["tasks"]),
                "node": node_id,
                "hostname": by_id[node_id]["hostname"] if node_id in by_id else None,
                "state": reason[0],
                "since": group["since"],
                "age": age(group["since"], now),
                "said": reason[2] or reason[1],
                "wants": generic,
                "missing": missing[needs, node_id],
            }
        )
    return sorted(groups, key=lambda group: (-group["count"], group["service"] or "", group["node"] or ""))


def place(node: Mapping[str, Any], record: Mapping[str, Any], reserved: Mapping[str, Sequence[int]]) -> Place:
    resources = node.get("Description", {}).get("Resources", {})
    used = reserved.get(node["ID"], (0, 0))
    total = {CPUS: resources.get("NanoCPUs", 0), MEMORY: resources.get("MemoryBytes", 0)}
    free = {CPUS: total[CPUS] - used[0], MEMORY: total[MEMORY] - used[1]}
    for kind, entry in record["resources"].items():
        total[kind] = entry["total"]
        free[kind] = len(entry["free"]) if entry["type"] == "named" else entry["free"]
    return Place(node, record, total, free)


def required_free(amount: float) -> float:
    """Return how much a node must have free before the scheduler chooses it. The result is at least 1, even if the task reserves 0.

    A reservation of 0 takes all free resources of a named kind, and nothing of a counted kind.
    """
    return amount or 1


def wanted_by(spec: Mapping[str, Any]) -> dict[str, Any]:
    reserved = reservations(spec)
    wants = dict(generic_resources.from_info(reserved.get("GenericResources")))  # in a reservation, swarmkit accepts only amounts
    wants.update({kind: reserved[key] for kind, key in ((CPUS, "NanoCPUs"), (MEMORY, "MemoryBytes")) if reserved.get(key)})
    return wants


def _reasons(
    spec: Mapping[str, Any], wants: Mapping[str, Any], places: Sequence[Place], node_id: str | None, places_by_placement: PlacesByPlacement
) -> list[str]:
    """Return texts that say why no node can run these tasks now; [] if the ledger shows no reason."""
    placement = spec.get("Placement") or {}
    constraints, platforms = placement.get("Constraints") or [], placement.get("Platforms") or []
    if node_id:  # a task of a global service can run only on this node
        places = [place for place in places if place.node["ID"] == node_id]
        matching = _matching_places(constraints, platforms, places)
    else:
        key = (tuple(constraints), tuple((platform.get("OS"), platform.get("Architecture")) for platform in platforms))
        if key not in places_by_placement:
            places_by_placement[key] = _matching_places(constraints, platforms, places)
        matching = places_by_placement[key]
    if not places:
        return ["its node is no longer in the swarm"]
    return _permanent_reasons(wants, constraints, platforms, places, matching) or _current_reasons(wants, matching)


def total_shortfall(
    wants: Mapping[str, Any], constraints: Sequence[str], platforms: Sequence[Mapping[str, Any]], places: Sequence[Place]
) -> list[str]:
    """Return texts that say why no node could run such tasks, even an idle node."""
    return _permanent_reasons(wants, constraints, platforms, places, _matching_places(constraints, platforms, places)) if places else []


def _permanent_reasons(
    wants: Mapping[str, Any], constraints: Sequence[str], platforms: Sequence[Mapping[str, Any]], places: Sequence[Place], matching: Sequence[Place]
) -> list[str]:
    return _too_large(wants, matching) if matching else [_unmet_placement(constraints, platforms, places)]


def _matching_places(constraints: Sequence[str], platforms: Sequence[Mapping[str, Any]], places: Iterable[Place]) -> list[Place]:
    return [place for place in places if _matches(constraints, platforms, place.node)]


def _matches(constraints: Iterable[str], platforms: Iterable[Mapping[str, Any]], node: Mapping[str, Any]) -> bool:
    return node_match.runs_on(platforms, node) and all(node_match.is_met(constraint, node) for constraint in constraints)


def matching_nodes(spec: Mapping[str, Any], nodes: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the API's nodes that meet the specification's constraints and platforms. Resources are not compared."""
    return [node for node in nodes if matches(spec, node)]


def matches(spec: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    placement = spec.get("Placement") or {}
    return _matches(placement.get("Constraints") or [], placement.get("Platforms") or [], node)


def _unmet_placement(constraints: Sequence[str], platforms: Sequence[Mapping[str, Any]], places: Sequence[Place]) -> str:
    unmet = [constraint for constraint in constraints if not any(node_match.is_met(constraint, place.node) for place in places)]
    if unmet:
        devices = " and ".join(name for name in map(offered_devices.name_in_constraint, unmet) if name)
        remedy = " (no node has such a device: add the paths of %s to gpu_swarm_devices, and run provision)" % devices if devices else ""
        return "no node meets %s%s" % (" or ".join(unmet), remedy)
    if not any(node_match.runs_on(platforms, place.node) for place in places):
        names = ["%s/%s" % (platform.get("OS"), platform.get("Architecture")) for platform in platforms]
        return "no node has the image's platform, %s" % " or ".join(names)
    return "no node meets all of %s" % ", ".join([*constraints, *(["the image's platform"] if platforms else [])])


def _too_large(wants: Mapping[str, Any], places: Sequence[Place]) -> list[str]:
    """Return texts about the reservations that exceed the resources of every node."""
    texts = []
    for kind, amount in wants.items():
        most, hostname = max((place.total.get(kind, 0), place.record["hostname"]) for place in places)
        if most < required_free(amount):
            texts.append("wants %s; the most that a node has: %s" % (amount_of(kind, amount, unit=True), _amount_at(kind, most, hostname)))
    return texts


def _current_reasons(wants: Mapping[str, Any], places: Sequence[Place]) -> list[str]:
    with_room = [place for place in places if all(place.free.get(kind, 0) >= required_free(amount) for kind, amount in wants.items())]
    schedulable = [place for place in places if is_schedulable(place.record)]
    if any(is_schedulable(place.record) for place in with_room):
        return []  # the task is new, or waits for something that this code does not check
    if with_room:
        return ["no node with room for it takes new tasks: %s" % _names(with_room)]
    if not schedulable:
        return ["no node that could run it takes new tasks: %s" % _names(places)]
    everything = ", ".join(amount_of(kind, amount, unit=True) for kind, amount in wants.items())
    return _too_little_free(wants, schedulable) or ["no node has all of these free at the same time: %s" % everything]


def _too_little_free(wants: Mapping[str, Any], places: Sequence[Place]) -> list[str]:
    texts = []
    for kind, amount in wants.items():
        most, hostname = max((place.free.get(kind, 0), place.record["hostname"]) for place in places)
        if most < required_free(amount):
            in_all = amount_of(kind, sum(place.free.get(kind, 0) for place in places))
            amounts = (amount_of(kind, amount, unit=True), _amount_at(kind, most, hostname), in_all)
            texts.append("wants %s; most free on one node: %s; %s in all" % amounts)
    return texts


# -- texts -----------------------------------------------------------------------------------------------------------


def amount_of(kind: str, amount: float, unit: bool = False) -> str:
    """Return the amount as text. If ``unit`` is true, the text has a unit and explains a reservation of 0. CPUs and GiB may have decimals."""
    if unit and not amount:
        return "1 or more %s (value: 0 means all free ones)" % kind
    number = "%d" % amount if kind not in UNITS else ("%.2f" % (amount / UNITS[kind])).rstrip("0").rstrip(".")
    return "%s %s" % (number, kind.lstrip("=")) if unit else number


def _amount_at(kind: str, amount: float, hostname: str) -> str:
    return "%s (%s)" % (amount_of(kind, amount), hostname) if amount else "0"


def _names(places: Iterable[Place]) -> str:
    return shortened(["%s (%s)" % (place.record["hostname"], closed_as(place.record)) for place in places])
