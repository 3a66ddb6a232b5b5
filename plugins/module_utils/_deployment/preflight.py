# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predicts whether all services of a stack fit together, before they are deployed (pure).

Swarm places the services of a stack in any order, spreads their tasks, and moves no task to make room. So this code gives one of three answers for
each service. The service always fits. It fits unless other services of the stack take its room. Or it does not fit.
Private to this collection; it may change without notice.
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
# The room on a node for tasks that need no limited resource.
ANY_NUMBER = 1000


class Part(NamedTuple):
    """A service of the stack, and its explanation for a swarm without the other new services of the stack."""

    service: Mapping[str, Any]
    demand: Demand
    alone: Mapping[str, Any]  # in the form of swarm_explain
    overlap: Overlap | None = None  # the old tasks that run until the new tasks run

    @property
    def name(self) -> str:
        return str(self.service["Spec"]["Name"])

    @property
    def is_new(self) -> bool:
        return str(self.service["ID"]).startswith(NEW)

    @property
    def number(self) -> int:
        """Return the number of tasks that need room."""
        return len(self.alone["feasible"]) if is_global(self.service) else self.alone["needed"]

    def room_on(self, node_id: str) -> int:
        """Return the largest number of the service's tasks that fit on this node."""
        room = self.alone["rooms"].get(node_id, 0)
        return min(self.number if room is None else room, 1 if is_global(self.service) else ANY_NUMBER)


# Sorts parts in the order of placement.
Order = Callable[[Sequence[Part]], Sequence[Part]]


def preflight(stack: str, specs: Iterable[Mapping[str, Any]], listed: Listed, prefix: str, prune: bool = False) -> dict[str, Any]:
    """Return the ledger without the tasks that this deployment replaces. Its explanations of the stack's services consider the other services of the
    stack.

    A service keeps its tasks if its needs do not change, or if the service is missing in ``specs`` and is not pruned. The resources of the stack's
    other tasks are treated as free, because swarm ends an old task before it starts the new task. With ``order: start-first``, swarm starts the new
    task first (see ``start_first``).
    """
    specs = list(specs)
    own = {service["Spec"]["Name"]: service for service in of_stack(stack, listed.services)}
    overlapping = {spec["Name"]: own[spec["Name"]] for spec in specs if _starts_first(own.get(spec["Name"]), spec)}
    wanted = [_wanted(own.get(spec["Name"]), spec, spec["Name"] in overlapping) for spec in specs]
    kept = {service["ID"] for service in wanted}
    names = {spec["Name"] for spec in specs}
    replaced = {service["ID"] for name, service in own.items() if name in names - set(overlapping) or (prune and name not in names)} - kept
    free = listed._replace(
        tasks=start_first.without_stuck(
            [task for task in listed.tasks if task.get("ServiceID") not in replaced], [service["ID"] for service in own.values()]
        ),
        services=[service for service in listed.services if service["ID"] not in replaced | kept],
    )
    result: dict[str, Any] = ledger(free._replace(services=[*free.services, *wanted]), prefix, [service["ID"] for service in wanted])
    by_id = {explanation["id"]: explanation for explanation in result.get("explained") or []}
    parts = [_part(service, by_id[service["ID"]], overlapping.get(service["Spec"]["Name"]), free, prefix) for service in wanted]
    explained = _together(parts, free, prefix)
    for explanation in explained:
        part = next(part for part in parts if part.name == explanation["service"])
        if explanation["fits"]:  # nobody knows where the other services of the stack will be
            explanation["feasible"] = part.alone["feasible"]
        explanation["keeps_tasks"] = not part.is_new and not part.alone["needed"] and part.overlap is None
        explanation["overlaps"] = part.overlap is not None
        explanation["rivals"] = rivals(part, parts) if explanation["fits"] else []
        del explanation["rooms"]
    return dict(result, explained=sorted(explained, key=lambda explanation: explanation["service"]))


def _wanted(service: Mapping[str, Any] | None, spec: Mapping[str, Any], is_updated: bool) -> Mapping[str, Any]:
    """Return the service after the deployment. A service that keeps its tasks keeps its id. Any other service gets a new id."""
    if service is not None and is_updated:
        return start_first.updated_service(service, spec, NEW + spec["Name"])
    return _kept(service, spec) or {"ID": NEW + spec["Name"], "Spec": spec}


def _starts_first(service: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> bool:
    """Return whether the deployment replaces the service's tasks and starts the new tasks before the old tasks end."""
    is_updated = service is not None and start_first.starts_first(service, spec) and list(service["Spec"]["Mode"]) == list(spec["Mode"])
    return is_updated and (start_first.is_replaced(spec) or not _needs_the_same(service, spec))


def _kept(service: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the service with its new number of tasks, or None if the service does not keep its existing tasks. Any update runs a job again."""
    if service is None or is_job_service(service) or list(service["Spec"]["Mode"]) != list(spec["Mode"]):
        return None
    if (size_of(service).wanted or 0) > (size_of({"Spec": spec}).wanted or 0):
        return None  # nobody knows which of its tasks swarm will end
    return dict(service, Spec=dict(service["Spec"], Mode=spec["Mode"])) if _needs_the_same(service, spec) else None


def _needs_the_same(service: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    new, old = demand_of(dict(service, Spec=spec)), demand_of(service)
    return new._replace(platforms=(), plugins=()) == old._replace(platforms=(), plugins=(), constraints=list(old.constraints))


def _part(
    service: Mapping[str, Any], explanation: Mapping[str, Any], former: Mapping[str, Any] | None, free: Listed, prefix: str
) -> Part:
    """Return the service as a part of the stack. ``former`` is the existing service, or None if the update does not use order start-first."""
    part = Part(service, demand_of(service), explanation)
    old = start_first.slots_by_node(free.tasks, former["ID"]) if former else {}
    if former and is_global(service) and old:
        part = part._replace(overlap=Overlap(sum(old.values())))
    elif former and old:
        wanted, number, larger = size_of(service).wanted or 0, sum(old.values()), start_first.demands_more(part.demand, demand_of(former))
        others = free._replace(tasks=[task for task in free.tasks if task.get("ServiceID") != former["ID"]], services=[*free.services, service])
        (without_old,) = ledger(others, prefix, [service["ID"]])["explained"]
        rooms = ({node_id: _number(room) for node_id, room in explained["rooms"].items()} for explained in (explanation, without_old))
        needed = wanted if larger else start_first.needed_beside_old(wanted, old, *rooms)
        part = part._replace(overlap=Overlap(number, needed, larger, max(0, wanted - number)))
    return part._replace(alone=_explain_overlap(part, explanation))


def _explain_overlap(part: Part, explanation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the explanation of the part, with the room that is needed while the update runs."""
    overlap = part.overlap
    if overlap is None:
        needs_nothing = not explanation["needed"] and not is_global(part.service)
        return dict(explanation, fits=bool(explanation["fits"]) or needs_nothing)
    needed = explanation["needed"] if overlap.needed is None else overlap.needed
    fits = explanation["fits"] if overlap.needed is None else _number(explanation["room"]) >= needed
    text = explanation["text"] if fits else start_first.explain_overlap(explanation, overlap)
    return dict(explanation, needed=needed, fits=fits, text=text)


def _together(parts: Sequence[Part], free: Listed, prefix: str) -> list[dict[str, Any]]:
    """Return the explanations for the first order in which all parts fit. If the parts fit in no order, use the order that begins with the largest
    part."""
    first: list[dict[str, Any]] = []
    for order, packed in ((_largest_first, False), (_scarcest_first, True), (_largest_first, True)):
        explained = _place_in_order(order(parts), free, prefix, packed)
        if all(explanation["fits"] for explanation in explained):
            return explained
        first = first or explained
        if not all(part.alone["fits"] for part in parts):
            break  # a part that does not fit alone fits in no order
    return first


def _largest_first(parts: Sequence[Part]) -> Sequence[Part]:
    return sorted(parts, key=lambda part: (-max(part.demand.wants.values(), default=0), part.name))


def _scarcest_first(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts sorted by their spare room, the part with the least spare room first."""
    return sorted(parts, key=lambda part: (inf if part.alone["room"] is None else part.alone["room"] - part.number, part.name))


def _place_in_order(parts: Sequence[Part], free: Listed, prefix: str, packed: bool) -> list[dict[str, Any]]:
    """Place the parts one after the other, and return their explanations. ``packed``: choose nodes that leave room for later parts."""
    # Services that keep their tasks are present from the beginning.
    explained, tasks, services = [], list(free.tasks), [*free.services, *(part.service for part in parts if not part.is_new)]
    for number, part in enumerate(parts):
        if part.is_new:
            services.append(part.service)
        now = ledger(free._replace(tasks=tasks, services=services), prefix, [part.service["ID"]])
        explanation = _explain_overlap(part, *now["explained"])
        explained.append(dict(explanation))
        nodes = _pack_nodes(explanation, parts[number + 1 :]) if packed else _spread_nodes(explanation)
        tasks += _place_tasks(part.service, explanation, now["nodes"], nodes)
    return explained


# -- the tasks of one service -----------------------------------------------------------------------------------------


def _spread_nodes(explanation: Mapping[str, Any]) -> list[str]:
    """Return the nodes for the part's tasks in the order in which swarm spreads the tasks. Each node is listed once for each task that fits."""
    rooms = {node_id: _number(explanation["rooms"][node_id]) for node_id in explanation["feasible"]}
    rounds = max(rooms.values(), default=0)
    return [node_id for turn in range(min(rounds, explanation["needed"] + 1)) for node_id, room in rooms.items() if turn < room]


def _pack_nodes(explanation: Mapping[str, Any], others: Sequence[Part]) -> list[str]:
    """Return the nodes for the part's tasks in an order that leaves room for other parts.

    The nodes that the fewest other parts can use are first. Among equal nodes, the smallest node is first.
    """
    rooms = {node_id: _number(explanation["rooms"][node_id]) for node_id in explanation["feasible"]}
    by_use = sorted(rooms, key=lambda node_id: (sum(bool(other.room_on(node_id)) for other in others), rooms[node_id]))
    return [node_id for node_id in by_use for _turn in range(min(rooms[node_id], explanation["needed"]))]


def _number(room: int | None) -> int:
    return ANY_NUMBER if room is None else room


def _place_tasks(
    service: Mapping[str, Any], explanation: Mapping[str, Any], records: Sequence[Mapping[str, Any]], nodes: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the tasks that the service would have, in the form of the API."""
    by_id = {record["id"]: record for record in records}
    free = {node_id: _free(by_id[node_id]) for node_id in explanation["feasible"]}
    wants = generic_resources.from_info(reservations(service["Spec"]["TaskTemplate"]).get("GenericResources"))
    chosen = explanation["feasible"] if is_global(service) else nodes[: explanation["needed"]]
    return [
        _task(service, slot, node_id, {kind: _take(free[node_id], kind, amount) for kind, amount in wants.items()})
        for slot, node_id in enumerate(chosen, 1)
    ]


def _free(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the node's free resources by kind, as names or as a number."""
    free = {kind: entry["free"] for kind, entry in record["resources"].items()}
    return {kind: list(value) if isinstance(value, list) else value for kind, value in free.items()}


def _take(free: dict[str, Any], kind: str, amount: int) -> Any:
    """Remove resources of a kind from ``free``, and return these resources as names or as a number. A reservation of 0 of a named kind takes all free
    resources."""
    if not isinstance(free[kind], list):
        return amount
    number = amount or len(free[kind])
    names, free[kind] = free[kind][:number], free[kind][number:]
    return names


def _task(service: Mapping[str, Any], slot: int, node_id: str, resources: Mapping[str, Any]) -> Mapping[str, Any]:
    allocated: list[dict[str, Any]] = []
    for kind, value in resources.items():
        if isinstance(value, list):
            allocated += [{"NamedResourceSpec": {"Kind": kind, "Value": name}} for name in value]
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


# -- which services may take the room of others -------------------------------------------------------------------------


def rivals(part: Part, parts: Iterable[Part]) -> list[str]:
    """Return the other services of the stack that may take so much room that this service does not fit; [] if the service always fits."""
    if not part.number or part.alone["room"] is None:
        return []
    others = {other.name: other for other in parts if other.name != part.name}
    displaced = {name: _displaced(part, other) for name, other in others.items()}
    if is_global(part.service):  # the service needs room on each node
        sums = [part.room_on(node_id) - sum(by_node.get(node_id, 0) for by_node in displaced.values()) for node_id in part.alone["feasible"]]
        enough = all(room > 0 for room in sums)
    else:
        enough = part.alone["room"] - sum(_most_displaced(part, others[name], by_node) for name, by_node in displaced.items()) >= part.number
    return [] if enough else sorted(name for name, by_node in displaced.items() if any(by_node.values()))


def _displaced(part: Part, other: Part) -> dict[str, int]:
    """Return for each node how many tasks of the part lose their room if all tasks of the other service are on that node."""
    per_task = _displaced_per_task(part, other)
    return {
        node_id: min(_number(part.alone["rooms"].get(node_id, 0)), ANY_NUMBER, min(other.room_on(node_id), other.number) * per_task)
        for node_id in part.alone["feasible"]
        if per_task and other.room_on(node_id)
    }


def _most_displaced(part: Part, other: Part, displaced: Mapping[str, int]) -> int:
    """Return how many tasks of the part lose their room in the worst placement of the other service's tasks.

    ``displaced`` is the limit for each node. A task of the other service displaces only tasks on its own node.
    """
    per_task, losses = _displaced_per_task(part, other), []
    for most in displaced.values():
        losses += [per_task] * (most // per_task) + ([most % per_task] if most % per_task else [])
    return sum(sorted(losses, reverse=True)[: other.number])


def _displaced_per_task(part: Part, other: Part) -> int:
    """Return how many tasks of the part lose their room to one task of the other service on the same node."""
    if part.demand.ports & other.demand.ports:
        return 1  # a port allows only one task on a node anyway
    both = [(amount, other.demand.wants[kind]) for kind, amount in part.demand.wants.items() if kind in other.demand.wants]
    return max((ceil(taken / amount) if taken and amount else 1 if taken else ANY_NUMBER for amount, taken in both), default=0)
