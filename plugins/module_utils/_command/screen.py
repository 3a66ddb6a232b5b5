# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The terminal of ``gpu-swarm top``: reads keys, and redraws the screen.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import tty
from typing import Iterator, Sequence

DIED = 143  # the exit status after a signal
SIZE = (80, 24)  # of a terminal that does not tell its size
_CODES = {"red": "\x1b[31m", "yellow": "\x1b[33m", "green": "\x1b[32m", "reverse": "\x1b[7m"}
_RESET = "\x1b[0m"
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # the alternate screen without a cursor


def paint(text: str, colour: str) -> str:
    """Return the text in a colour. Other colours than the known ones change nothing."""
    return "%s%s%s" % (_CODES[colour], text, _RESET) if colour in _CODES else text


def has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def size() -> tuple[int, int]:
    """Return the columns and lines of the terminal."""
    columns, lines = shutil.get_terminal_size(SIZE)
    return columns, lines


@contextlib.contextmanager
def whole_screen() -> Iterator[None]:
    """Take the whole screen and each key. Afterwards the terminal is as before."""
    before = termios.tcgetattr(sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_BEGIN)
        yield
    finally:
        sys.stdout.write(_END)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _end(*dummy: object) -> None:
    raise SystemExit(DIED)


def draw(lines: Sequence[tuple[str, str]]) -> None:
    """Draw over the former picture without erasing it first, so that the screen does not flicker."""
    painted = "\r\n".join(paint(text, colour) + "\x1b[K" for text, colour in lines)
    sys.stdout.write("\x1b[H%s\x1b[J" % painted)
    sys.stdout.flush()


def keys(seconds: float) -> list[str]:
    """Return the keys that were pressed within this time; at once if there is one. An arrow is one key. [] if the terminal is gone."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return []
    data = os.read(sys.stdin.fileno(), 1024).decode("utf-8", "replace")
    return split_keys(data) if data else ["q"]


def split_keys(data: str) -> list[str]:
    """Return the keys in what a terminal sent. A key that begins with an escape, such as an arrow, is sent at once."""
    found = []
    while data:
        length = 1
        if data.startswith("\x1b["):
            length = next((i + 1 for i, character in enumerate(data) if i > 1 and (character.isalpha() or character == "~")), len(data))
        found.append(data[:length])
        data = data[length:]
    return found
