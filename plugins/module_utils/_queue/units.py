# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Groups waiting work into units that start together: one service, or all members of a gang (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence, Tuple

from .gang_variables import HOST
from .packing import Key, key_of
from .waiting import Work

# Units with the same value suit the same nodes: the key of the demand, the number of nodes, and whether all nodes need the same model of GPU.
Alike = Tuple[Key, int, bool]


class Unit(NamedTuple):
    """``members`` are in the order of their ranks. All have the same demand, and ``key`` is the key of that demand."""

    members: Sequence[Work]
    key: Key
    priority: int
    since: float

    @property
    def first(self) -> Work:
        return self.members[0]

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def same_model(self) -> bool:
        return self.first.gang is not None and self.first.gang.same_model

    @property
    def on_host(self) -> bool:
        """Return whether this is a gang on the host's network."""
        return _on_host(self.first)

    @property
    def alike(self) -> Alike:
        return self.key, self.size, self.same_model

    @property
    def time_limit_s(self) -> float | None:
        return self.first.time_limit_s

    @property
    def avoids(self) -> frozenset[str]:
        return frozenset(node for member in self.members for node in member.avoids)

    @property
    def amounts(self) -> dict[str, int]:
        """Return what all members together reserve, by resource kind."""
        return {kind: amount * self.size for kind, amount in self.first.amounts.items()}


def units_of(waiting: Iterable[Work], priorities: dict[str, int]) -> tuple[list[Unit], list[tuple[Work, str]]]:
    """Return the units. Also return each member of a gang that cannot start, with the reason. ``priorities`` are by name of the queue."""
    units: list[Unit] = []
    gangs: dict[tuple[str, str], list[Work]] = {}
    problems: list[tuple[Work, str]] = []
    for work in waiting:
        if work.gang:
            gangs.setdefault((work.owner, work.gang.name), []).append(work)
        else:
            units.append(_unit([work], priorities))
    for members in gangs.values():
        members.sort(key=lambda work: (work.gang.rank if work.gang else 0, work.service_id))
        problem = _gang_problem(members)
        if problem:
            problems += [(work, problem) for work in members]
        else:
            units.append(_unit(members, priorities))
    return units, problems


def _unit(members: Sequence[Work], priorities: dict[str, int]) -> Unit:
    first = members[0]
    priority = priorities[first.queue] if first.priority is None else first.priority
    return Unit(members, key_of(first.demand, _on_host(first)), priority, max(work.since for work in members))


def _on_host(work: Work) -> bool:
    return work.gang is not None and work.gang.network == HOST


def _gang_problem(members: Sequence[Work]) -> str:
    """Return why the members of a gang cannot start together; '' if they can."""
    gangs = [work.gang for work in members if work.gang]
    name, size = gangs[0].name, gangs[0].size
    queues = sorted({work.queue for work in members})
    if len(queues) > 1:
        return "the members of its gang %s are in different queues: %s" % (name, ", ".join(queues))
    if len({(gang.size, gang.same_model) for gang in gangs}) > 1:
        return "the members of its gang %s name different sizes" % name
    ranks = [gang.rank for gang in gangs]
    repeated = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if repeated:
        return "its gang %s has rank %d twice" % (name, repeated[0])
    if len(ranks) < size:
        missing = [str(rank) for rank in range(size) if rank not in ranks]
        return "its gang %s has %d of %d members; it lacks rank %s" % (name, len(ranks), size, ", ".join(missing[:5]))
    if len({(key_of(work.demand), work.priority, work.time_limit_s) for work in members}) > 1:
        return "the members of its gang %s differ in their reservations, constraints, priority or time limit" % name
    if len({gang.network for gang in gangs}) > 1:
        return "the members of its gang %s are on different networks" % name
    return ""
