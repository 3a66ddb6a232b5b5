# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What wakes the service on a manager: that some node of the swarm was changed, its labels, its state, or who leads.

A manager's stream of events has it at once. It is no more than a bell: what has changed is read anew, and who hears nothing polls from time to time,
since dockerd drops events for a slow reader and, once it has lost its own watch of the swarm (moby, noderunner.go: watchClusterEvents), sends none
until it is started anew.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Callable, Iterable

from .._errors import GpuSwarmError

# Before a stream that broke is opened again: at first, and at the most.
PAUSE_S, LONGEST_S = 1.0, 60.0
_CHUNK = 1 << 16


class Bell:
    """Rings whenever a node was changed. ``listen()`` opens a stream and yields once it is open, and at each event."""

    def __init__(self, listen: Callable[[], Iterable[object]], pause: Callable[[float], object] = time.sleep) -> None:
        self._listen = listen
        self._pause = pause
        self._heard, self._rope = os.pipe()
        for handle in (self._heard, self._rope):
            os.set_blocking(handle, False)
        self.listens = False  # whether a stream is open: who has none polls more often

    def handles(self) -> list[int]:
        """Return what can be read once it has rung."""
        return [self._heard]

    def silence(self) -> None:
        """Return what comes from here on rings anew."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._heard, _CHUNK):
                pass

    def start(self) -> None:
        """Listens in a thread, which ends with the process."""
        threading.Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        wait = PAUSE_S
        while True:
            wait = PAUSE_S if self.hear() else min(2 * wait, LONGEST_S)
            self._pause(wait)

    def hear(self) -> bool:
        """Rings until the stream ends. Whether there was one at all."""
        opened = False
        try:
            for _event in self._listen():
                opened = self.listens = True
                self._ring()
        except GpuSwarmError:  # who polls the nodes meanwhile says why the manager does not answer
            pass
        finally:
            self.listens = False
        return opened

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it rings already
            os.write(self._rope, b"\n")
