# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shortens a recording of asciinema (asciicast v2) for viewers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

# Marks in the recording. They are escape sequences that no terminal knows.
HOLD = "\x1b]hold;{}\x07"  # the picture stays unchanged for this many seconds
END = "\x1b]end\x07"  # the story ended well
HOLDS = re.compile(r"\x1b\]hold;([\d.]+)\x07")
GAPS = (0.14, 0.1, 0.07, 0.05, 0.03)  # the most seconds between two events; the first value that makes the recording short enough is used
SHORT = 38  # seconds for the whole recording
FRAME = 0.12  # seconds: changes within this time become one picture

Event = tuple[float, str]


def cut(text: str) -> str:
    """Return the recording with its pauses cut, its marks replaced by pauses, and fewer pictures."""
    head, *lines = text.splitlines()
    events = [(at, data) for at, kind, data in map(json.loads, lines) if kind == "o"]
    events = [(at, data.replace(END, "")) for at, data in events]
    header = {key: value for key, value in json.loads(head).items() if key in ("version", "width", "height")}
    paced = next((made for gap in GAPS if (made := list(_paced(events, gap)))[-1][0] <= SHORT), list(_paced(events, GAPS[-1])))
    return "\n".join([json.dumps(header), *(json.dumps([round(at, 3), "o", data]) for at, data in _frames(paced))]) + "\n"


def length(text: str) -> float:
    """Return how many seconds a recording takes."""
    return float(json.loads(text.splitlines()[-1])[0])


def _paced(events: Iterable[Event], gap: float) -> Iterable[Event]:
    now, before = 0.0, None
    for at, data in events:
        now += min(at - before, gap) if before is not None else 0
        before = at
        # The parts are text and seconds in turn. Text before a mark is shown before the pause.
        for place, part in enumerate(HOLDS.split(data)):
            if place % 2:
                now += float(part)
            elif part:
                yield now, part
    yield now, ""


def _frames(events: Iterable[Event]) -> Iterable[Event]:
    begin, collected = 0.0, ""
    for at, data in events:
        if collected and at - begin >= FRAME:
            yield begin, collected
            collected = ""
        if not collected:
            begin = at
        collected += data
    yield begin, collected
