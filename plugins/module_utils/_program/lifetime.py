# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection of a service to systemd: its start, its end, its journal and its status file.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from typing import Sequence

from .._printable import printable
from .._replace import replace_json
from .clock import Clock

_LONGEST = 4000  # the highest number of characters in a line; the journal splits lines after 48 KiB


class Lifetime:
    """The time until systemd ends the service. ``wait`` returns early if systemd ends the service."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self.over = False
        self._wake: list[int] = []

    def begin(self) -> None:
        """Begin to handle SIGTERM, even if it arrives right before a wait. Then tell systemd that the service is ready."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        self._wake = [wake]
        signal.signal(signal.SIGTERM, self._end)
        signal.set_wakeup_fd(waker)
        notify("READY=1")

    def wait(self, seconds: float, handles: Sequence[int] = ()) -> list[int]:
        """Wait until a handle can be read, and return all readable handles. Return [] after ``seconds``, or if the service has to end."""
        if self.over:
            return []
        ready = self._clock.wait(seconds, [*self._wake, *handles])
        return [handle for handle in ready if handle not in self._wake]

    def _end(self, *dummy: object) -> None:
        self.over = True


def notify(state: str) -> None:
    """Send a state to systemd by the protocol of sd_notify. Does nothing if systemd did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
            stream.connect("\0" + address[1:] if address.startswith("@") else address)
            stream.send(state.encode("ascii"))


def say(text: str) -> None:
    """Write exactly one line to the service's journal. Line breaks are replaced, because names of hosts and processes may contain line breaks. Errors
    are ignored."""
    encoding = sys.stdout.encoding or "ascii"
    line = printable(text)[:_LONGEST].encode(encoding, "backslashreplace").decode(encoding)
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def publish(path: str, document: object, mode: int = 0o600) -> str:
    """Write a status file as JSON into the service's runtime directory. Return why the file could not be written, or ''.

    A reader sees a complete file or no file. If the disk is full, remove the outdated file and try again.
    """
    failure = ""
    for _try in range(2):
        try:
            replace_json(path, document, mode)
            return ""
        except OSError as problem:
            failure = "%s: %s" % (path, problem.strerror)
            with contextlib.suppress(OSError):
                os.unlink(path)
    return failure
