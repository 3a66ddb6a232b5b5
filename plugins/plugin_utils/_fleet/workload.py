# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs on a node, and what may be done with it (pure).

A node is read from two sides: its own daemon knows every container, the swarm's manager knows every task, also one whose image is
still being pulled and which has no container yet.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._settings.declaration import ALL, NEVER

# What a change stops: whatever runs there, only what is swarm's (tasks, and containers on its networks), or nothing.
CONTAINERS, TASKS, NOTHING = "containers", "tasks", "nothing"

SPENT = "it has used up its restart attempts"
STOPPING = "swarm is stopping it"
# Who has run for longer may have much to lose, also where swarm starts it again.
LONG_S = 86400
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Work:
    """One task or container. ``movable``: swarm starts it elsewhere, or here again, when it is stopped.

    ``service`` is None for a container that no service owns. ``age_s`` is None where nobody knows. ``networks`` are the swarm's
    networks that such a container is on. ``spent`` is a task of which swarm would make another one, had it not used up its attempts.
    """

    name: str
    service: str | None
    movable: bool
    age_s: int | None = None
    networks: tuple[str, ...] = ()
    spent: bool = False
    kept: str | None = None  # the label of its service by which it is not to be moved
    removed: bool = False  # whether its service was, so that swarm is stopping it already
    elsewhere: bool | None = True  # whether another node could run it; None where that is no question, as for global services

    @property
    def of_swarm(self) -> bool:
        """Whether it ends, or loses its network, where the node leaves the swarm."""
        return bool(self.service or self.networks)


# Stands for the containers of a host whose containers could not be read.
UNREAD = Work("its containers, which could not be read", None, movable=False)


def work_on(containers: Sequence[Mapping[str, Any]], node: Mapping[str, Any] | None) -> list[Work]:
    """All that a restart of the node's daemon would stop: its tasks as the ledger has them, then its other containers."""
    tasks = (node or {}).get("tasks") or []
    known = {task["id"] for task in tasks}
    names = {item["task"]: item["service"] for item in containers if item.get("task") and item.get("service")}
    work = [_task(task, names.get(task["id"])) for task in tasks]
    # A container of a task that the manager does not know any more is about to go, or belongs to another swarm.
    rest = [item for item in containers if item.get("task") not in known or not item.get("task")]
    return work + [_container(item) for item in rest]


def _task(task: Mapping[str, Any], by_container: str | None) -> Work:
    name, service = _name(task, by_container)
    spent = task.get("restarts_left") == 0
    work = Work(name, service, task["movable"], task.get("age"), spent=spent, kept=task.get("kept"), elsewhere=task.get("elsewhere", True))
    return replace(work, removed=bool(task.get("removed")))


def _container(item: Mapping[str, Any]) -> Work:
    return Work(item["name"], item.get("service"), False, item.get("age"), tuple(item.get("swarm_networks") or ()))


def _name(task: Mapping[str, Any], by_container: str | None) -> tuple[str, str]:
    """A task's name and its service's. Of a service that was removed the manager knows its id alone, its containers their name."""
    service = task["service"]
    if not by_container or by_container == service:
        return task["name"], f"{service} (removed)" if task.get("removed") else service
    return by_container + task["name"][len(service) :], f"{by_container} (removed)"


def must_stay(work: Iterable[Work], disrupt: str) -> list[Work]:
    """What is not to be stopped, by ``provision_disrupt`` of its node."""
    if disrupt == ALL:
        return []
    return [item for item in work if disrupt == NEVER or not item.movable or item.kept]


def what_is_stopped(stops: str, work: list[Work]) -> list[Work]:
    """The part of what runs there that a change would stop."""
    return {CONTAINERS: work, TASKS: [item for item in work if item.of_swarm], NOTHING: []}[stops]


def in_words(work: Iterable[Work]) -> list[str]:
    """As an owner knows it: services with the number of their tasks, and by name what must end first."""
    work = list(work)
    services = Counter(item.service for item in work if item.movable and not item.kept)
    services_in_words = [f"service {name}" + (f" ({count} tasks)" if count > 1 else "") for name, count in services.items()]
    return services_in_words + [_one(item) for item in work if not item.movable or item.kept]


def what_becomes(ends: Iterable[Work], leaves: bool = False) -> list[tuple[str, list[str]]]:
    """What a change does with the work that it may end. A node that ``leaves`` does not come back."""
    ends = list(ends)
    movable, rest = [item for item in ends if item.movable], [item for item in ends if not item.movable]
    bound = [item for item in movable if not item.elsewhere]
    rows = [("moves", [item for item in movable if item.elsewhere])]
    if leaves:
        rows += [("leaves no node for", [item for item in bound if item.elsewhere is False])]
        rows += [("stops", [item for item in bound if item.elsewhere is None] + rest)]
    else:
        rows += [("stops until the node is back:", bound), ("stops", rest)]
    return [(word, in_words(items)) for word, items in rows]


def long_running(ends: Iterable[Work]) -> list[str]:
    """Of the work that a change ends, the tasks that are moved after a long time, with their age. Not those of global services: there is one on
    each node as long as that exists."""
    moved = [item for item in ends if item.movable and item.elsewhere is not None]
    return [f"{item.name} ({age(item.age_s)})" for item in moved if item.age_s is not None and item.age_s > LONG_S]


def of_swarm(containers: Sequence[Mapping[str, Any]]) -> list[str]:
    """What of a node's containers ends, or loses its network, where the node leaves its swarm, in words."""
    return in_words(item for item in work_on(containers, None) if item.of_swarm)


def _one(item: Work) -> str:
    if item is UNREAD:
        return item.name
    what = f"task {item.name} of service {item.service}" if item.service else f"container {item.name}"
    what += f" on the swarm's network {', '.join(item.networks)}" if item.networks else ""
    notes = [] if item.age_s is None else [f"for {age(item.age_s)}"]
    if item.spent:
        notes.append(SPENT)
    if item.removed:
        notes.append(STOPPING)
    if item.kept:
        notes.append(f"kept by its label {item.kept}")
    return f"{what} ({', '.join(notes)})" if notes else what


def age(seconds: int) -> str:
    """``3 h 5 min``: the two largest units that are not zero at the front."""
    parts: list[str] = []
    for size, unit in _UNITS:
        count, seconds = divmod(max(0, seconds), size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part) or "0 s"
