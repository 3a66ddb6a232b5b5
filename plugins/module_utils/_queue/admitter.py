# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the queues on the manager that leads: reads what changed, writes what has become of admitted work, and admits waiting work.

Each write is one versioned update. If somebody else changed the service meanwhile, the next round reads it again and decides again.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

from .._errors import GpuSwarmError
from .._ledger.ledger import swarm_state
from .._ledger.listed import Listed
from .._ledger.reading import without_container
from .._placement.scheduler import SwarmState
from .._swarm.manager import Manager, NotFound, OutOfSequence, Refused
from .._swarm.owned_labels import PREFIX
from .._tasks.tasks import epoch
from .admissions import Admissions, admissions, why_none
from .queue_state import WAITING, is_at_rest, state_of
from .queued_services import QueuedServices
from .queues import LABEL, Queue, from_label
from .round_stamp import Stamp
from .settle import Change, View, settle, unreachable_nodes
from .waiting import QUEUE

# The full list is read at most this often, and at least this often while work waits (seconds): nobody says when work without a queue has ended.
AT_MOST_S, AT_LEAST_S = 10.0, 60.0
REFUSED_S = 300.0  # how long a service is left alone whose update swarm refused

Tasks = Mapping[str, Sequence[Mapping[str, Any]]]


def random_id() -> str:
    return os.urandom(8).hex()


class Admitter:
    """Called in each round. ``say`` prints a line. ``last`` has the last decisions, for whoever shows the queues."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic, new_id: Callable[[], str] = random_id) -> None:
        self._say, self._clock, self._new_id = say, clock, new_id
        self.services = QueuedServices(clock)
        self._stamp = Stamp(clock)
        self._leads = False
        self._failure = ""
        self._refused: dict[str, tuple[float, str]] = {}  # when swarm refused an update of a service, and why
        self._looked: float | None = None  # when the full list was read
        self._looked_at: object = None  # what had changed by then
        self.last: Admissions | None = None

    def __call__(self, manager: Manager, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        try:
            if leads:
                self._leads = True
                self._round(manager, nodes)
            elif self._leads:
                self._leads = False
                self._stamp.give_up(manager)
                self.services.forget()
            self._report("")
        except GpuSwarmError as problem:
            self._report(problem.message)
        except Exception as problem:  # do not fail, because the other parts of the service must continue
            self._report("%r. Please report that." % problem)

    def _report(self, failure: str) -> None:
        if failure and failure != self._failure:
            self._say("the queues could not be served: %s" % failure)
        self._failure = failure

    def _round(self, manager: Manager, nodes: Sequence[Mapping[str, Any]]) -> None:
        services = self.services.read(manager)
        if all(map(is_at_rest, services.values())):
            return
        cluster, clock = manager.cluster()
        queues = from_label((cluster["Spec"].get("Labels") or {}).get(LABEL))
        if not self._stamp.take(manager, cluster):
            return
        now = epoch(clock) or time.time()
        tasks = _by_service(manager.tasks_labelled(QUEUE)) if any(state_of(service).attempt for service in services.values()) else {}
        self._write(manager, settle(View(services, tasks, queues, unreachable_nodes(nodes), now)))
        if self._is_due(services, tasks, nodes):
            self._admit(manager, nodes, queues, cluster, now)

    def _is_due(self, services: Mapping[str, Mapping[str, Any]], tasks: Tasks, nodes: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether it is time to read the full list: work waits, and something changed."""
        if all(state_of(service).state != WAITING for service in services.values()):
            return False
        versions = sorted((service["ID"], service["Version"]["Index"]) for service in services.values())
        states = sorted((task["ID"], task["Status"]["State"]) for own in tasks.values() for task in own)
        looks = (versions, states, [(node["ID"], node.get("Status", {}).get("State"), node["Spec"].get("Availability")) for node in nodes])
        now = self._clock()
        passed = AT_LEAST_S if self._looked is None else now - self._looked
        if passed < (AT_MOST_S if looks != self._looked_at else AT_LEAST_S):
            return False
        self._looked, self._looked_at = now, looks
        return True

    def _admit(
        self, manager: Manager, nodes: Sequence[Mapping[str, Any]], queues: Mapping[str, Queue], cluster: Mapping[str, Any], now: float
    ) -> None:
        services = self.services.read(manager)
        state, tasks = _full_list(manager, nodes, services, now)
        view = View(services, tasks, queues, unreachable_nodes(nodes), now)
        self.last = admissions(view, state, self._new_id, self._recently_refused(), why_none(cluster["Spec"]))
        self._write(manager, self.last.changes)

    def _recently_refused(self) -> dict[str, str]:
        now = self._clock()
        self._refused = {service_id: one for service_id, one in self._refused.items() if now - one[0] < REFUSED_S}
        return {service_id: text for service_id, (_since, text) in self._refused.items()}

    def _write(self, manager: Manager, changes: Sequence[Change]) -> None:
        """Write the changes one after the other. The services are read again before the next decision."""
        refused = self._recently_refused()
        for change in changes:
            service = change.service
            if service["ID"] in refused or not self._stamp.is_valid():
                continue
            self.services.changed(service["ID"])
            try:
                manager.update_service(service["ID"], service["Version"]["Index"], change.spec)
                self._say("queue: %s: %s" % (service["Spec"]["Name"], change.text))
            except (OutOfSequence, NotFound):  # somebody else changed or removed it; the next round decides again
                continue
            except Refused as problem:
                self._refused[service["ID"]] = (self._clock(), problem.message)
                self._say("queue: %s could not be changed: %s" % (service["Spec"]["Name"], problem.message))


def _full_list(
    manager: Manager, nodes: Sequence[Mapping[str, Any]], services: Mapping[str, Mapping[str, Any]], now: float
) -> tuple[SwarmState, Tasks]:
    """Return what is free on the nodes, and the tasks of the services of queues."""
    own: list[Mapping[str, Any]] = []

    def each_task() -> Iterator[Mapping[str, Any]]:
        for task in manager.tasks():
            if task.get("ServiceID") in services:
                own.append(without_container(task))
            yield task

    state = swarm_state(Listed(nodes, each_task(), manager.services(), now), PREFIX)
    return state, _by_service(own)


def _by_service(tasks: Sequence[Mapping[str, Any]]) -> Tasks:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks:
        found.setdefault(task.get("ServiceID") or "", []).append(task)
    return found
