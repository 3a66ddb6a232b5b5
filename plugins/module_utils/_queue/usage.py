# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds which resources queued services use now (pure). Their use begins with the admission and ends when their tasks have stopped.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._placement.census import Port, host_ports
from .._placement.pending import UNITS, wanted_by
from .._tasks.one_shot import forced
from .._tasks.tasks import ALLOCATED, WAITING, epoch
from .queue_state import ADMITTED, State, state_of
from .queues import Queue
from .waiting import limit_of_admitted, owner_of, queue_of


class Running(NamedTuple):
    """What one task of a queue uses.

    ``ends`` is when the time limit ends the task (seconds since 1970); None if nobody knows. ``placed`` is false if the work was admitted, but
    swarm has not given its task a node yet. Then the ledger still shows the resources as free.
    """

    service_id: str
    queue: str
    owner: str
    node: str
    wants: Mapping[str, Any]  # amounts by resource kind, with CPUs and memory
    ends: float | None = None
    placed: bool = True
    ports: frozenset[Port] = frozenset()

    @property
    def amounts(self) -> dict[str, int]:
        return {kind: amount for kind, amount in self.wants.items() if kind not in UNITS}


def running_of(service: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], queues: Mapping[str, Queue], now: float) -> list[Running]:
    """Return what the service uses; [] for a service that does not belong to a queue. ``tasks`` are all tasks of the service."""
    queue = queue_of(service)
    if queue is None:
        return []
    state, template = state_of(service), service["Spec"]["TaskTemplate"]
    limit = limit_of_admitted(service, state, queues.get(queue)) if state.state == ADMITTED else None
    base = Running(service["ID"], queue, owner_of(service), "", {}, ports=frozenset(host_ports(service["Spec"])))
    found = [
        base._replace(node=task.get("NodeID") or "", wants=wanted_by(task.get("Spec") or template), ends=_end(task, limit, now))
        for task in tasks
        if task["Status"]["State"] in ALLOCATED
    ]
    if _awaits_its_task(state, template, tasks):
        found.append(base._replace(node=state.node, wants=wanted_by(template), ends=None if limit is None else now + limit, placed=False))
    return found


def _awaits_its_task(state: State, template: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the service was admitted, but swarm has not assigned this attempt's task to a node yet."""
    current = [task["Status"]["State"] for task in tasks if forced(task.get("Spec") or {}) == forced(template)]
    return state.state == ADMITTED and all(task_state in WAITING for task_state in current)


def _end(task: Mapping[str, Any], limit: float | None, now: float) -> float | None:
    """Return when the time limit ends the task. The limit counts from the admission, so the end is known before the pull of the image."""
    return None if limit is None else (epoch(task.get("CreatedAt")) or now) + limit
