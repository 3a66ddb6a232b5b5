# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Explains why a service finds no node, and the smallest change that would make room for it (pure).

Each explanation assumes that the scheduler places this service next. Other waiting services may take the room first.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._printable import NAMED, shortened
from .._tasks.tasks import age, epoch, is_global, is_pull
from .availability import why_closed
from .census import Census
from .pending import UNITS, amount_of, total_shortfall
from .scheduler import (
    CONSTRAINTS,
    FILTERS,
    PLATFORM,
    PLUGINS,
    PORTS,
    READY,
    REPLICAS,
    RESOURCES,
    Demand,
    Spot,
    SwarmState,
    demand_of,
    failed,
    lacking,
    room,
    short,
    spots,
    unmet,
)
from .shortage import is_over, is_short, size_of, still_needed, without_tasks

ALL = "*"
# Filters that a node may pass later: when tasks end, or when someone makes the node schedulable.
TEMPORARY = frozenset([READY, RESOURCES, PORTS, REPLICAS])
# Swarm creates no task of a global service on nodes that fail one of these filters.
NO_TASK = frozenset([READY, CONSTRAINTS, PLATFORM])


class CheckedNode(NamedTuple):
    """A node, and the filters that exclude it for the service."""

    spot: Spot
    fails: Sequence[str]

    @property
    def hostname(self) -> str:
        return str(self.spot.place.record["hostname"])


def explain_services(
    names: Collection[str], services: Iterable[Mapping[str, Any]], state: SwarmState, most: int | None = None
) -> list[dict[str, Any]]:
    """Return explanations of the services with these names or ids, ordered by name. ALL means every service with too few tasks.

    Explains at most ``most`` services, because each service is compared with every node. The services that have waited longest are chosen.
    """
    chosen = [
        service
        for service in services
        if service["ID"] in names or service["Spec"]["Name"] in names or (ALL in names and _waits(service, state.census))
    ]
    longest = sorted(chosen, key=lambda service: (_waiting_since(service, state.census), service["Spec"]["Name"]))[:most]
    return [explain(service, state) for service in sorted(longest, key=lambda service: service["Spec"]["Name"])]


def _waits(service: Mapping[str, Any], census: Census) -> bool:
    """Return whether a service of a user has too few tasks."""
    return not is_pull(service) and is_short(service, census.tally_of(service["ID"]))


def _waiting_since(service: Mapping[str, Any], census: Census) -> float:
    """Return when the service's first task began to wait; infinity if no task waits, to sort the service last."""
    return epoch(census.tally_of(service["ID"]).since) or inf


def explain(service: Mapping[str, Any], state: SwarmState) -> dict[str, Any]:
    """Return the explanation of one service, as the module returns it."""
    places, census, now = state
    tally, size = census.tally_of(service["ID"]), size_of(service)
    demand = demand_of(service, tally.networks)
    checked = [CheckedNode(spot, failed(demand, spot)) for spot in spots(demand, places, census)]
    if is_global(service):  # each node runs only one task of the service
        checked = [node for node in checked if not node.spot.replicas]
    feasible = [node for node in checked if not node.fails]
    needed, rooms = still_needed(service, tally), [room(demand, node.spot) for node in feasible]
    total = None if None in rooms else sum(filter(None, rooms))
    excluded_by = Counter(node.fails[0] for node in checked if node.fails)
    explanation = {
        "service": service["Spec"]["Name"],
        "id": service["ID"],
        "mode": size.mode,
        "wanted": size.wanted,
        "live": tally.live,
        "waiting": tally.waiting,
        "needed": needed,
        "over": is_over(service, tally),
        "since": tally.since,
        "age": age(tally.since, now),
        "said": tally.scheduler_message,
        "without_tasks": without_tasks(service, tally, places),
        "wants": {kind.lstrip("="): amount / UNITS.get(kind, 1) if kind in UNITS else amount for kind, amount in demand.wants.items()},
        "nodes": len(checked),
        "excluded": [{"filter": name, "nodes": excluded_by[name]} for name, dummy_passes in FILTERS if excluded_by[name]],
        "feasible": sorted(node.spot.place.node["ID"] for node in feasible),
        "room": total,
        "rooms": {node.spot.place.node["ID"]: number for node, number in zip(feasible, rooms)},
        "fits": _fits_everywhere(checked) if is_global(service) else bool(feasible) and (total is None or total >= max(needed, 1)),
        "possible": any(_is_possible(demand, node) for node in checked) or not checked,
        "unchecked": ["cluster volumes"] if demand.cluster_volumes else [],
        "nearest": nearest(demand, checked, service["Spec"]["Name"]),
    }
    explanation["text"] = _text(explanation, demand, checked)
    return explanation


def _fits_everywhere(checked: Iterable[CheckedNode]) -> bool:
    """Return whether a global service fits on each node where swarm creates a task for it."""
    return all(not node.fails or not NO_TASK.isdisjoint(node.fails) for node in checked)


def _is_possible(demand: Demand, node: CheckedNode) -> bool:
    """Return whether a task could run on the node if the node were empty and schedulable."""
    return TEMPORARY.issuperset(node.fails) and not short(demand, node.spot.place.total)


# -- nodes that only one filter excludes ----------------------------------------------------------------------------------------------


def nearest(demand: Demand, checked: Iterable[CheckedNode], service: str) -> list[dict[str, Any]]:
    """Return the nodes that only one filter excludes, as [{filter, hostnames, text}]. Nodes that lack the least are first."""
    single = [node for node in checked if len(node.fails) == 1]
    lacking_room = [node for node in single if node.fails[0] == RESOURCES and not short(demand, node.spot.place.total)]
    misses = [
        {"filter": RESOURCES, "hostnames": [node.hostname], "text": _room_text(demand, node, service)}
        for node in sorted(lacking_room, key=lambda node: (_missing_share(demand, node), node.hostname))[:NAMED]
    ]
    for name, describe in _DESCRIPTIONS:
        groups: dict[str, list[str]] = {}
        for node in single:
            if node.fails[0] == name:
                groups.setdefault(describe(demand, node), []).append(node.hostname)
        misses += [{"filter": name, "hostnames": sorted(names), "text": text % shortened(sorted(names))} for text, names in sorted(groups.items())]
    return misses


def _missing_share(demand: Demand, node: CheckedNode) -> float:
    """Return how much the node lacks. For each resource kind, divide the missing amount by the demand, and add the results."""
    return sum(missing / max(demand.wants.get(kind, 1), 1) for kind, missing in short(demand, node.spot.place.free).items())


def _room_text(demand: Demand, node: CheckedNode, service: str) -> str:
    missing = short(demand, node.spot.place.free)
    free = node.spot.place.free
    free_text = ", ".join("%s %s" % (amount_of(kind, free.get(kind, 0)), kind.lstrip("=")) for kind in missing)
    ending = tasks_to_end(missing, node.spot.place.record["tasks"], service)
    if not ending:
        return "%s has %s free" % (node.hostname, free_text)
    free_then = ", ".join("%d" % (free.get(kind, 0) + sum(_allocated(task, kind) for task in ending)) for kind in missing)
    # While swarm replaces a task, the old and the new task have the same name.
    names = list(dict.fromkeys(task["name"] for task in ending))
    return "%s has %s free and would have %s if %s ended" % (node.hostname, free_text, free_then, shortened(names))


def tasks_to_end(missing: Mapping[str, float], tasks: Iterable[Mapping[str, Any]], service: str) -> list[Mapping[str, Any]]:
    """Return tasks of other services, as few as possible. If these tasks ended, the node would have enough resources.

    Return [] if CPUs or memory are missing, because the tasks' allocations contain only generic resources.
    """
    still_missing, chosen = dict(missing), []
    candidates = [task for task in tasks if task["service"] != service and any(_allocated(task, kind) for kind in missing)]
    while still_missing and candidates:
        enough = [task for task in candidates if all(_allocated(task, kind) >= amount for kind, amount in still_missing.items())]
        # Choose the smallest task that frees enough by itself. If no task does, choose the task that frees the most.
        best = min(enough, key=_size) if enough else max(candidates, key=lambda task: _contribution(task, still_missing))
        candidates.remove(best)
        chosen.append(best)
        still_missing = {kind: amount - _allocated(best, kind) for kind, amount in still_missing.items() if amount > _allocated(best, kind)}
    return [] if still_missing else chosen


def _size(task: Mapping[str, Any]) -> tuple[int, str]:
    return sum(_allocated(task, kind) for kind in task["holding"]), task["name"]


def _contribution(task: Mapping[str, Any], missing: Mapping[str, float]) -> float:
    return sum(min(_allocated(task, kind), amount) for kind, amount in missing.items())


def _allocated(task: Mapping[str, Any], kind: str) -> int:
    value = task["holding"].get(kind, 0)
    return len(value) if isinstance(value, list) else value


def _plugins(demand: Demand, node: CheckedNode) -> str:
    return "%%s: no %s" % " and no ".join("%s plugin %s" % (kind.lower(), _plain(name)) for kind, name in lacking(demand, node.spot.place.node))


def _ports(demand: Demand, node: CheckedNode) -> str:
    taken = ["%d/%s" % (number, protocol) for protocol, number in sorted(demand.ports & node.spot.taken)]
    return "%%s: port %s of the host is in use" % ", ".join(taken)


def _plain(text: str) -> str:
    return text.replace("%", "%%")


# All filters except resources. The filters that are easiest to pass are first.
_DESCRIPTIONS: tuple[tuple[str, Callable[[Demand, CheckedNode], str]], ...] = (
    (READY, lambda dummy_demand, node: "%%s: room, but it takes no new tasks (%s)" % _plain(why_closed(node.spot.place.record))),
    (PORTS, _ports),
    (REPLICAS, lambda demand, dummy_node: "%%s: already at the maximum number of replicas per node (%d)" % demand.max_replicas),
    (PLUGINS, _plugins),
    (CONSTRAINTS, lambda demand, node: "%%s: does not meet %s" % _plain(", ".join(unmet(demand, node.spot.place.node)))),
    (PLATFORM, lambda dummy_demand, node: "%%s: its platform is %s" % _plain(_platform(node.spot.place.node))),
)


def _platform(node: Mapping[str, Any]) -> str:
    platform = node.get("Description", {}).get("Platform") or {}
    return "%s/%s" % (platform.get("OS"), platform.get("Architecture"))


# -- the explanation in one sentence -------------------------------------------------------------------------------------------------


def _text(explanation: Mapping[str, Any], demand: Demand, checked: Sequence[CheckedNode]) -> str:
    if not explanation["waiting"] and explanation["without_tasks"]:
        return "; ".join(explanation["without_tasks"])
    if explanation["fits"]:
        return "; ".join([*explanation["without_tasks"], "fits on %d of %d nodes" % (len(explanation["feasible"]), explanation["nodes"])])
    problem = "needs %s on one node" % _needs(demand) if demand.wants else "finds no node"
    reasons = list(explanation["without_tasks"])
    if not explanation["possible"]:
        reasons += total_shortfall(demand.wants, demand.constraints, demand.platforms, [node.spot.place for node in checked])
    elif explanation["room"]:
        reasons.append("there is room for %d of %d tasks" % (explanation["room"], explanation["needed"]))
    reasons += [miss["text"] for miss in explanation["nearest"][:NAMED]]
    return "%s: %s" % (problem, "; ".join(reasons + _fragments(demand, checked)) or "no node passes every filter")


def _needs(demand: Demand) -> str:
    return ", ".join(amount_of(kind, amount, unit=True) for kind, amount in demand.wants.items())


def _fragments(demand: Demand, checked: Sequence[CheckedNode]) -> list[str]:
    """Return texts about resource kinds with enough free resources in the swarm, but not on any single node."""
    open_places = [node.spot.place for node in checked if set(node.fails) <= {RESOURCES}]
    texts = []
    for kind, amount in demand.wants.items():
        free = [place.free.get(kind, 0) for place in open_places]
        if free and max(free) < amount <= sum(free):
            sums = (amount_of(kind, sum(free)), kind.lstrip("="), amount_of(kind, max(free)))
            texts.append("%s %s are free in all, and at most %s on one node (fragmented)" % sums)
    return texts
