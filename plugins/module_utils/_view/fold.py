# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Folds text into lines that fit the terminal (pure).

A line breaks only at a blank, so that names of nodes, GPUs, services and images can be copied. Python's textwrap also breaks at hyphens. A word that
is longer than a line is not divided and gets its own line.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, NamedTuple

from .._printable import printable_lines

_PARENTHESIS = re.compile(r"[()]")
# A word of this form stays on one line with the next word: 8 NVIDIA-GPU, 2 × 79.6 GiB.
_JOINS_NEXT = re.compile(r"[(+−]?\d[\d.]*|[×→+≥]")


def fold(text: str, width: int | None, indent: str = "", hanging: str = "") -> list[str]:
    """Return lines of at most ``width`` characters. ``indent`` is the indentation of the first line, ``hanging`` of the other lines. Without a width,
    return one line.
    """
    if not width or len(indent) + len(text) <= width:
        return [indent + text]
    first, *rest = _fill(text, Room(width - len(hanging), len(indent) - len(hanging)), _LEVELS)
    return [indent + first, *(hanging + line for line in rest)]


def fold_text(text: str, width: int) -> str:
    """Return the text in lines of at most ``width`` characters, without escape codes. Each line keeps its indentation."""
    lines = [(line.lstrip(" "), " " * (len(line) - len(line.lstrip(" ")))) for line in printable_lines(text).split("\n")]
    return "\n".join(part for line, indent in lines for part in fold(line, width, indent, f"{indent}  "))


def paragraphs(texts: Iterable[str], width: int | None) -> str:
    """Return the texts, each on a new line. The further lines of a text are indented."""
    return "\n".join(line for text in texts for line in fold(text, width, "", "  "))


def longest_unit(text: str) -> int:
    """Return the length of the longest part that should stay on one line."""
    return max(map(len, _units(text)))


class Room(NamedTuple):
    """The space for a text: ``width`` characters for each line. On the first line, ``used`` characters are taken."""

    width: int
    used: int


class Level(NamedTuple):
    """One way to divide text. A part that does not fit is divided by the next level.

    If the part fits on a new line, and at least the share ``used`` of the current line is full, the part goes on a new line instead.
    """

    divide: Callable[[str], list[str]]
    used: float


def _items(text: str) -> list[str]:
    """Return the items of a list, each with its comma. A comma inside parentheses does not end an item."""
    *items, last = text.split(", ")
    found: list[list[str]] = []  # the parts of each item, from the end of the text to its beginning
    is_inside = False  # whether the end of the next part is inside parentheses
    for part in [last, *(item + "," for item in reversed(items))]:
        if found and is_inside:
            found[-1].append(part)
        else:
            found.append([part])
        parenthesis = _PARENTHESIS.search(part)
        is_inside = parenthesis.group() == ")" if parenthesis else is_inside
    return [" ".join(reversed(parts)) for parts in reversed(found)]


def _units(text: str) -> list[str]:
    """Return the words of a text. A number and the word after it are one unit."""
    units: list[str] = []
    joins_next = False
    for word in text.split(" "):
        if joins_next:
            units[-1] += f" {word}"
        else:
            units.append(word)
        joins_next = bool(_JOINS_NEXT.fullmatch(word))
    return units


_LEVELS = (
    Level(lambda text: re.split("(?<=;) ", text), 0),
    Level(_items, 0.5),
    Level(_units, 0),
    Level(lambda text: text.split(" "), 0),
)


def _fill(text: str, room: Room, levels: tuple[Level, ...]) -> list[str]:
    level, finer = levels[0], levels[1:]
    lines, used = [""], room.used
    for part in level.divide(text):
        blank = " " if lines[-1] else ""
        if used + len(blank + part) <= room.width:
            lines[-1] += blank + part
        elif finer and (len(part) > room.width or used < level.used * room.width):
            first, *rest = _fill(part, Room(room.width, used + len(blank)), finer)
            lines[-1] += blank + first if first else ""
            lines += rest
        else:
            lines += [part] if lines[-1] or used else []
            lines[-1] = part
        used = len(lines[-1]) + (room.used if len(lines) == 1 else 0)
    return lines
