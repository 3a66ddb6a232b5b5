# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the rounds of a process. In each round, the process reads the list of nodes, acts on the list, and waits for the next event.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Mapping, Sequence

from .._program.lifetime import Lifetime, say
from .._swarm.manager import BY_SOCKET, Manager, SwarmError, connect
from .bell import Bell

# The time between polls without events (seconds): with an open stream of events, and without one.
LISTENING_S, POLL_S = 15, 5
AGAIN_S = 1  # if somebody else changed a node between reading and writing
SHARE = 0.05  # the largest part of the time to spend on polling, even if nodes change all the time
ANSWER_S = 20  # how long a manager may take to answer
CONNECTION = dict(BY_SOCKET, timeout=ANSWER_S)

Nodes = Sequence[Mapping[str, Any]]
# Acts on the list of nodes. Returns the seconds until the next round must begin, or None without such a limit.
Act = Callable[[Manager, Nodes], "float | None"]


def node_events(manager: Manager) -> Iterable[object]:
    return manager.events("node")


class Rounds:
    """The rounds of one process. Each round calls ``alive``. If the calls stop, the supervisor ends the process.

    ``listen(manager)`` yields when the stream of events is open, and at each event.
    """

    def __init__(
        self,
        docker_socket: str,
        act: Act,
        alive: Callable[[], object],
        connect: Callable[..., Manager] = connect,
        listen: Callable[[Manager], Iterable[object]] = node_events,
    ) -> None:
        self._socket = docker_socket
        self._act = act
        self._alive = alive
        self._connect = connect
        self._manager: Manager | None = None
        self._failure: str | None = None
        self.lifetime = Lifetime()
        self.bell = Bell(lambda: listen(self._connected()))

    def run(self) -> None:
        """Run rounds until systemd ends the service."""
        self.lifetime.begin()
        self.bell.start()
        while not self.lifetime.over:
            self.bell.silence()
            started = time.monotonic()
            wait = self.poll()
            self._alive()
            earliest = started + shortest_interval_s(time.monotonic() - started)
            if self.lifetime.wait(wait, self.bell.handles()):
                self.lifetime.wait(earliest - time.monotonic())

    def poll(self) -> float:
        """Run one round. Return the seconds until the next round must begin."""
        try:
            manager = self._manager = self._manager or self._connected()
            nodes = manager.nodes()
            if all(node["ID"] != manager.node_id for node in nodes):  # this host has left its swarm and is a manager of another one
                manager = self._manager = self._connected()
                nodes = manager.nodes()
        except SwarmError as problem:
            self._manager = None
            self._report_failure(problem.message)
            return POLL_S
        self._report_failure(None)
        soonest = self._act(manager, nodes)
        latest = LISTENING_S if self.bell.listens else POLL_S
        return latest if soonest is None else min(latest, soonest)

    def _connected(self) -> Manager:
        return self._connect(dict(CONNECTION, docker_host="unix://" + self._socket))

    def _report_failure(self, reason: str | None) -> None:
        if reason and reason != self._failure:
            say("the nodes cannot be read now: %s" % reason)
        if self._failure and not reason:
            say("the nodes can be read again")
        self._failure = reason


def shortest_interval_s(duration_s: float) -> float:
    """Return the shortest time between the starts of two rounds, if the first round took ``duration_s`` seconds."""
    return min(POLL_S, max(AGAIN_S, duration_s / SHARE))
