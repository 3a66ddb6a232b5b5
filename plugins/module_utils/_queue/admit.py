# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which waiting work starts now on which node, and why other work waits (pure).

**Order**: the highest priority is first, then work that already keeps nodes, then work of the queue with the smallest share, then the oldest work.
**Share**: for each resource kind, divide the amount that the queue uses by the amount that ready nodes advertise. The share of the queue is the
largest of these ratios, divided by the queue's weight. Work that this decision has admitted counts as used.
**Head**: the first work in this order that does not fit now, although the caps allow it and schedulable nodes could hold it. Nodes are kept for the
head until it starts. Other work may start on these nodes only if its time limit ends before the head can start. Other work of the same queue also
leaves enough of the caps for the head. So later work delays the head only if its priority is higher.
**Moved tasks**: a run of provision or maintain moves tasks of services without a queue. While such a task waits, nodes are kept for it too.

These rules hold only among the work of queues. Swarm gives free resources to other services at once.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf
from typing import Iterable, Mapping, NamedTuple, Sequence

from .._placement.scheduler import SwarmState
from . import reasons
from .packing import Fleet, Key, Node, Shape, choose, choose_to_keep, key_of
from .queues import Queue
from .reasons import Head, Reason
from .units import Alike, Unit, units_of
from .usage import Running
from .waiting import Work

MOST_ADMITTED = 100  # units in one decision: each is an update of the swarm, and the fleet changes during these updates
MOST_EXPLAINED = 100  # waiting units of a queue whose reasons are computed
MOST_SHAPES = 100  # different demands of a queue that are compared with all nodes


class Decision(NamedTuple):
    """The decision on one service. ``node`` is the node on which it starts now; None if it waits because of ``reason``.

    ``position`` is its place among the waiting units of its queue, from 1. ``keeps`` are the nodes that are kept for it. ``starts_by`` is the latest
    time at which it starts on these nodes (seconds since 1970); None if nobody knows.
    """

    work: Work
    node: str | None = None
    reason: Reason | None = None
    position: int = 0
    keeps: tuple[str, ...] = ()
    starts_by: float | None = None


def admit(
    state: SwarmState, queues: Mapping[str, Queue], waiting: Iterable[Work], running: Sequence[Running], now: float, moved: Iterable[Work] = ()
) -> list[Decision]:
    """Return one decision for each waiting service, in the order of the decisions. The members of a gang follow each other.

    ``moved`` are tasks that a run moved and that wait for room.
    """
    known, decisions = [], []
    for work in waiting:
        if work.queue in queues:
            known.append(work)
        else:
            decisions.append(Decision(work, reason=reasons.no_queue(work.queue, queues)))
    units, problems = units_of(known, {name: queue.priority for name, queue in queues.items()})
    decisions += [Decision(work, reason=reasons.gang_problem(text)) for work, text in problems]
    decisions.sort(key=lambda decision: (decision.work.queue, decision.work.since, decision.work.service_id))
    current = _Round(Fleet(state, running), queues, Used(running), now)
    for work in moved:
        current.keep_for_moved(work)
    for unit in _in_order(units, current):
        decisions += current.decide(unit)
    return decisions


def _in_order(units: Iterable[Unit], current: _Round) -> Iterable[Unit]:
    """Yield the units in order. The order of the queues depends on what was admitted before."""
    by_queue: dict[str, list[Unit]] = {}
    for unit in units:
        by_queue.setdefault(unit.first.queue, []).append(unit)
    for own in by_queue.values():
        own.sort(key=_rank, reverse=True)  # pop() takes the first from the end
    firsts = [_rank_with_share(own[-1], current) for own in by_queue.values()]
    heapify(firsts)
    while firsts:
        own = by_queue[heappop(firsts)[-1]]
        yield own.pop()
        if own:
            heappush(firsts, _rank_with_share(own[-1], current))


def _rank(unit: Unit) -> tuple[int, bool, float, str]:
    return -unit.priority, not unit.first.keeps, unit.since, unit.first.service_id


def _rank_with_share(unit: Unit, current: _Round) -> tuple[int, bool, float, float, str, str]:
    priority, is_new, since, service_id = _rank(unit)
    return priority, is_new, current.share_of(unit.first.queue), since, service_id, unit.first.queue


class Used:
    """What the queues and their owners use, by resource kind."""

    def __init__(self, running: Iterable[Running]) -> None:
        self.by_queue: dict[str, dict[str, int]] = {}
        self.by_owner: dict[tuple[str, str], dict[str, int]] = {}
        for one in running:
            self.add(one.queue, one.owner, one.amounts)

    def add(self, queue: str, owner: str, amounts: Mapping[str, int]) -> None:
        for used in (self.by_queue.setdefault(queue, {}), self.by_owner.setdefault((queue, owner), {})):
            for kind, amount in amounts.items():
                used[kind] = used.get(kind, 0) + amount


def share(used: Mapping[str, int], advertised: Mapping[str, float], weight: float) -> float:
    """Return the share of a queue, as explained at the top. ``used`` and ``advertised`` are amounts by resource kind."""
    return max((amount / advertised[kind] for kind, amount in used.items() if advertised.get(kind)), default=0.0) / weight


class _Round:
    """Decides about all units, one after the other."""

    def __init__(self, fleet: Fleet, queues: Mapping[str, Queue], used: Used, now: float) -> None:
        self._fleet, self._queues, self._used, self._now = fleet, queues, used, now
        self._advertised = fleet.advertised()
        self._shares: dict[str, float] = {}
        self._waiting: dict[str, int] = {}  # units of each queue that wait
        self._keys: dict[str, set[Key]] = {}  # different demands of each queue
        self._nowhere: dict[Alike, Reason | None] = {}
        self._failed_limits: dict[Alike, float] = {}  # the shortest time limit of such units that found no nodes
        self._no_room: dict[tuple[Alike, frozenset[str], float | None, int], Reason] = {}  # the last item counts the units admitted before
        self._admitted = 0
        self._head: Head | None = None
        self._moved: list[Head] = []  # tasks that a run moved, one for each service

    def keep_for_moved(self, work: Work) -> None:
        """Keep a node for a task that a run moved, until swarm has placed the task. If the task fits now, keep only its resources."""
        unit = Unit([work], key_of(work.demand), 0, work.since)
        shape, kept = self._fleet.shape_of(unit.key, work.demand, False), {node.id for head in self._moved for node in head.nodes}
        nodes = choose_to_keep(shape, 1, False, lambda node: node.id not in kept, self._now)
        for node in nodes:
            if node.fits(work.demand):
                node.add(Running(work.service_id, "", "", node.id, work.demand.wants, None, False, work.demand.ports))
            else:
                self._moved.append(self._head_on(unit, shape, nodes))

    def share_of(self, queue: str) -> float:
        if queue not in self._shares:
            self._shares[queue] = share(self._used.by_queue.get(queue, {}), self._advertised, self._queues[queue].weight)
        return self._shares[queue]

    def decide(self, unit: Unit) -> list[Decision]:
        queue = unit.first.queue
        position = self._waiting.get(queue, 0) + 1
        reason = self._why_not_considered(unit)
        if reason is None:
            shape = self._fleet.shape_of(unit.key, unit.first.demand, unit.on_host)
            reason = self._fits_nowhere(unit, shape)
            nodes = () if reason or self._admitted >= MOST_ADMITTED else self._find(unit, shape)
            if nodes:
                return self._admit(unit, nodes)
            reason = reason or self._why_not_now(unit, shape, position)
        self._waiting[queue] = position
        keeps, starts_by = unit.first.keeps if reason.code == reasons.ROUND else (), None
        if self._head and self._head.unit is unit:
            keeps, starts_by = tuple(node.id for node in self._head.nodes), self._head.time
        return [Decision(work, None, reason, position, keeps, starts_by) for work in unit.members]

    def _why_not_considered(self, unit: Unit) -> Reason | None:
        """Return why the unit may not start even if nodes have room for it; None if it may."""
        queue, owner = unit.first.queue, unit.first.owner
        keys = self._keys.setdefault(queue, set())
        if unit.key not in keys and len(keys) >= MOST_SHAPES:
            return reasons.behind_other_demands(MOST_SHAPES)
        keys.add(unit.key)
        used, used_by_owner = self._used.by_queue.get(queue, {}), self._used.by_owner.get((queue, owner), {})
        return reasons.over_cap(unit, self._queues[queue], used, used_by_owner, self._head)

    def _fits_nowhere(self, unit: Unit, shape: Shape) -> Reason | None:
        if unit.alike not in self._nowhere:
            self._nowhere[unit.alike] = reasons.fits_nowhere(unit, shape, self._fleet.nodes)
        return self._nowhere[unit.alike]

    def _why_not_now(self, unit: Unit, shape: Shape, position: int) -> Reason:
        if self._admitted >= MOST_ADMITTED:
            return reasons.next_round(MOST_ADMITTED)
        if self._head is None and not self._waits_for_run(unit, shape):
            self._head = self._keep_nodes(unit, shape)
            if self._head:
                return reasons.is_next(self._head)
        if position > MOST_EXPLAINED:
            return reasons.behind(position - 1)
        memo = (unit.alike, unit.avoids, unit.time_limit_s, self._admitted)
        if memo not in self._no_room:
            self._no_room[memo] = reasons.no_room(unit, shape, self._kept_before(unit))
        return self._no_room[memo]

    def _find(self, unit: Unit, shape: Shape) -> Sequence[Node]:
        """Return the nodes on which the unit starts now; () if it has to wait."""
        limit = inf if unit.time_limit_s is None else unit.time_limit_s
        if unit.alike in self._failed_limits and limit >= self._failed_limits[unit.alike]:
            return ()
        kept = {node.id for head in self._kept_before(unit) for node in head.nodes}
        avoids = unit.avoids
        nodes = choose(shape, unit.size, unit.same_model, lambda node: node.id not in kept and node.id not in avoids)
        if not nodes and not avoids:
            self._failed_limits[unit.alike] = limit
        return nodes

    def _kept_before(self, unit: Unit) -> list[Head]:
        """Return the head and the moved tasks whose nodes the unit may not use."""
        heads = [*self._moved, self._head] if self._head else self._moved
        return [head for head in heads if not self._ends_before(head, unit)]

    def _waits_for_run(self, unit: Unit, shape: Shape) -> bool:
        """Return whether the unit fits now, and only nodes that are kept for moved tasks have room for it."""
        avoids = unit.avoids
        return bool(self._moved and choose(shape, unit.size, unit.same_model, lambda node: node.id not in avoids))

    def _ends_before(self, head: Head, unit: Unit) -> bool:
        return head.time is not None and unit.time_limit_s is not None and self._now + unit.time_limit_s <= head.time

    def _keep_nodes(self, unit: Unit, shape: Shape) -> Head | None:
        """Return the unit as head, with the nodes that are already kept for it, or with new ones. Return None if all nodes refused it."""
        avoids = unit.avoids
        former = [node for node in shape.open if node.id in unit.first.keeps and node.id not in avoids]
        alike = not unit.same_model or len({node.model for node in former}) == 1
        if len(former) == unit.size and alike:
            nodes: Sequence[Node] = former
        else:
            nodes = choose_to_keep(shape, unit.size, unit.same_model, lambda node: node.id not in avoids, self._now)
        return self._head_on(unit, shape, nodes) if nodes else None

    def _head_on(self, unit: Unit, shape: Shape, nodes: Sequence[Node]) -> Head:
        times = [node.fits_from(shape.demand, self._now) for node in nodes]
        known = [time for time in times if time is not None]
        return Head(unit, nodes, max(known) if len(known) == len(times) else None)

    def _admit(self, unit: Unit, nodes: Sequence[Node]) -> list[Decision]:
        self._admitted += 1
        ends = None if unit.time_limit_s is None else self._now + unit.time_limit_s
        placed = sorted(nodes, key=lambda node: (node.hostname, node.id))  # rank 0 is on the first
        for work, node in zip(unit.members, placed):
            node.add(Running(work.service_id, work.queue, work.owner, node.id, work.demand.wants, ends, False, work.demand.ports))
            self._used.add(work.queue, work.owner, work.amounts)
        self._shares.pop(unit.first.queue, None)
        return [Decision(work, node.id) for work, node in zip(unit.members, placed)]
