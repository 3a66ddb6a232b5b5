# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sentences that say why work waits (pure). Each continues "it waits, because …".

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from .._placement.availability import why_closed
from .._placement.pending import UNITS, amount_of, total_shortfall
from .._placement.scheduler import Demand
from .._policy.data_network import ADDRESS
from .._printable import printable, shortened
from .._tasks.tasks import stamp
from .packing import Node, Shape, choose, most_alike
from .queue_words import (
    BEHIND,
    CAP,
    CLOSED,
    GANG,
    KEPT,
    MOVED,
    NEVER,
    NEXT,
    NO_QUEUE,
    NO_ROOM,
    OWNER_CAP,
    PULLS,
    REFUSED,
    ROUND,
    TOO_LARGE,
    UNLABELLED,
)
from .queues import Queue, shown_duration
from .units import Unit

LONGEST = 500  # characters of a sentence


class Reason(NamedTuple):
    code: str
    text: str


class Head(NamedTuple):
    """Work for which ``nodes`` are kept: the first work in order that does not fit now, or a task without a queue that a run moved.

    ``time`` is the latest time at which it starts; None if nobody knows.
    """

    unit: Unit
    nodes: Sequence[Node]
    time: float | None


def no_queue(name: str, queues: Mapping[str, Queue]) -> Reason:
    return _reason(
        NO_QUEUE, "there is no queue %s; %s" % (name, "the queues are %s" % ", ".join(sorted(queues)) if queues else "this swarm has no queues")
    )


def over_cap(unit: Unit, queue: Queue, used: Mapping[str, int], used_by_owner: Mapping[str, int], head: Head | None) -> Reason | None:
    """Return why the caps of the queue keep the unit from starting now; None if they allow it. What is kept for the head counts as used."""
    first, amounts = unit.first, sorted(unit.amounts.items())
    for most, each in ((queue.most, ""), (queue.per_owner, " for each owner")):
        for kind, amount in amounts:
            if amount > most.get(kind, amount):
                return _reason(TOO_LARGE, "it needs %d %s, and the queue %s allows %d at a time%s" % (amount, kind, queue.name, most[kind], each))
    by_head = head.unit.amounts if head and head.unit.first.queue == first.queue else {}
    by_owner = by_head if head and head.unit.first.owner == first.owner else {}
    owner, each_owner = first.owner or "work without an owner", " for each owner in the queue %s" % queue.name
    for code, who, where, most, in_use, kept in (
        (CAP, "the queue %s" % queue.name, "", queue.most, used, by_head),
        (OWNER_CAP, owner, each_owner, queue.per_owner, used_by_owner, by_owner),
    ):
        for kind, amount in amounts:
            uses, keeps = in_use.get(kind, 0), kept.get(kind, 0)
            if kind in most and uses + keeps + amount > most[kind]:
                kept_for = " and keeps %d for %s" % (keeps, head.unit.first.name) if head and keeps else ""
                return _reason(code, "%s uses %d of at most %d %s%s%s, and it needs %d" % (who, uses, most[kind], kind, where, kept_for, amount))
    return None


def fits_nowhere(unit: Unit, shape: Shape, nodes: Sequence[Node]) -> Reason | None:
    """Return why not even an empty fleet could hold the unit, or only closed nodes could; None if schedulable nodes could."""
    if most_alike(shape.open, unit.same_model) >= unit.size:
        return None
    possible, closed = most_alike(shape.possible, unit.same_model), [node for node in shape.possible if node not in shape.open]
    if possible >= unit.size:
        names = ["%s (%s)" % (node.hostname, why_closed(node.spot.place.record)) for node in closed]
        return _reason(CLOSED, "it needs nodes that take no new tasks now: %s" % shortened(names))
    if most_alike([*shape.possible, *shape.unlabelled], unit.same_model) >= unit.size:
        without = shortened([node.hostname for node in shape.unlabelled])
        return _reason(UNLABELLED, "its gang is on the host's network, and nodes lack the label %s: %s; provision writes it" % (ADDRESS, without))
    if possible:
        alike = " with the same model of GPU" if unit.same_model else ""
        return _reason(NEVER, "its gang needs %d nodes%s, and %d could hold a member" % (unit.size, alike, possible))
    demand = shape.demand
    texts = total_shortfall(demand.wants, demand.constraints, demand.platforms, [node.spot.place for node in nodes])
    return _reason(NEVER, "no node could hold it, not even an empty one: %s" % ("; ".join(texts) or _plugins(demand) or "the swarm has no nodes"))


def is_next(head: Head) -> Reason:
    names = shortened([node.hostname for node in head.nodes])
    verb = "is" if len(head.nodes) == 1 else "are"
    if head.time is None:
        return _reason(
            NEXT, "it is next, and %s %s kept for it; work without a time limit runs there, so nobody knows when it starts" % (names, verb)
        )
    return _reason(NEXT, "it is next, and %s %s kept for it; it starts at %s at the latest" % (names, verb, stamp(head.time)))


def no_room(unit: Unit, shape: Shape, before: Sequence[Head]) -> Reason:
    """Return why no node takes the unit now, although a node could hold it. The unit may not use nodes that are kept for the work in ``before``."""
    avoids = unit.avoids
    fitting = choose(shape, unit.size, unit.same_model, lambda node: node.id not in avoids) if before else ()
    if fitting:
        return _kept(unit, next(head for head in before if any(node in head.nodes for node in fitting)))
    if choose(shape, unit.size, unit.same_model, lambda dummy_node: True):
        names = [node.hostname for node in shape.fitting if node.id in avoids]
        return _reason(REFUSED, "the nodes with room for it refused it before: %s" % shortened(names))
    needs = _needs(shape.demand)
    if unit.size > 1:
        room = most_alike(shape.fitting, unit.same_model)
        alike = " and the same model of GPU" if unit.same_model else ""
        return _reason(NO_ROOM, "its gang needs %d nodes with %s free%s, and %d have it" % (unit.size, needs, alike, room))
    generic = [kind for kind in shape.demand.wants if kind not in UNITS]
    if len(generic) != 1 or shape.demand.ports:
        return _reason(NO_ROOM, "no node has %s free at the same time" % needs)
    most = max(shape.open, key=lambda node: node.free.get(generic[0], 0))
    amount = most.free.get(generic[0], 0)
    return _reason(NO_ROOM, "no node has %s free; the most on one node is %d%s" % (needs, amount, " (%s)" % most.hostname if amount else ""))


def _kept(unit: Unit, head: Head) -> Reason:
    limit = "it has no time limit" if unit.time_limit_s is None else "its time limit is %s" % shown_duration(unit.time_limit_s)
    until = "until then nothing else starts there" if head.time is None else "only work that ends before %s may start there" % stamp(head.time)
    names, verb = shortened([node.hostname for node in head.nodes]), "is" if len(head.nodes) == 1 else "are"
    first = head.unit.first
    if not first.queue:
        text = "%s %s kept for a task of the service %s, which a run moved; %s, and %s"
        return _reason(MOVED, text % (names, verb, first.name, until, limit))
    return _reason(KEPT, "%s %s kept for %s, which is next; %s, and %s" % (names, verb, first.name, until, limit))


def next_round(most: int) -> Reason:
    return _reason(ROUND, "%d others were admitted in this round; the next round looks at it" % most)


def behind(number: int) -> Reason:
    return _reason(BEHIND, "%d others of its queue are before it" % number)


def behind_other_demands(number: int) -> Reason:
    return _reason(BEHIND, "work of its queue with %d other reservations or constraints is before it" % number)


def pulls_image(names: Sequence[str]) -> Reason:
    return _reason(PULLS, "its image is pulled before all members of its gang start; not yet there: %s" % shortened(names))


def gang_problem(text: str) -> Reason:
    return _reason(GANG, text)


def _reason(code: str, text: str) -> Reason:
    """Return the reason as one line of bounded length. A node chooses its host name, and users choose names and constraints."""
    line = printable(text)
    return Reason(code, line if len(line) <= LONGEST else line[: LONGEST - 1] + "…")


def _needs(demand: Demand) -> str:
    ports = ["port %d/%s" % (number, protocol) for protocol, number in sorted(demand.ports)]
    return printable(", ".join([amount_of(kind, amount, unit=True) for kind, amount in sorted(demand.wants.items())] + ports)) or "room"


def _plugins(demand: Demand) -> str:
    return ", ".join("no node has the %s plugin %s" % (kind.lower(), printable(name)) for kind, name in demand.plugins)
