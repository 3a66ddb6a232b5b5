# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text in lines that fit the terminal (pure).

A line ends at a blank and nowhere else, so that names of nodes, GPUs, services and images can be copied. Python's textwrap breaks at hyphens too.
What is longer than a line by itself gets a line of its own, and stays whole.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_BETWEEN_ITEMS = re.compile(r"(?<=,) (?![^()]*\))")
# These words and the next one are read together: 8 NVIDIA-GPU, 2 × 79.6 GiB.
_BOUND = re.compile(r"[(+−]?\d[\d.]*|[×→+≥]")


def fold(text: str, width: int | None, indent: str = "", hanging: str = "") -> list[str]:
    """Lines of at most ``width`` characters, the first one with ``indent`` and the others with ``hanging``. Without a width, one line."""
    if not width or len(indent) + len(text) <= width:
        return [indent + text]
    first, *others = _filled(text, Room(width - len(hanging), len(indent) - len(hanging)), _LEVELS)
    return [indent + first, *(hanging + line for line in others)]


def paragraphs(texts: Iterable[str], width: int | None) -> str:
    """Each text from the start of a line on, its further lines indented."""
    return "\n".join(line for text in texts for line in fold(text, width, "", "  "))


def longest(text: str) -> int:
    """How long the longest part is that has to stay on one line if that is possible."""
    return max(map(len, _units(text)))


class Room(NamedTuple):
    """``used`` are the characters of the first line that are taken."""

    width: int
    used: int


class Level(NamedTuple):
    """How text is divided. A part that does not fit on a line is divided on, unless so much of the line is used and the part fits on the next."""

    divide: Callable[[str], list[str]]
    used: float


def _units(text: str) -> list[str]:
    """The words, each number together with what it counts."""
    found: list[str] = []
    bound = False
    for word in text.split(" "):
        if bound:
            found[-1] += f" {word}"
        else:
            found.append(word)
        bound = bool(_BOUND.fullmatch(word))
    return found


_LEVELS = (
    Level(lambda text: re.split("(?<=;) ", text), 0),
    Level(_BETWEEN_ITEMS.split, 0.5),
    Level(_units, 0),
    Level(lambda text: text.split(" "), 0),
)


def _filled(text: str, room: Room, levels: tuple[Level, ...]) -> list[str]:
    level, finer = levels[0], levels[1:]
    lines, used = [""], room.used
    for part in level.divide(text):
        blank = " " if lines[-1] else ""
        if used + len(blank + part) <= room.width:
            lines[-1] += blank + part
        elif finer and (len(part) > room.width or used < level.used * room.width):
            first, *others = _filled(part, Room(room.width, used + len(blank)), finer)
            lines[-1] += blank + first if first else ""
            lines += others
        else:
            lines += [part] if lines[-1] or used else []
            lines[-1] = part
        used = len(lines[-1]) + (room.used if len(lines) == 1 else 0)
    return lines
