# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the services of queues in memory, so that a round reads only what changed.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable, Mapping

from .._swarm.manager import Manager, NotFound
from .waiting import QUEUE

# When all services are listed again (seconds): if events say what changed, and without events. dockerd drops events for a slow reader.
LISTENING_S, POLL_S = 300.0, 10.0
MOST_READ = 50  # if more services changed, one list is cheaper


class QueuedServices:
    """A thread that reads events calls ``changed`` and sets ``listens``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._services: dict[str, Mapping[str, Any]] = {}
        self._listed: float | None = None
        self._changed: deque[str] = deque()
        self.listens = False

    def changed(self, service_id: str) -> None:
        """Have the service read again. May be called from any thread."""
        self._changed.append(service_id)

    def forget(self) -> None:
        """Have all services read again."""
        self._services, self._listed = {}, None

    def read(self, manager: Manager) -> Mapping[str, Mapping[str, Any]]:
        """Return the services of queues by id. Raises SwarmError."""
        changed = []
        while self._changed:
            changed.append(self._changed.popleft())
        ids = set(changed)
        now = self._clock()
        if self._listed is None or now - self._listed >= (LISTENING_S if self.listens else POLL_S) or len(ids) > MOST_READ:
            self._services = {service["ID"]: service for service in manager.each_service(QUEUE)}
            self._listed = now
            return self._services
        try:
            for service_id in sorted(ids):
                self._read_one(manager, service_id)
        except Exception:
            self._changed.extend(ids)
            raise
        return self._services

    def _read_one(self, manager: Manager, service_id: str) -> None:
        self._services.pop(service_id, None)
        try:
            service = manager.service(service_id)
        except NotFound:
            return
        if QUEUE in (service["Spec"].get("Labels") or {}):
            self._services[service_id] = service
