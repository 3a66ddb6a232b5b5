# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds nodes for the work of queues (pure): where it fits now, packed tightly, and where it fits first when running work ends.

Asks the filters of ``scheduler``, so swarm's scheduler accepts each node that this code chooses. During a decision, nodes only lose
free resources.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Callable, Iterable, NamedTuple, Sequence, Tuple

from .._placement.census import Port
from .._placement.pending import CPUS, UNITS, Place
from .._placement.scheduler import CONSTRAINTS, FILTERS, PLATFORM, PLUGINS, PORTS, READY, RESOURCES, Demand, Spot, SwarmState, short
from .._policy.data_network import ADDRESS, INTERFACE
from .usage import Running

MODEL = "gpu.model"  # the label of nodes whose GPUs have the same model
_PASSES = dict(FILTERS)
_PERMANENT = (PLUGINS, CONSTRAINTS, PLATFORM)

# Everything of a demand except its service.
Key = Tuple[object, ...]


class Node:
    """A node during one decision."""

    def __init__(self, place: Place, taken: frozenset[Port]) -> None:
        self.id: str = place.node["ID"]
        self.hostname: str = place.record["hostname"]
        labels = (place.node.get("Spec") or {}).get("Labels") or {}
        self.model: str = labels.get(MODEL, "")
        self.on_data_network = bool(labels.get(ADDRESS) and labels.get(INTERFACE))
        self.free: dict[str, float] = dict(place.free)
        self.kinds = sorted(kind for kind in self.free if kind not in UNITS)
        self.running: list[Running] = []
        self.spot = Spot(place._replace(free=self.free), taken, 0)

    def add(self, running: Running) -> None:
        """Add running work. If swarm has not placed it yet, take its resources."""
        self.running.append(running)
        if not running.placed:
            for kind, amount in running.wants.items():
                self.free[kind] = self.free.get(kind, 0) - amount
            self.spot = self.spot._replace(taken=self.spot.taken | running.ports)

    def fits(self, demand: Demand) -> bool:
        return _PASSES[RESOURCES](demand, self.spot) and _PASSES[PORTS](demand, self.spot)

    def fits_from(self, demand: Demand, now: float) -> float | None:
        """Return the earliest time at which the demand fits, if work runs until its time limit; None if nobody knows."""
        if self.fits(demand):
            return now
        free, taken, total = dict(self.free), set(self.spot.taken), self.spot.place.total
        for ends, wants, ports in sorted((one.ends, sorted(one.wants.items()), one.ports) for one in self.running if one.ends is not None):
            free.update((kind, min(free.get(kind, 0) + amount, total.get(kind, 0))) for kind, amount in wants)
            taken -= ports
            if not short(demand, free) and not demand.ports & taken:
                return max(ends, now)
        return None

    def used_without_limit(self, demand: Demand) -> float:
        """Return how much of the wanted kinds is used by work without a time limit, queued or not."""
        limited = [one.wants for one in self.running if one.ends is not None]
        return sum(
            self.spot.place.total.get(kind, 0) - self.free.get(kind, 0) - sum(wants.get(kind, 0) for wants in limited)
            for kind in demand.wants
            if kind not in UNITS
        )

    def amounts_free(self, demand: Demand) -> tuple[float, float, float]:
        """Return how much is free on the node: room for how many such demands, the free parts of other kinds, and free CPUs.

        The node with the least is the best. So work without GPUs prefers nodes without free GPUs.
        """
        total, free = self.spot.place.total, self.free
        wanted = sum(free.get(kind, 0) / amount for kind, amount in sorted(demand.wants.items()) if kind not in UNITS)
        other = sum(free[kind] / total[kind] for kind in self.kinds if kind not in demand.wants and free[kind] > 0)
        return wanted, other, free[CPUS]


class Shape(NamedTuple):
    """A demand and the nodes for it. ``possible`` nodes could hold the demand when they are empty.

    The ``open`` ones among them take new tasks, and the ``fitting`` ones have room for the demand now. ``unlabelled`` nodes could hold it too, but
    lack the labels that a gang on the host's network needs.
    """

    demand: Demand
    possible: Sequence[Node]
    open: Sequence[Node]
    fitting: list[Node]
    unlabelled: Sequence[Node]


class Fleet:
    """The nodes during one decision. ``nodes`` are in the order of their names."""

    def __init__(self, state: SwarmState, running: Iterable[Running]) -> None:
        places = sorted(state.places, key=lambda place: (place.record["hostname"], place.node["ID"]))
        self.nodes = [Node(place, frozenset(state.census.ports.get(place.node["ID"], ()))) for place in places]
        self.by_id = {node.id: node for node in self.nodes}
        self._shapes: dict[Key, Shape] = {}
        self._permanent: dict[Key, list[Node]] = {}
        for one in running:
            if one.node in self.by_id:
                self.by_id[one.node].add(one)

    def advertised(self) -> dict[str, float]:
        """Return the amounts that ready nodes advertise, by resource kind."""
        sums: dict[str, float] = {}
        for node in self.nodes:
            if node.spot.place.record["state"] == "ready":
                for kind in node.kinds:
                    sums[kind] = sums.get(kind, 0) + node.spot.place.total.get(kind, 0)
        return sums

    def shape_of(self, key: Key, demand: Demand, on_host: bool) -> Shape:
        """Return the demand with its nodes. ``key`` is ``key_of(demand, on_host)``."""
        if key not in self._shapes:
            able = [node for node in self._suitable(demand) if not short(demand, node.spot.place.total)]
            unlabelled = [node for node in able if on_host and not node.on_data_network]
            possible = [node for node in able if not on_host or node.on_data_network]
            schedulable = [node for node in possible if _PASSES[READY](demand, node.spot)]
            self._shapes[key] = Shape(demand, possible, schedulable, list(schedulable), unlabelled)
        return self._shapes[key]

    def _suitable(self, demand: Demand) -> list[Node]:
        key = key_of(demand)[1:]
        if key not in self._permanent:
            self._permanent[key] = [node for node in self.nodes if all(_PASSES[name](demand, node.spot) for name in _PERMANENT)]
        return self._permanent[key]


def key_of(demand: Demand, on_host: bool = False) -> Key:
    """Return a key. Demands with the same key suit the same nodes. Only the first item, resources and ports, depends on what the nodes have free.

    ``on_host`` is true for a gang on the host's network. Only nodes with the labels of a data network suit such a gang.
    """
    platforms = tuple((platform.get("OS"), platform.get("Architecture")) for platform in demand.platforms)
    return (tuple(sorted(demand.wants.items())), demand.ports), tuple(demand.plugins), tuple(demand.constraints), platforms, on_host


def choose(shape: Shape, size: int, same_model: bool, may_use: Callable[[Node], bool]) -> Sequence[Node]:
    """Return the nodes with the least free resources, one for each of ``size`` tasks; [] if too few nodes have room."""
    shape.fitting[:] = [node for node in shape.fitting if node.fits(shape.demand)]  # a node without room now gets no room during this decision
    usable = [(node.amounts_free(shape.demand), number, node) for number, node in enumerate(shape.fitting) if may_use(node)]
    groups = [nsmallest(size, group) for group in _groups(usable, same_model) if len(group) >= size]
    best = min(groups, key=lambda group: group[-1][:2], default=[])
    return [node for _left, _number, node in best]


def choose_to_keep(shape: Shape, size: int, same_model: bool, may_use: Callable[[Node], bool], now: float) -> Sequence[Node]:
    """Return the nodes on which the work fits first. If nobody knows when, return the nodes where work without a time limit uses fewest GPUs."""
    ranked = []
    for number, node in enumerate(shape.open):
        if may_use(node):
            time = node.fits_from(shape.demand, now)
            rank = (time is None, time or 0.0, node.used_without_limit(shape.demand) if time is None else 0.0)
            ranked.append((rank, number, node))
    groups = [nsmallest(size, group) for group in _groups(ranked, same_model) if len(group) >= size]
    best = min(groups, key=lambda group: group[-1][:2], default=[])
    return [node for _rank, _number, node in best]


def most_alike(nodes: Iterable[Node], same_model: bool) -> int:
    """Return how many of these nodes a gang can use together."""
    groups = _groups([((), number, node) for number, node in enumerate(nodes)], same_model)
    return max(map(len, groups), default=0)


Ranked = Tuple[Tuple[float, ...], int, Node]


def _groups(ranked: Iterable[Ranked], same_model: bool) -> list[list[Ranked]]:
    groups: dict[str, list[Ranked]] = {}
    for item in ranked:
        groups.setdefault(item[2].model if same_model else "", []).append(item)
    return list(groups.values())
