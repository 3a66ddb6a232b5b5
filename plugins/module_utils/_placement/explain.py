# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a service finds no node, and the smallest change that would make room for it (pure).

Each service is explained as if it came next. Other waiting services may take the place first.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any, Callable, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._printable import NAMED, shortened
from .._tasks.tasks import age, epoch, is_global
from .availability import why_closed
from .census import Census
from .pending import UNITS, Place, amount_of, total_shortfall
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
# What may pass by itself or with a word to the swarm, and what does not.
PASSING = frozenset([READY, RESOURCES, PORTS, REPLICAS])
# Of a global service: where it has no task at all.
NO_TASK = frozenset([READY, CONSTRAINTS, PLATFORM])


class CheckedNode(NamedTuple):
    """A node, and the filters that exclude it for the service."""

    spot: Spot
    fails: Sequence[str]

    @property
    def hostname(self) -> str:
        return str(self.spot.place.record["hostname"])


class SwarmState(NamedTuple):
    """The nodes and tasks of a swarm at the time ``now``."""

    places: Sequence[Place]
    census: Census
    now: float | None


def explained(names: Collection[str], services: Iterable[Mapping[str, Any]], state: SwarmState, most: int | None = None) -> list[dict[str, Any]]:
    """Explanations of the services with these names or ids, ordered by name. ALL stands for every service with too few tasks.

    At most ``most`` services are explained, those that have waited longest, because each one is compared with every node.
    """
    chosen = [
        service
        for service in services
        if service["ID"] in names or service["Spec"]["Name"] in names or (ALL in names and is_short(service, state.census.tally_of(service["ID"])))
    ]
    longest = sorted(chosen, key=lambda one: (_since(one, state.census), one["Spec"]["Name"]))[:most]
    return [explain(service, state) for service in sorted(longest, key=lambda one: one["Spec"]["Name"])]


def _since(service: Mapping[str, Any], census: Census) -> float:
    """When the first of its tasks began to wait; infinity if none waits, so that it is sorted last."""
    return epoch(census.tally_of(service["ID"]).since) or inf


def explain(service: Mapping[str, Any], state: SwarmState) -> dict[str, Any]:
    """Return the explanation of one service, as the module returns it."""
    places, census, now = state
    tally, size = census.tally_of(service["ID"]), size_of(service)
    demand = demand_of(service, tally.networks)
    judged = [CheckedNode(spot, failed(demand, spot)) for spot in spots(demand, places, census)]
    if is_global(service):  # a node that has a task needs no second one
        judged = [one for one in judged if not one.spot.replicas]
    feasible = [one for one in judged if not one.fails]
    needed, rooms = still_needed(service, tally), [room(demand, one.spot) for one in feasible]
    total = None if None in rooms else sum(filter(None, rooms))
    first = Counter(one.fails[0] for one in judged if one.fails)
    found = {
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
        "nodes": len(judged),
        "excluded": [{"filter": name, "nodes": first[name]} for name, dummy_passes in FILTERS if first[name]],
        "feasible": sorted(one.spot.place.node["ID"] for one in feasible),
        "room": total,
        "rooms": {one.spot.place.node["ID"]: number for one, number in zip(feasible, rooms)},
        "fits": _fits_everywhere(judged) if is_global(service) else bool(feasible) and (total is None or total >= max(needed, 1)),
        "possible": any(_is_possible(demand, one) for one in judged) or not judged,
        "unchecked": ["cluster volumes"] if demand.cluster_volumes else [],
        "nearest": nearest(demand, judged, service["Spec"]["Name"]),
    }
    found["text"] = _text(found, demand, judged)
    return found


def _fits_everywhere(judged: Iterable[CheckedNode]) -> bool:
    """Return whether a global service fits on each node where swarm creates a task for it."""
    return all(not one.fails or not NO_TASK.isdisjoint(one.fails) for one in judged)


def _is_possible(demand: Demand, one: CheckedNode) -> bool:
    """Return whether a task could run there if the node were empty and schedulable."""
    return PASSING.issuperset(one.fails) and not short(demand, one.spot.place.total)


# -- the nearest misses ----------------------------------------------------------------------------------------------


def nearest(demand: Demand, judged: Iterable[CheckedNode], service: str) -> list[dict[str, Any]]:
    """[{filter, hostnames, text}]: the nodes that only one filter excludes. Nodes that lack the least come first."""
    single = [one for one in judged if len(one.fails) == 1]
    lacking_room = [one for one in single if one.fails[0] == RESOURCES and not short(demand, one.spot.place.total)]
    found = [
        {"filter": RESOURCES, "hostnames": [one.hostname], "text": _room_text(demand, one, service)}
        for one in sorted(lacking_room, key=lambda one: (_share(demand, one), one.hostname))[:NAMED]
    ]
    for name, word in _WORDS:
        groups: dict[str, list[str]] = {}
        for one in single:
            if one.fails[0] == name:
                groups.setdefault(word(demand, one), []).append(one.hostname)
        found += [{"filter": name, "hostnames": sorted(names), "text": text % shortened(sorted(names))} for text, names in sorted(groups.items())]
    return found


def _share(demand: Demand, one: CheckedNode) -> float:
    """Return the missing part of what is needed, as a sum of fractions."""
    return sum(missing / max(demand.wants.get(kind, 1), 1) for kind, missing in short(demand, one.spot.place.free).items())


def _room_text(demand: Demand, one: CheckedNode, service: str) -> str:
    missing = short(demand, one.spot.place.free)
    free = one.spot.place.free
    has = ", ".join("%s %s" % (amount_of(kind, free.get(kind, 0)), kind.lstrip("=")) for kind in missing)
    ending = tasks_to_end(missing, one.spot.place.record["tasks"], service)
    if not ending:
        return "%s has %s free" % (one.hostname, has)
    then = ", ".join("%d" % (free.get(kind, 0) + sum(_allocated(task, kind) for task in ending)) for kind in missing)
    # While swarm replaces a task, the old and the new task have the same name.
    names = list(dict.fromkeys(task["name"] for task in ending))
    return "%s has %s free and would have %s if %s ended" % (one.hostname, has, then, shortened(names))


def tasks_to_end(missing: Mapping[str, float], tasks: Iterable[Mapping[str, Any]], service: str) -> list[Mapping[str, Any]]:
    """Return the fewest tasks of other services that hold what is missing.

    [] if CPUs or memory are missing: those are not allocated piece by piece.
    """
    left, chosen = dict(missing), []
    holders = [task for task in tasks if task["service"] != service and any(_allocated(task, kind) for kind in missing)]
    while left and holders:
        enough = [task for task in holders if all(_allocated(task, kind) >= amount for kind, amount in left.items())]
        # The smallest that is enough alone, or else the largest.
        best = min(enough, key=_size) if enough else max(holders, key=lambda task: sum(min(_allocated(task, kind), left[kind]) for kind in left))
        holders.remove(best)
        chosen.append(best)
        left = {kind: amount - _allocated(best, kind) for kind, amount in left.items() if amount > _allocated(best, kind)}
    return [] if left else chosen


def _size(task: Mapping[str, Any]) -> tuple[int, str]:
    return sum(_allocated(task, kind) for kind in task["holding"]), task["name"]


def _allocated(task: Mapping[str, Any], kind: str) -> int:
    value = task["holding"].get(kind, 0)
    return len(value) if isinstance(value, list) else value


def _plugins(demand: Demand, one: CheckedNode) -> str:
    return "%%s: no %s" % " and no ".join("%s plugin %s" % (kind.lower(), _plain(name)) for kind, name in lacking(demand, one.spot.place.node))


def _ports(demand: Demand, one: CheckedNode) -> str:
    taken = ["%d/%s" % (number, protocol) for protocol, number in sorted(demand.ports & one.spot.taken)]
    return "%%s: port %s of the host is in use" % ", ".join(taken)


def _plain(text: str) -> str:
    return text.replace("%", "%%")


# Beside resources; the first need the least.
_WORDS: tuple[tuple[str, Callable[[Demand, CheckedNode], str]], ...] = (
    (READY, lambda dummy_demand, one: "%%s: room, but it takes no new tasks (%s)" % _plain(why_closed(one.spot.place.record))),
    (PORTS, _ports),
    (REPLICAS, lambda demand, dummy_one: "%%s: as many replicas as are allowed on a node (%d)" % demand.max_replicas),
    (PLUGINS, _plugins),
    (CONSTRAINTS, lambda demand, one: "%%s: does not meet %s" % _plain(", ".join(unmet(demand, one.spot.place.node)))),
    (PLATFORM, lambda dummy_demand, one: "%%s: its platform is %s" % _plain(_platform(one.spot.place.node))),
)


def _platform(node: Mapping[str, Any]) -> str:
    platform = node.get("Description", {}).get("Platform") or {}
    return "%s/%s" % (platform.get("OS"), platform.get("Architecture"))


# -- in one sentence -------------------------------------------------------------------------------------------------


def _text(found: Mapping[str, Any], demand: Demand, judged: Sequence[CheckedNode]) -> str:
    if not found["waiting"] and found["without_tasks"]:
        return "; ".join(found["without_tasks"])
    if found["fits"]:
        return "; ".join([*found["without_tasks"], "fits on %d of %d nodes" % (len(found["feasible"]), found["nodes"])])
    needs = "needs %s on one node" % _needs(demand) if demand.wants else "finds no node"
    reasons = list(found["without_tasks"])
    if not found["possible"]:
        reasons += total_shortfall(demand.wants, demand.constraints, demand.platforms, [one.spot.place for one in judged])
    elif found["room"]:
        reasons.append("there is room for %d of %d tasks" % (found["room"], found["needed"]))
    reasons += [one["text"] for one in found["nearest"][:NAMED]]
    return "%s: %s" % (needs, "; ".join(reasons + _fragments(demand, judged)) or "no node passes every filter")


def _needs(demand: Demand) -> str:
    return ", ".join(amount_of(kind, amount, unit=True) for kind, amount in demand.wants.items())


def _fragments(demand: Demand, judged: Sequence[CheckedNode]) -> list[str]:
    """Kinds with enough free resources in the swarm, but not on one node."""
    open_places = [one.spot.place for one in judged if set(one.fails) <= {RESOURCES}]
    found = []
    for kind, amount in demand.wants.items():
        free = [place.free.get(kind, 0) for place in open_places]
        if free and max(free) < amount <= sum(free):
            sums = (amount_of(kind, sum(free)), kind.lstrip("="), amount_of(kind, max(free)))
            found.append("%s %s are free in all, and at most %s on one node (fragmented)" % sums)
    return found
