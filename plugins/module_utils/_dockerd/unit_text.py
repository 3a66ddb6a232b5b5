# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Command lines in systemd's unit files and environment files, as words with their places (pure).

Only what is needed to take single words out and to put them back: everything else stays byte for byte.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Iterable, Iterator, NamedTuple, Sequence

_LINE = re.compile(r"(?:[^\n\\]|\\\n|\\.)*(?:\n|\Z)")
_SECTION = re.compile(r"\s*\[([^\]]*)\]")
_SETTING = re.compile(r"[ \t]*([A-Za-z0-9_]+)[ \t]*=[ \t]*")
_GAP = r"(?:\s|\\\n)"
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_WORD = re.compile(r"(?:[^\s\"'\\]|\\[^\n]|%s)+" % _QUOTED)
_PLAIN_WORD = re.compile(r"[^\s\\]+")
_ASSIGNED = re.compile(r"[\"']?([A-Za-z_][A-Za-z0-9_]*)=")


class Setting(NamedTuple):
    """``NAME=value`` in a file: from ``start`` to ``end`` with its line break, the value from ``at`` to ``to``."""

    section: str
    name: str
    start: int
    end: int
    at: int
    to: int


class Word(NamedTuple):
    """One word of a command line; ``text`` without its quotes."""

    start: int
    end: int
    text: str


def settings(text: str) -> list[Setting]:
    """Every assignment of a unit file or an environment file, in order. Comments and blank lines are none."""
    found, section, at = [], "", 0
    while at < len(text):
        line = _LINE.match(text, at)
        end = max(line.end(), at + 1)
        head = _SECTION.match(text, at, end)
        setting = _SETTING.match(text, at, end)
        if head:
            section = head.group(1)
        elif setting:
            found.append(Setting(section, setting.group(1), at, end, setting.end(), at + len(text[at:end].rstrip())))
        at = end
    return [one._replace(to=max(one.to, one.at)) for one in found]


def words(text: str, setting: Setting) -> list[Word]:
    """The words of a command line."""
    return [Word(one.start(), one.end(), _unquoted(one.group())) for one in _WORD.finditer(text, setting.at, setting.to)]


def variables(text: str, setting: Setting) -> dict[str, Sequence[Word]]:
    """{name: its words} of what an ``Environment=`` sets."""
    return {name: _inside(text, start, end) for name, start, end in _assignments(text, setting)}


def variable(text: str, setting: Setting) -> Sequence[Word]:
    """The words of a variable that an environment file sets."""
    start, end = _within_quotes(text, setting.at, setting.to)
    return _inside(text, start, end)


def remove(text: str, line: Sequence[Word], chosen: Iterable[Word]) -> str:
    """The text without the ``chosen`` of the words ``line``, and without the blanks before each of them."""
    for here in sorted((line.index(one) for one in chosen), reverse=True):
        start = line[here - 1].end if here else line[here].start
        end = line[here].end
        if not here:
            end = re.compile(r"%s*" % _GAP).match(text, end, line[1].start).end() if len(line) > 1 else end
        text = text[:start] + text[end:]
    return text


def append(text: str, line: Sequence[Word], added: Iterable[str]) -> str:
    """The text with the words ``added`` behind those of ``line``, which is not empty."""
    return text[: line[-1].end] + "".join(" " + one for one in added) + text[line[-1].end :]


def fill(text: str, setting: Setting, added: Iterable[str]) -> str:
    """The text with the words ``added`` as the value of a variable that has none."""
    start, end = _within_quotes(text, setting.at, setting.to)
    value = " ".join(added)
    return text[:start] + (value if start > setting.at else '"%s"' % value) + text[end:]


def _unquoted(raw: str) -> str:
    return re.sub(r"\\(.)", r"\1", re.sub(r"[\"']", "", raw)) if re.search(r"[\"'\\]", raw) else raw


def _assignments(text: str, setting: Setting) -> Iterator[tuple[str, int, int]]:
    for one in _WORD.finditer(text, setting.at, setting.to):
        name = _ASSIGNED.match(one.group())
        if name:
            # Either quote: "NAME=a b" or NAME="a b".
            quoted = one.group()[0] in "\"'"
            start, end = one.start() + name.end(), one.end() - quoted
            yield (name.group(1),) + (_within_quotes(text, start, end) if not quoted else (start, end))


def _within_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    return (start + 1, end - 1) if end - start > 1 and text[start] in "\"'" and text[end - 1] == text[start] else (start, end)


def _inside(text: str, start: int, end: int) -> Sequence[Word]:
    return [Word(one.start(), one.end(), one.group()) for one in _PLAIN_WORD.finditer(text, start, end)]
