# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calculates the room that an update with ``order: start-first`` needs for new tasks while the old tasks run (pure).

swarmkit's updater (manager/orchestrator/update/updater.go) ends an old task once the new task of its slot runs. Then the next waiting new task
can take the place of the old task. So one free place is enough for any number of tasks, unless a new task cannot use an old task's place.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any, Iterable, Mapping, NamedTuple

from .._tasks.tasks import ALLOCATED, WAITING, WANTED, is_global, is_job_service
from .scheduler import Demand

START_FIRST = "start-first"


class Overlap(NamedTuple):
    """How many new tasks must run beside the old tasks.

    ``old`` is the number of running tasks. ``needed`` is the number of new tasks that need room during the update. None means one task on each node.
    ``larger`` is true if new tasks reserve more than old tasks. ``added`` is the number of new tasks that replace no old task.
    """

    old: int
    needed: int | None = None
    larger: bool = False
    added: int = 0


def starts_first(service: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> bool:
    """Return whether an update to this specification starts new tasks before it ends old tasks. Jobs have no updates."""
    return bool(service) and not is_job_service(service) and (spec.get("UpdateConfig") or {}).get("Order") == START_FIRST


def is_replaced(spec: Mapping[str, Any]) -> bool:
    """Return whether the specification forces swarm to replace the tasks, as 'docker service update --force' does."""
    return bool((spec.get("TaskTemplate") or {}).get("ForceUpdate"))


def updated_service(service: Mapping[str, Any], spec: Mapping[str, Any], new_id: str) -> Mapping[str, Any]:
    """Return the service with its new specification.

    A global service gets a new id, because its old tasks do not exclude new tasks from their nodes.
    """
    if is_global({"Spec": spec}):
        return {"ID": new_id, "Spec": spec}
    return dict(service, Spec=spec, PreviousSpec=service["Spec"])


def without_stuck(tasks: Iterable[Mapping[str, Any]], service_ids: Iterable[str]) -> list[Mapping[str, Any]]:
    """Return the tasks without the stuck tasks of these services.

    A task is stuck if it waits while an old task of its slot runs. Another update removes the stuck task.
    """
    tasks, ids = list(tasks), set(service_ids)
    live = {_slot(task) for task in tasks if task.get("ServiceID") in ids and _is_live(task)}
    return [task for task in tasks if not (task["Status"]["State"] in WAITING and task.get("ServiceID") in ids and _slot(task) in live)]


def slots_by_node(tasks: Iterable[Mapping[str, Any]], service_id: str) -> Counter[str]:
    """Return how many slots of the service have a task on each node, by node id."""
    by_slot = {_slot(task): task.get("NodeID") or "" for task in tasks if task.get("ServiceID") == service_id and _is_live(task)}
    return Counter(by_slot.values())


def demands_more(new: Demand, old: Demand) -> bool:
    """Return whether a new task may not fit in the place of an old task. A reservation of 0 of a named kind takes all free resources."""
    return any((amount or inf) > (old.wants.get(kind, 0) or (inf if kind in old.wants else 0)) for kind, amount in new.wants.items())


def needed_beside_old(wanted: int, old: Mapping[str, int], beside: Mapping[str, int], alone: Mapping[str, int]) -> int:
    """Return how many of the ``wanted`` new tasks need room while the old tasks run, if new tasks reserve no more than old tasks.

    All mappings are by node id. ``old``: the number of old tasks. ``beside``: how many new tasks fit while the old tasks run. ``alone``: how many new
    tasks fit without the old tasks. Nobody knows which old task ends first. In the worst case no new task can use the place of that old task.
    """
    number = sum(old.values())
    usable = sum(min(count, max(0, alone.get(node_id, 0) - beside.get(node_id, 0))) for node_id, count in old.items())
    useless, surplus = number - usable, max(0, number - wanted)
    freed = max(0, surplus - useless)  # usable places of old tasks that no new task replaces
    waits = max(0, useless - surplus) + (1 if usable > freed else 0)
    return max(0, wanted - number) + (max(0, waits - freed) if wanted else 0)


def explain_overlap(explanation: Mapping[str, Any], beside: Overlap) -> str:
    """Return the explanation of a service that does not fit beside its old tasks. ``explanation`` is the service's explanation without the update."""
    if beside.needed is None:
        text = "%s; its tasks stop only when new ones run (update_config: order: start-first); with order: stop-first each makes room"
        return text % explanation["text"]
    still_running = "its %d tasks stop only when new ones run (update_config: order: start-first)" % beside.old
    begin = "" if explanation["feasible"] else "%s; " % explanation["text"]
    if beside.larger:
        need = "because the new tasks reserve more, all %d need room beside them, and there is room for %d"
        return "%s%s; %s" % (begin, still_running, need % (beside.needed, explanation["room"]))
    available = "there is room for %d more beside them, and %s needed" % (explanation["room"], _number_is(beside.needed))
    return "%s%s; %s; with order: stop-first, %s needed" % (begin, still_running, available, _number_is(beside.added))


def _number_is(number: int) -> str:
    return "1 is" if number == 1 else "%d are" % number


def _slot(task: Mapping[str, Any]) -> tuple[Any, Any]:
    return task.get("ServiceID"), task.get("Slot") or task.get("NodeID")


def _is_live(task: Mapping[str, Any]) -> bool:
    return task["Status"]["State"] in ALLOCATED and task.get("DesiredState") in WANTED
