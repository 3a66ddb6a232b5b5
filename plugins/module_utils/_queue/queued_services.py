# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the services of queues in memory, so that a round reads only what changed.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Iterator, Mapping

from .._swarm.manager import ANY, Manager, NotFound
from .waiting import QUEUE

# The time between two lists of all services (seconds): with events, and without. With events too, because dockerd drops events for a slow reader.
LISTENING_S, POLL_S = 300.0, 10.0
MOST_READ = 50  # if more services changed, one list is cheaper
MOST_UNQUEUED = 10_000
_ALL = ""  # instead of a service's id: any service may have changed


class QueuedServices:
    """The services of queues as they were last read. Another thread reads events, and says which services to read again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._services: dict[str, Mapping[str, Any]] = {}
        self._listed: float | None = None
        self._changed: set[str] = set()
        self._without_queue: set[str] = set()  # ids of services that had no queue when they were read alone, since the last list
        self.listens = False
        self.leads = False  # only a manager that leads reads the services in each round

    def follow(self, events: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Yield at each event that has to begin a round, and remember which service changed. Called from another thread.

        A round lists all nodes, so an event of a service begins a round only on the leader, and only if the service may have a queue.
        """
        try:
            for kind, service_id in events:
                self.listens = True
                if (kind, service_id) == ANY:
                    self.changed(_ALL)
                elif kind == "service":
                    if service_id in self._without_queue:
                        continue
                    self.changed(service_id)
                    if not self.leads:
                        continue
                yield
        finally:
            self.listens = False

    def changed(self, service_id: str) -> None:
        """Have the service read again. May be called from any thread."""
        if len(self._changed) <= MOST_READ:  # if more changed, all services are listed, so a manager that does not lead need not remember more
            self._changed.add(service_id)

    def forget(self) -> None:
        """Forget the services. The next read lists all of them."""
        self._services, self._listed, self.leads = {}, None, False

    def read(self, manager: Manager) -> Mapping[str, Mapping[str, Any]]:
        """Return the services of queues by id. Raises SwarmError."""
        ids = set()
        while self._changed:
            ids.add(self._changed.pop())
        self.leads = True
        now = self._clock()
        listed, self._listed = self._listed, None  # if reading fails, all services are listed next time
        if listed is None or now - listed >= (LISTENING_S if self.listens else POLL_S) or _ALL in ids or len(ids) > MOST_READ:
            self._services = {service["ID"]: _without_former_template(service) for service in manager.each_service(QUEUE)}
            self._without_queue.clear()  # somebody may have given a service a queue
            listed = now
        else:
            for service_id in sorted(ids):
                self._read_one(manager, service_id)
        self._listed = listed
        return self._services

    def _read_one(self, manager: Manager, service_id: str) -> None:
        self._services.pop(service_id, None)
        try:
            service = manager.service(service_id)
        except NotFound:
            return
        if QUEUE in (service["Spec"].get("Labels") or {}):
            self._services[service_id] = _without_former_template(service)
        elif len(self._without_queue) < MOST_UNQUEUED:
            self._without_queue.add(service_id)


def _without_former_template(service: dict[str, Any]) -> dict[str, Any]:
    """Return the service without its former task template, which nobody needs. That is about half of it, and there may be 10,000 services."""
    former = service.get("PreviousSpec")
    return dict(service, PreviousSpec={key: value for key, value in former.items() if key != "TaskTemplate"}) if former else service
