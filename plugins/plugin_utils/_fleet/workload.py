# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists the work on a node, and decides what may be stopped (pure).

There are two sources. The node's daemon knows every container. The swarm's manager knows every task, also tasks without a container, for example
while their image is pulled.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._settings.declaration import ALL, NEVER

# What a change stops: all containers, only tasks of the swarm and containers on its networks, or nothing.
CONTAINERS, TASKS, NOTHING = "containers", "tasks", "nothing"

SPENT = "it has used up its restart attempts"
STOPPING = "swarm is stopping it"
# A task that has run for longer may lose much, even if swarm starts it again.
LONG_RUNNING_S = 86400
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Work:
    """A task or container. ``movable``: if the task is stopped, swarm starts it on another node, or again on this node.

    ``service`` is None for a container without a service. ``age_s`` is None if unknown. ``networks`` are the swarm's networks of such a container.
    ``spent``: swarm would restart this task, but its restart attempts are used up.
    """

    name: str
    service: str | None
    movable: bool
    age_s: int | None = None
    networks: tuple[str, ...] = ()
    spent: bool = False
    kept: str | None = None  # the label of its service that forbids moving it
    removed: bool = False  # whether its service was removed, so that swarm is already stopping it
    elsewhere: bool | None = True  # whether another node could run it; None for tasks that belong to this node, such as tasks of global services

    @property
    def needs_swarm(self) -> bool:
        """Return whether the task or container ends, or loses its network, if the node leaves the swarm."""
        return bool(self.service or self.networks)


# Stands for the containers of a host whose containers could not be read.
UNREAD = Work("its containers, which could not be read", None, movable=False)


def work_on(containers: Sequence[Mapping[str, Any]], node: Mapping[str, Any] | None) -> list[Work]:
    """Return the work that a restart of the node's dockerd would stop: the tasks that the ledger shows, then all other containers."""
    tasks = (node or {}).get("tasks") or []
    known = {task["id"] for task in tasks}
    names = {item["task"]: item["service"] for item in containers if item.get("task") and item.get("service")}
    work = [_task(task, names.get(task["id"])) for task in tasks]
    # If the manager does not know a container's task, the container is about to end, or belongs to another swarm.
    rest = [item for item in containers if item.get("task") not in known or not item.get("task")]
    return work + [_container(item) for item in rest]


def _task(task: Mapping[str, Any], container_service: str | None) -> Work:
    name, service = _name(task, container_service)
    spent = task.get("restarts_left") == 0
    work = Work(name, service, task["movable"], task.get("age"), spent=spent, kept=task.get("kept"), elsewhere=task.get("elsewhere", True))
    return replace(work, removed=bool(task.get("removed")))


def _container(item: Mapping[str, Any]) -> Work:
    return Work(item["name"], item.get("service"), False, item.get("age"), tuple(item.get("swarm_networks") or ()))


def _name(task: Mapping[str, Any], container_service: str | None) -> tuple[str, str]:
    """Return the names of a task and of its service. If the service was removed, the manager only knows the service's id, but a container may have
    the name.
    """
    service = task["service"]
    if not container_service or container_service == service:
        return task["name"], f"{service} (removed)" if task.get("removed") else service
    return container_service + task["name"][len(service) :], f"{container_service} (removed)"


def must_stay(work: Iterable[Work], disrupt: str) -> list[Work]:
    """Return the work that must not be stopped, according to ``provision_disrupt`` of its node."""
    if disrupt == ALL:
        return []
    return [item for item in work if disrupt == NEVER or not item.movable or item.kept]


def stopped_work(stops: str, work: list[Work]) -> list[Work]:
    """Return the part of ``work`` that a change would stop."""
    return {CONTAINERS: work, TASKS: [item for item in work if item.needs_swarm], NOTHING: []}[stops]


def describe_work(work: Iterable[Work]) -> list[str]:
    """Describe work: the services with the number of their tasks, and the names of work that must end first."""
    work = list(work)
    services = Counter(item.service for item in work if item.movable and not item.kept)
    service_texts = [f"service {name}" + (f" ({count} tasks)" if count > 1 else "") for name, count in services.items()]
    return service_texts + [_describe(item) for item in work if not item.movable or item.kept]


def describe_effects(ending: Iterable[Work], leaves: bool = False) -> list[tuple[str, list[str]]]:
    """Describe what happens to the work that a change ends, as (verb, names). If the node ``leaves`` the swarm, its tasks do not return to it."""
    ending = list(ending)
    movable, rest = [item for item in ending if item.movable], [item for item in ending if not item.movable]
    staying = [item for item in movable if not item.elsewhere]
    rows = [("moves", [item for item in movable if item.elsewhere])]
    if leaves:
        rows += [("leaves no node for", [item for item in staying if item.elsewhere is False])]
        rows += [("stops", [item for item in staying if item.elsewhere is None] + rest)]
    else:
        rows += [("stops until the node is back:", staying), ("stops", rest)]
    return [(verb, describe_work(items)) for verb, items in rows]


def long_running(ending: Iterable[Work]) -> list[str]:
    """Return the tasks that a change moves after they have run for long, with their age. Tasks of global services are excluded, because they exist as
    long as their node.
    """
    moved = [item for item in ending if item.movable and item.elsewhere is not None]
    return [f"{item.name} ({age(item.age_s)})" for item in moved if item.age_s is not None and item.age_s > LONG_RUNNING_S]


def describe_swarm_work(containers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return descriptions of the containers that end or lose their network if the node leaves its swarm."""
    return describe_work(item for item in work_on(containers, None) if item.needs_swarm)


def _describe(item: Work) -> str:
    if item is UNREAD:
        return item.name
    text = f"task {item.name} of service {item.service}" if item.service else f"container {item.name}"
    text += f" on the swarm's network {', '.join(item.networks)}" if item.networks else ""
    notes = [] if item.age_s is None else [f"for {age(item.age_s)}"]
    if item.spent:
        notes.append(SPENT)
    if item.removed:
        notes.append(STOPPING)
    if item.kept:
        notes.append(f"kept by its label {item.kept}")
    return f"{text} ({', '.join(notes)})" if notes else text


def age(seconds: int) -> str:
    """Return a duration such as ``3 h 5 min``, in its two largest units."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, seconds = divmod(max(0, seconds), size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"
