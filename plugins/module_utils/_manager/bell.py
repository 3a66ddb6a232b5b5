# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wakes a process of gpu-swarm-manager when a service or a node of the swarm changes (the node's labels, the node's state, or the leader).

A manager sends events at once. An event only wakes the process, which then reads the swarm again. The process also polls from time to time, because
dockerd drops events for a slow reader. If dockerd has lost its own watch of the swarm, it sends no events until it is restarted (moby, noderunner.go:
watchClusterEvents).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Callable, Iterable

from .._errors import GpuSwarmError

# The pause before a broken stream is opened again: the first pause, and the longest pause (seconds).
PAUSE_S, LONGEST_S = 1.0, 60.0
_CHUNK = 1 << 16


class Bell:
    """Rings at each event. ``listen()`` opens a stream, and yields when the stream is open and at each event."""

    def __init__(self, listen: Callable[[], Iterable[object]], pause: Callable[[float], object] = time.sleep) -> None:
        self._listen = listen
        self._pause = pause
        self._read_end, self._write_end = os.pipe()
        for handle in (self._read_end, self._write_end):
            os.set_blocking(handle, False)
        self.listens = False  # whether a stream is open. Without one, the service polls more often

    def handles(self) -> list[int]:
        """Return the file descriptors that become readable when the bell rings."""
        return [self._read_end]

    def silence(self) -> None:
        """Stop ringing. The next event rings again."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, _CHUNK):
                pass

    def start(self) -> None:
        """Listen in a thread. The thread ends with the process."""
        threading.Thread(target=self._listen_forever, daemon=True).start()

    def _listen_forever(self) -> None:
        wait = PAUSE_S
        while True:
            wait = PAUSE_S if self.hear() else min(2 * wait, LONGEST_S)
            self._pause(wait)

    def hear(self) -> bool:
        """Ring at each event until the stream ends. Return whether the stream could be opened."""
        opened = False
        try:
            for _event in self._listen():
                opened = self.listens = True
                self._ring()
        except GpuSwarmError:  # the rounds already report why the manager does not answer
            pass
        finally:
            self.listens = False
        return opened

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the bell already rings
            os.write(self._write_end, b"\n")
