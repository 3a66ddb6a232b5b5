# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Between a service and systemd, which starts it and ends it. Private to this collection: no stability is promised to others."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
from typing import Sequence

from .._printable import printable
from .._replace import replace_json

_LONGEST = 4000  # of a line: the journal begins another one after 48 KiB


class Lifetime:
    """Until systemd ends the service: that wakes whoever waits."""

    def __init__(self) -> None:
        self.over = False
        self._wake: list[int] = []

    def begin(self) -> None:
        """From here on SIGTERM is noticed, also one that comes right before a wait."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        self._wake = [wake]
        signal.signal(signal.SIGTERM, self._end)
        signal.set_wakeup_fd(waker)
        notify("READY=1")

    def wait(self, seconds: float, handles: Sequence[int] = ()) -> list[int]:
        """Those of the handles that can be read, as soon as there is one; none after so many seconds, or when the service is to end."""
        if self.over:
            return []
        ready = select.select([*self._wake, *handles], [], [], max(0.0, seconds))[0]
        return [one for one in ready if one not in self._wake]

    def _end(self, *dummy: object) -> None:
        self.over = True


def notify(state: str) -> None:
    """systemd's own protocol; nothing where it did not start this."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
            stream.connect("\0" + address[1:] if address.startswith("@") else address)
            stream.send(state.encode("ascii"))


def say(words: str) -> None:
    """Write exactly one line to the service's journal: names of hosts and processes could contain line breaks. Errors are ignored."""
    encoding = sys.stdout.encoding or "ascii"
    line = printable(words)[:_LONGEST].encode(encoding, "backslashreplace").decode(encoding)
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def publish(path: str, document: object) -> str:
    """Writes a status file in the service's runtime directory, as JSON. Returns why that failed, or ''.

    A reader sees a whole file or none. Where there is no room, the file of before goes: what it says is over, and its room may be enough.
    """
    failure = ""
    for _try in range(2):
        try:
            replace_json(path, document)
            return ""
        except OSError as problem:
            failure = "%s: %s" % (path, problem.strerror)
            with contextlib.suppress(OSError):
                os.unlink(path)
    return failure
