# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where all services of a stack would fit together, before they are deployed (pure).

Swarm places the services of a stack in any order, spreads their tasks, and moves none to make room. So there are three answers for a
service: it fits in any order, it fits unless other services of the stack take its room, or it does not fit.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from .._ledger.ledger import ledger
from .._ledger.listed import Listed
from .._placement import start_first
from .._placement.scheduler import Demand, demand_of
from .._placement.shortage import size_of
from .._placement.start_first import Overlap
from .._policy import generic_resources
from .._tasks.tasks import is_global, is_job_service, reservations
from .stack import of_stack

NEW = "new-"
# The room on a node for tasks that no resource limits.
ANY_NUMBER = 1000


class Part(NamedTuple):
    """A service of the stack, and how it would fit alone."""

    service: Mapping[str, Any]
    demand: Demand
    alone: Mapping[str, Any]  # as explained
    beside: Overlap | None = None  # the old tasks that run on until new ones do

    @property
    def name(self) -> str:
        return str(self.service["Spec"]["Name"])

    @property
    def is_new(self) -> bool:
        return str(self.service["ID"]).startswith(NEW)

    @property
    def number(self) -> int:
        """How many tasks the service wants."""
        return len(self.alone["feasible"]) if is_global(self.service) else self.alone["needed"]

    def room_on(self, node_id: str) -> int:
        """Return the largest number of its tasks on this node."""
        found = self.alone["rooms"].get(node_id, 0)
        return min(self.number if found is None else found, 1 if is_global(self.service) else ANY_NUMBER)


# Orders of the parts, and nodes in the order in which one part fills them.
Order = Callable[[Sequence[Part]], Sequence[Part]]


def preflight(stack: str, specs: Iterable[Mapping[str, Any]], listed: Listed, prefix: str, prune: bool = False) -> dict[str, Any]:
    """Return the ledger without the tasks that this deployment replaces, and with explanations of the stack's services that consider each other.

    A service keeps its tasks if its needs do not change, or if it is missing in ``specs`` and is not pruned. Resources of the stack's other
    tasks count as free, because swarm ends an old task before it starts the new one. ``order: start-first`` is the exception (see ``start_first``).
    """
    specs = list(specs)
    own = {service["Spec"]["Name"]: service for service in of_stack(stack, listed.services)}
    updates = {spec["Name"]: own[spec["Name"]] for spec in specs if _starts_first(own.get(spec["Name"]), spec)}
    wanted = [_wanted(own.get(spec["Name"]), spec, spec["Name"] in updates) for spec in specs]
    kept = {service["ID"] for service in wanted}
    names = {spec["Name"] for spec in specs}
    anew = {service["ID"] for name, service in own.items() if name in names - set(updates) or (prune and name not in names)} - kept
    free = listed._replace(
        tasks=start_first.without_stuck([task for task in listed.tasks if task.get("ServiceID") not in anew], [one["ID"] for one in own.values()]),
        services=[service for service in listed.services if service["ID"] not in anew | kept],
    )
    found: dict[str, Any] = ledger(free._replace(services=[*free.services, *wanted]), prefix, [service["ID"] for service in wanted])
    by_id = {one["id"]: one for one in found.get("explained") or []}
    parts = [_part(service, by_id[service["ID"]], updates.get(service["Spec"]["Name"]), free, prefix) for service in wanted]
    explained = _together(parts, free, prefix)
    for one in explained:
        part = next(part for part in parts if part.name == one["service"])
        if one["fits"]:  # nobody knows where the other services of the stack will be
            one["feasible"] = part.alone["feasible"]
        one["stays"] = not part.is_new and not part.alone["needed"] and part.beside is None
        one["beside"] = part.beside is not None
        one["rivals"] = rivals(part, parts) if one["fits"] else []
        del one["rooms"]
    return dict(found, explained=sorted(explained, key=lambda one: one["service"]))


def _wanted(service: Mapping[str, Any] | None, spec: Mapping[str, Any], is_updated: bool) -> Mapping[str, Any]:
    """Return the service as it will be. It has the id of the existing service if that keeps its tasks, otherwise a new id."""
    if service is not None and is_updated:
        return start_first.updated_service(service, spec, NEW + spec["Name"])
    return _kept(service, spec) or {"ID": NEW + spec["Name"], "Spec": spec}


def _starts_first(service: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> bool:
    """Return whether the deployment replaces the service's tasks, and starts new ones before the old ones end."""
    is_updated = service is not None and start_first.starts_first(service, spec) and list(service["Spec"]["Mode"]) == list(spec["Mode"])
    return is_updated and (start_first.is_replaced(spec) or not _needs_the_same(service, spec))


def _kept(service: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the service with its new number of tasks, if it keeps the existing ones; otherwise None. Any update runs a job again."""
    if service is None or is_job_service(service) or list(service["Spec"]["Mode"]) != list(spec["Mode"]):
        return None
    if (size_of(service).wanted or 0) > (size_of({"Spec": spec}).wanted or 0):
        return None  # nobody knows which of its tasks swarm will end
    return dict(service, Spec=dict(service["Spec"], Mode=spec["Mode"])) if _needs_the_same(service, spec) else None


def _needs_the_same(service: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    new, old = demand_of(dict(service, Spec=spec)), demand_of(service)
    return new._replace(platforms=(), plugins=()) == old._replace(platforms=(), plugins=(), constraints=list(old.constraints))


def _part(service: Mapping[str, Any], one: Mapping[str, Any], former: Mapping[str, Any] | None, free: Listed, prefix: str) -> Part:
    """Return the service as a part of the stack. ``former`` is the existing service, if it is updated with order start-first; otherwise None."""
    part = Part(service, demand_of(service), one)
    old = start_first.slots_by_node(free.tasks, former["ID"]) if former else {}
    if former and is_global(service) and old:
        part = part._replace(beside=Overlap(sum(old.values())))
    elif former and old:
        wanted, number, larger = size_of(service).wanted or 0, sum(old.values()), start_first.demands_more(part.demand, demand_of(former))
        others = free._replace(tasks=[task for task in free.tasks if task.get("ServiceID") != former["ID"]], services=[*free.services, service])
        (alone,) = ledger(others, prefix, [service["ID"]])["explained"]
        rooms = ({node_id: _number(room) for node_id, room in found["rooms"].items()} for found in (one, alone))
        part = part._replace(
            beside=Overlap(number, wanted if larger else start_first.needed_beside_old(wanted, old, *rooms), larger, max(0, wanted - number))
        )
    return part._replace(alone=_judged(part, one))


def _judged(part: Part, one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the service's explanation, with the needs of its update."""
    if part.beside is None:
        return dict(one, fits=bool(one["fits"]) or (not one["needed"] and not is_global(part.service)))  # nothing needs to be placed
    needed = one["needed"] if part.beside.needed is None else part.beside.needed
    fits = one["fits"] if part.beside.needed is None else _number(one["room"]) >= needed
    return dict(one, needed=needed, fits=fits, text=one["text"] if fits else start_first.explain_overlap(one, part.beside))


def _together(parts: Sequence[Part], free: Listed, prefix: str) -> list[dict[str, Any]]:
    """Return the explanations for the first order in which all parts fit. If there is none, those for the order that begins with the largest part."""
    first: list[dict[str, Any]] = []
    for order, tight in ((_largest, False), (_scarcest, True), (_largest, True)):
        found = _placed_in_order(order(parts), free, prefix, tight)
        if all(one["fits"] for one in found):
            return found
        first = first or found
        if not all(part.alone["fits"] for part in parts):
            break  # no order helps
    return first


def _largest(parts: Sequence[Part]) -> Sequence[Part]:
    return sorted(parts, key=lambda part: (-max(part.demand.wants.values(), default=0), part.name))


def _scarcest(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts in order of their spare places, the fewest first."""
    return sorted(parts, key=lambda part: (inf if part.alone["room"] is None else part.alone["room"] - part.number, part.name))


def _placed_in_order(parts: Sequence[Part], free: Listed, prefix: str, tight: bool) -> list[dict[str, Any]]:
    # Services that keep their tasks are present from the beginning.
    found, tasks, services = [], list(free.tasks), [*free.services, *(part.service for part in parts if not part.is_new)]
    for number, part in enumerate(parts):
        if part.is_new:
            services.append(part.service)
        now = ledger(free._replace(tasks=tasks, services=services), prefix, [part.service["ID"]])
        one = _judged(part, *now["explained"])
        found.append(dict(one))
        nodes = _tight(one, parts[number + 1 :]) if tight else _spread(one)
        tasks += _placed(part.service, one, now["nodes"], nodes)
    return found


# -- where the tasks of one service are ------------------------------------------------------------------------------


def _spread(one: Mapping[str, Any]) -> list[str]:
    """Return the nodes for its tasks in the order in which swarm spreads them. Each node appears as often as it has room."""
    rooms = {node_id: _number(one["rooms"][node_id]) for node_id in one["feasible"]}
    rounds = max(rooms.values(), default=0)
    return [node_id for turn in range(min(rounds, one["needed"] + 1)) for node_id, room in rooms.items() if turn < room]


def _tight(one: Mapping[str, Any], others: Sequence[Part]) -> list[str]:
    """Return the nodes for its tasks in an order that leaves room for others: first the nodes that the fewest others can use, then the smallest."""
    rooms = {node_id: _number(one["rooms"][node_id]) for node_id in one["feasible"]}
    by_use = sorted(rooms, key=lambda node_id: (sum(bool(other.room_on(node_id)) for other in others), rooms[node_id]))
    return [node_id for node_id in by_use for _turn in range(min(rooms[node_id], one["needed"]))]


def _number(room: int | None) -> int:
    return ANY_NUMBER if room is None else room


def _placed(
    service: Mapping[str, Any], one: Mapping[str, Any], records: Sequence[Mapping[str, Any]], nodes: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the tasks that the service would have, in the form of the API."""
    by_id = {record["id"]: record for record in records}
    left = {node_id: _free(by_id[node_id]) for node_id in one["feasible"]}
    wants = generic_resources.from_info(reservations(service["Spec"]["TaskTemplate"]).get("GenericResources"))
    chosen = one["feasible"] if is_global(service) else nodes[: one["needed"]]
    return [
        _task(service, slot, node_id, {kind: _taken(left[node_id], kind, amount) for kind, amount in wants.items()})
        for slot, node_id in enumerate(chosen, 1)
    ]


def _free(record: Mapping[str, Any]) -> dict[str, Any]:
    free = {kind: entry["free"] for kind, entry in record["resources"].items()}
    return {kind: list(value) if isinstance(value, list) else value for kind, value in free.items()}


def _taken(free: dict[str, Any], kind: str, amount: int) -> Any:
    if not isinstance(free[kind], list):
        return amount
    taken = amount or len(free[kind])  # 0 of a named kind takes all
    given, free[kind] = free[kind][:taken], free[kind][taken:]
    return given


def _task(service: Mapping[str, Any], slot: int, node_id: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    allocated: list[dict[str, Any]] = []
    for kind, value in given.items():
        if isinstance(value, list):
            allocated += [{"NamedResourceSpec": {"Kind": kind, "Value": one}} for one in value]
        else:
            allocated.append({"DiscreteResourceSpec": {"Kind": kind, "Value": value}})
    return {
        "ID": "%s.%d" % (service["ID"], slot),
        "ServiceID": service["ID"],
        "NodeID": node_id,
        "Slot": slot,
        "Spec": service["Spec"]["TaskTemplate"],
        "Status": {"State": "running"},
        "DesiredState": "running",
        "GenericResources": allocated,
    }


# -- whatever the order ----------------------------------------------------------------------------------------------


def rivals(part: Part, parts: Iterable[Part]) -> list[str]:
    """Return the other services of the stack that may take so much room that this one does not fit; [] if it fits wherever they are."""
    if not part.number or part.alone["room"] is None:
        return []
    lost = {other.name: _lost(part, other) for other in parts if other.name != part.name}
    if is_global(part.service):  # of which each node counts
        sums = [part.room_on(node_id) - sum(one.get(node_id, 0) for one in lost.values()) for node_id in part.alone["feasible"]]
        enough = all(left > 0 for left in sums)
    else:
        others = {other.name: other for other in parts}
        enough = part.alone["room"] - sum(_at_worst(part, others[name], one) for name, one in lost.items()) >= part.number
    return [] if enough else sorted(name for name, one in lost.items() if any(one.values()))


def _lost(part: Part, other: Part) -> dict[str, int]:
    """By node how many of the part's tasks would lose their room if all tasks of the other were there."""
    return {
        node_id: min(_slots(part, node_id), min(other.room_on(node_id), other.number) * _each(part, other))
        for node_id in part.alone["feasible"]
        if _each(part, other) and other.room_on(node_id)
    }


def _at_worst(part: Part, other: Part, lost: Mapping[str, int]) -> int:
    """Return how many tasks of the part lose their room in the worst case. Each task of the other takes the room of some tasks on its node."""
    each, gains = _each(part, other), []
    for most in lost.values():
        gains += [each] * (most // each) + ([most % each] if most % each else [])
    return sum(sorted(gains, reverse=True)[: other.number])


def _slots(part: Part, node_id: str) -> int:
    return min(_number(part.alone["rooms"].get(node_id, 0)), ANY_NUMBER)


def _each(part: Part, other: Part) -> int:
    """Return how many tasks of the part lose their room to one task of the other on the same node."""
    if part.demand.ports & other.demand.ports:
        return 1  # there is room for one anyway
    both = [(amount, other.demand.wants[kind]) for kind, amount in part.demand.wants.items() if kind in other.demand.wants]
    return max((ceil(taken / amount) if taken and amount else 1 if taken else ANY_NUMBER for amount, taken in both), default=0)
