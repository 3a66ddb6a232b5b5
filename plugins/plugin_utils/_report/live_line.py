# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A line at the bottom of a terminal. A thread rewrites the line, and Ansible's own output appears above it.

Ansible forks for each task, perhaps while the thread holds a lock of Python's files. So the thread writes with os.write, which needs no lock. In the
forked process, this code does nothing.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ...module_utils._printable import printable

ERASE = "\r\x1b[K"
REWRITE_INTERVAL_S = 1.0
LONG_WAIT_S = 10.0


class LiveLine:
    """The line. ``current(now)`` returns the text to show, or '', and for how many seconds the current task has run.

    If ``rewrites`` is false, the line appears only during a long wait, after 10, 20, 40 … seconds.
    """

    def __init__(self, current: Callable[[float], tuple[str, float]], rewrites: bool, width: Callable[[], int]) -> None:
        self._current, self._rewrites, self._width = current, rewrites, width
        self._lock, self._ended, self._pid = threading.Lock(), threading.Event(), os.getpid()
        self._shown, self._silenced, self._next_s = False, 0, LONG_WAIT_S
        self._thread = threading.Thread(target=self._run, name="gpu_swarm_live_line", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Erase the line, and end the thread."""
        self._ended.set()
        self._thread.join()
        self._erase()

    def above(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a method of Ansible's Display. The wrapper erases the line before the method prints, and keeps the thread silent meanwhile."""

        @functools.wraps(method)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() != self._pid:
                return method(*args, **kwargs)
            with self._lock:
                self._silenced += 1
                self._erase()
            try:
                return method(*args, **kwargs)
            finally:
                with contextlib.suppress(BrokenPipeError):  # "| head" does not end a run
                    sys.stdout.flush()
                with self._lock:
                    self._silenced -= 1

        return wrapper

    def _run(self) -> None:
        while not self._ended.wait(REWRITE_INTERVAL_S):
            with self._lock:
                if not self._silenced:
                    self._show(*self._current(time.monotonic()))

    def _show(self, text: str, seconds: float) -> None:
        text = printable(text)
        if self._rewrites:
            self._erase()
            if text:
                room = max(columns() or self._width(), 3) - 1
                self._write(text if len(text) <= room else f"{text[: room - 1]}…")
                self._shown = True
        elif seconds < LONG_WAIT_S:
            self._next_s = LONG_WAIT_S
        elif text and seconds >= self._next_s:
            self._next_s = 2 * seconds
            self._write(f"{text}\n")

    def _erase(self) -> None:
        if self._shown:
            self._write(ERASE)
            self._shown = False

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), text.encode("utf-8", "replace"))


def columns() -> int:
    """Return the present width of the terminal; 0 if the width is unknown.

    Ansible reads the width only once, and uses 79 for a narrow terminal. On a narrow terminal, a line of 79 columns would need several rows, and only
    the last row can be erased.
    """
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0
