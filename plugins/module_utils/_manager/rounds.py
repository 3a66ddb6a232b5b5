# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rounds: a process reads the list of nodes whenever a node changes, acts on it, and waits for the next change.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Sequence

from .._program.lifetime import Lifetime, say
from .._swarm.manager import Manager, SwarmError, connect
from .node_events import Bell

# How often it polls if no event comes: while the manager sends events, and while it does not.
LISTENING_S, POLL_S = 15, 5
AGAIN_S = 1  # after a change that came between reading and writing
SHARE = 0.05  # of the time that may go into polling, if nodes change all the time
ANSWER_S = 20  # how long a manager may take to answer
CONNECTION = dict(tls=False, validate_certs=False, ca_path=None, client_cert=None, client_key=None, api_version="auto", timeout=ANSWER_S)

Nodes = Sequence[Mapping[str, Any]]
# Acts on the list of nodes. Returns in how many seconds at the latest there is another round, or None if that does not matter.
Act = Callable[[Manager, Nodes], "float | None"]


class Rounds:
    """Those of one process. ``alive`` is called in each round: who supervises this process ends it if that stops."""

    def __init__(self, docker_socket: str, act: Act, alive: Callable[[], object], connect: Callable[..., Manager] = connect) -> None:
        self._socket = docker_socket
        self._act = act
        self._alive = alive
        self._connect = connect
        self._manager: Manager | None = None
        self._failure: str | None = None
        self.lifetime = Lifetime()
        self.bell = Bell(lambda: self._connected().node_events())

    def run(self) -> None:
        """Until systemd ends the service."""
        self.lifetime.begin()
        self.bell.start()
        while not self.lifetime.over:
            self.bell.silence()
            began = time.monotonic()
            wait = self.poll()
            self._alive()
            earliest = began + rest_s(time.monotonic() - began)
            if self.lifetime.wait(wait, self.bell.handles()):
                self.lifetime.wait(earliest - time.monotonic())

    def poll(self) -> float:
        """One round. Returns in how many seconds at the latest the next one begins."""
        try:
            manager = self._manager = self._manager or self._connected()
            nodes = manager.nodes()
            if all(node["ID"] != manager.node_id for node in nodes):  # this host has left its swarm and is a manager of another one
                manager = self._manager = self._connected()
                nodes = manager.nodes()
        except SwarmError as problem:
            self._manager = None
            self._fail(problem.message)
            return POLL_S
        self._fail(None)
        soonest = self._act(manager, nodes)
        latest = LISTENING_S if self.bell.listens else POLL_S
        return latest if soonest is None else min(latest, soonest)

    def _connected(self) -> Manager:
        return self._connect(dict(CONNECTION, docker_host="unix://" + self._socket))

    def _fail(self, words: str | None) -> None:
        if words and words != self._failure:
            say("the nodes cannot be read now: %s" % words)
        if self._failure and not words:
            say("the nodes can be read again")
        self._failure = words


def rest_s(took_s: float) -> float:
    """From the beginning of a round, which took so long, to that of the next, if nodes change all the time."""
    return min(POLL_S, max(AGAIN_S, took_s / SHARE))
