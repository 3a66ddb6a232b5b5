# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the queues on the leader: reads what changed, writes how admitted work ended, and admits waiting work.

Each write is one versioned update. If somebody else changed the service meanwhile, the next round reads it again and decides again.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import time
from math import inf
from typing import Any, Callable, Iterator, Mapping, Sequence

from .._errors import GpuSwarmError
from .._ledger.ledger import swarm_state
from .._ledger.listed import Listed
from .._ledger.reading import without_container
from .._placement.scheduler import SwarmState
from .._swarm.manager import Manager, NotFound, OutOfSequence, SwarmError
from .._swarm.owned_labels import PREFIX
from .._tasks.tasks import epoch
from .admissions import Admissions, admissions, avoids, why_none
from .gang_pulls import GangPulls, Pull
from .moved_tasks import may_be_moved, moved_since, moved_work
from .queue_state import ADMITTED, WAITING, is_at_rest, state_of
from .queued_services import QueuedServices
from .queues import LABEL, Queue, from_label
from .round_stamp import Stamp
from .settle import Change, View, settle, unreachable_nodes
from .waiting import QUEUE, Work

AGAIN_S = 1.0  # the next round after an update, and the shortest time between two rounds
EVERY_S = 5.0  # the time between two lists of the tasks of queued services, while any of this work is admitted
SHARE = 0.05  # the largest part of the time to spend on these lists, and the same part for full lists with their decisions
# The time between two full lists while work waits (seconds): after a change, and without one. No event says that work without a queue has ended.
AT_MOST_S, AT_LEAST_S = 10.0, 60.0
REFUSED_S = 300.0  # the time until a service is updated again after swarm refused an update

Tasks = Mapping[str, Sequence[Mapping[str, Any]]]


def random_id() -> str:
    return os.urandom(8).hex()


class Admitter:
    """Called in each round. ``say`` prints a line. ``last`` is the result of the last decision."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic, new_id: Callable[[], str] = random_id) -> None:
        self._say, self._clock, self._new_id = say, clock, new_id
        self.services = QueuedServices(clock)
        self._stamp = Stamp(clock)
        self._may_have_led = True  # a former process of this manager may have led
        self._failure = ""
        self._refused: dict[str, tuple[float, str]] = {}  # when swarm refused an update of a service, and why
        self._polled, self._poll_took_s = -inf, 0.0  # when the tasks of queued services were listed, and how long that took
        self._full_list_read, self._full_list_took_s = -inf, 0.0  # when the full list was read, and how long the list and the decision took
        self._full_list_key: object = None  # the services, tasks and nodes at that time; None to look again soon
        self._pulls = GangPulls(clock)
        self._wanted: list[Pull] = []  # the pulls that gangs wait for
        self.last: Admissions | None = None

    def __call__(self, manager: Manager, nodes: Sequence[Mapping[str, Any]], leads: bool) -> float | None:
        """Return the seconds until the next round must begin, even without an event; None without such a limit."""
        wait = None
        try:
            if leads:
                self._may_have_led, wait = True, EVERY_S
                wait = self._round(manager, nodes)
            elif self._may_have_led:
                wait = EVERY_S
                self.services.forget()
                self._pulls, self._wanted = GangPulls(self._clock), []
                self._stamp.give_up(manager)
                self._may_have_led, wait = False, None
            self._report("")
        except GpuSwarmError as problem:
            self._report(problem.message)
        except Exception as problem:  # do not fail, because the other parts of the service must continue
            self._report("%r. Please report that." % problem)
        return None if wait is None or wait == inf else max(AGAIN_S, wait)

    def _report(self, failure: str) -> None:
        if failure and failure != self._failure:
            self._say("the queues could not be served: %s" % failure)
        self._failure = failure

    def _round(self, manager: Manager, nodes: Sequence[Mapping[str, Any]]) -> float | None:
        services = self.services.read(manager)
        if all(map(is_at_rest, services.values())):
            self._remove_pulls(manager)
            return None
        started = self._clock()
        if started < self._polled + self._poll_took_s / SHARE:
            return self._polled + self._poll_took_s / SHARE - started
        cluster, clock = manager.cluster()
        queues, unreadable = _queues_of(cluster)
        if not self._stamp.take(manager, cluster):
            return None
        now = epoch(clock) or time.time()
        tasks = _by_service(manager.tasks_labelled(QUEUE)) if any(state_of(service).attempt for service in services.values()) else {}
        changes = settle(View(services, tasks, queues, unreachable_nodes(nodes), now, _labels(nodes)))
        self._polled, self._poll_took_s = started, self._clock() - started
        has_written = self._write(manager, changes)
        if unreadable:  # started work ends as usual, and no work starts
            raise unreadable
        until_full_list = self._until_full_list(services, tasks, nodes)
        if until_full_list == inf:
            self._remove_pulls(manager)
        if until_full_list <= 0:
            has_written = self._admit(manager, nodes, queues, cluster, now) or has_written
            self._full_list_took_s = self._clock() - self._full_list_read
        if has_written:
            return AGAIN_S
        runs = any(state.state == ADMITTED or state.admission for state in map(state_of, services.values()))
        until_poll = started + max(EVERY_S, self._poll_took_s / SHARE) - self._clock() if runs else inf
        return min(until_poll, until_full_list if until_full_list > 0 else inf)

    def _until_full_list(self, services: Mapping[str, Mapping[str, Any]], tasks: Tasks, nodes: Sequence[Mapping[str, Any]]) -> float:
        """Return the seconds until the next full list: 0 if it is due now, inf if no work waits. A change makes the list due sooner."""
        if all(state_of(service).state != WAITING for service in services.values()):
            return inf
        versions = sorted((service["ID"], service["Version"]["Index"]) for service in services.values())
        states = sorted((task["ID"], task["Status"]["State"]) for own in tasks.values() for task in own)
        key = (versions, states, [(node["ID"], node.get("Status", {}).get("State"), node["Spec"].get("Availability")) for node in nodes])
        now = self._clock()
        interval = max(AT_MOST_S if key != self._full_list_key else AT_LEAST_S, self._full_list_took_s / SHARE)
        if now < self._full_list_read + interval:
            return self._full_list_read + interval - now
        self._full_list_read, self._full_list_key = now, key
        return 0.0

    def _admit(
        self, manager: Manager, nodes: Sequence[Mapping[str, Any]], queues: Mapping[str, Queue], cluster: Mapping[str, Any], now: float
    ) -> bool:
        services = self.services.read(manager)
        state, tasks, moved = _full_list(manager, nodes, services, moved_since(cluster["Spec"], now), now)
        failed = self._pulls.go_on(manager, self._wanted)
        if failed:
            without = {pull for pull, _why in failed}
            self._wanted, self._full_list_key = [pull for pull in self._wanted if pull not in without], None
            return self._write(manager, [avoids(services[pull.service_id], pull.node, why) for pull, why in failed if pull.service_id in services])
        view = View(services, tasks, queues, unreachable_nodes(nodes), now, _labels(nodes), moved, self._pulls.has)
        self.last = admissions(view, state, self._new_id, self._recently_refused(), why_none(cluster["Spec"]))
        has_written = self._write(manager, self.last.changes)
        if self.last.pulls != self._wanted:
            self._wanted = self.last.pulls
            self._pulls.go_on(manager, self._wanted)
        if self._wanted:
            self._full_list_key = None  # look again soon, because no event says when a pull has ended
        return has_written

    def _remove_pulls(self, manager: Manager) -> None:
        self._wanted = []
        self._pulls.go_on(manager, self._wanted)

    def _recently_refused(self) -> dict[str, str]:
        now = self._clock()
        self._refused = {service_id: one for service_id, one in self._refused.items() if now - one[0] < REFUSED_S}
        return {service_id: text for service_id, (_since, text) in self._refused.items()}

    def _write(self, manager: Manager, changes: Sequence[Change]) -> bool:
        """Write the changes one after the other. Return whether at least one was tried. The next decision reads these services again."""
        refused, has_tried = self._recently_refused(), False
        for change in changes:
            service = change.service
            if service["ID"] in refused or not self._stamp.is_valid():
                continue
            self.services.changed(service["ID"])
            has_tried = True
            try:
                manager.update_service(service["ID"], service["Version"]["Index"], change.spec)
                self._say("queue: %s: %s" % (service["Spec"]["Name"], change.text))
            except (OutOfSequence, NotFound):  # somebody else changed or removed it; the next round decides again
                continue
            except SwarmError as problem:
                if problem.details:  # the manager does not answer, or has no leader
                    raise
                # Swarm refuses invalid content, and services that it cannot store: more than 1.5 MiB, with the former specification.
                self._refused[service["ID"]] = (self._clock(), problem.message)
                self._say("queue: %s could not be changed: %s" % (service["Spec"]["Name"], problem.message))
        return has_tried


def _queues_of(cluster: Mapping[str, Any]) -> tuple[Mapping[str, Queue], GpuSwarmError | None]:
    """Return the queues of the swarm, and the error if their label is unreadable."""
    try:
        return from_label((cluster["Spec"].get("Labels") or {}).get(LABEL)), None
    except GpuSwarmError as unreadable:
        return {}, unreadable


def _full_list(
    manager: Manager, nodes: Sequence[Mapping[str, Any]], services: Mapping[str, Mapping[str, Any]], since: float | None, now: float
) -> tuple[SwarmState, Tasks, Sequence[Work]]:
    """Return what is free on the nodes, the tasks of queued services, and the waiting tasks that a run moved after the time ``since``."""
    own: list[Mapping[str, Any]] = []
    waiting: list[Mapping[str, Any]] = []

    def each_task() -> Iterator[Mapping[str, Any]]:
        for task in manager.tasks():
            if task.get("ServiceID") in services:
                own.append(without_container(task))
            elif may_be_moved(task, since):
                waiting.append(without_container(task))
            yield task

    # The queued services are in memory already. A second copy of 10,000 services would take 100 MiB.
    listed = Listed(nodes, each_task(), [services.get(service["ID"], service) for service in manager.each_service()], now)
    state = swarm_state(listed, PREFIX)
    return state, _by_service(own), moved_work(waiting, listed.services, state.census)


def _by_service(tasks: Sequence[Mapping[str, Any]]) -> Tasks:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for task in tasks:
        found.setdefault(task.get("ServiceID") or "", []).append(task)
    return found


def _labels(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, str]]:
    return {node["ID"]: (node.get("Spec") or {}).get("Labels") or {} for node in nodes}
