# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an update with ``order: start-first`` needs: room for new tasks while the old ones run (pure).

swarmkit's updater (manager/orchestrator/update/updater.go) ends an old task once the new one of its slot runs. Each old task that ends leaves
its place to a new one that still waits, so that one free place is enough for all of them, however many are started at once. It is not
enough where a new task cannot use the place of an old one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any, Iterable, Mapping, NamedTuple

from .._tasks.tasks import ALLOCATED, WAITING, WANTED, is_global, is_job_service
from .scheduler import Demand

START_FIRST = "start-first"


class Beside(NamedTuple):
    """``needed`` new tasks must have room while the ``old`` ones run; None means one on each node. ``larger``: they reserve more than the old
    ones. ``added``: how many of them replace no old task."""

    old: int
    needed: int | None = None
    larger: bool = False
    added: int = 0


def applies(service: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> bool:
    """Whether an update of the service to this specification starts new tasks first. A job has no updates."""
    return bool(service) and not is_job_service(service) and (spec.get("UpdateConfig") or {}).get("Order") == START_FIRST


def is_replaced(spec: Mapping[str, Any]) -> bool:
    """Whether the service's tasks are replaced in any case, as by 'docker service update --force'."""
    return bool((spec.get("TaskTemplate") or {}).get("ForceUpdate"))


def updated(service: Mapping[str, Any], spec: Mapping[str, Any], new_id: str) -> Mapping[str, Any]:
    """The service with its new specification, beside its old tasks. The old tasks of a global service keep no new task away."""
    if is_global({"Spec": spec}):
        return {"ID": new_id, "Spec": spec}
    return dict(service, Spec=spec, PreviousSpec=service["Spec"])


def without_stuck(tasks: Iterable[Mapping[str, Any]], service_ids: Iterable[str]) -> list[Mapping[str, Any]]:
    """The tasks without those of these services that wait beside an old one of their slot: another update drops them."""
    tasks, ids = list(tasks), set(service_ids)
    live = {_slot(task) for task in tasks if task.get("ServiceID") in ids and _is_live(task)}
    return [task for task in tasks if not (task["Status"]["State"] in WAITING and task.get("ServiceID") in ids and _slot(task) in live)]


def places(tasks: Iterable[Mapping[str, Any]], service_id: str) -> Counter[str]:
    """By node the slots of the service that have a task there."""
    by_slot = {_slot(task): task.get("NodeID") or "" for task in tasks if task.get("ServiceID") == service_id and _is_live(task)}
    return Counter(by_slot.values())


def grows(new: Demand, old: Demand) -> bool:
    """Whether a new task may find no room where an old one was. 0 of a named kind takes all that are free."""
    return any((amount or inf) > (old.wants.get(kind, 0) or (inf if kind in old.wants else 0)) for kind, amount in new.wants.items())


def needed(wanted: int, old: Mapping[str, int], beside: Mapping[str, int], alone: Mapping[str, int]) -> int:
    """How many of ``wanted`` new tasks have to have room beside the ``old`` ones (by node), if they reserve no more than those. ``beside``: how many
    have room on each node with the old ones in place, ``alone``: without them.

    Which old task ends first is not known: in the worst case one whose place no new one can use.
    """
    number = sum(old.values())
    usable = sum(min(count, max(0, alone.get(node_id, 0) - beside.get(node_id, 0))) for node_id, count in old.items())
    useless, surplus = number - usable, max(0, number - wanted)
    freed = max(0, surplus - useless)  # of those that end without being replaced
    waits = max(0, useless - surplus) + (1 if usable > freed else 0)
    return max(0, wanted - number) + (max(0, waits - freed) if wanted else 0)


def why(one: Mapping[str, Any], beside: Beside) -> str:
    """Why it does not fit, added to the explanation without the update."""
    if beside.needed is None:
        return "%s; its tasks run on until new ones do (update_config: order: start-first); with order: stop-first each makes room" % one["text"]
    runs = "its %d tasks run on until new ones do (update_config: order: start-first)" % beside.old
    begin = "" if one["feasible"] else "%s; " % one["text"]
    if beside.larger:
        more = "since they reserve more than before, there has to be room for all %d beside them, and there is for %d"
        return "%s%s; %s" % (begin, runs, more % (beside.needed, one["room"]))
    there = "there is room for %d more beside them, and %s needed" % (one["room"], _number_is(beside.needed))
    return "%s%s; %s; with order: stop-first, %s needed" % (begin, runs, there, _number_is(beside.added))


def _number_is(number: int) -> str:
    return "1 is" if number == 1 else "%d are" % number


def _slot(task: Mapping[str, Any]) -> tuple[Any, Any]:
    return task.get("ServiceID"), task.get("Slot") or task.get("NodeID")


def _is_live(task: Mapping[str, Any]) -> bool:
    return task["Status"]["State"] in ALLOCATED and task.get("DesiredState") in WANTED
