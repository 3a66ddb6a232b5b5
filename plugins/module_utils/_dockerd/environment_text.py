# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the files in a unit's ``EnvironmentFile=`` as systemd does, and keeps the place of each character (pure).

Another syntax than that of units (src/basic/env-file.c): a comment goes on with the next line where it ends in a backslash, but only before
systemd 254; a byte order mark makes the first name invalid. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Iterator

from .unit_text import BLANKS, NAME, QUOTES, Value, Variable

# Since this release of systemd, a comment ends with its line, even after a backslash.
COMMENTS_END = 254
_COMMENT = re.compile(r"[#;][^\n\r]*")
_LONG_COMMENT = re.compile(r"[#;](?:[^\\\n\r]|\\[\s\S])*\\?")
_AMBIGUOUS = re.compile(r"^[ \t]*[#;].*\\\r?$", re.MULTILINE)
_KEY = re.compile(r"[^=\n\r]*")
_ENDS = "\n\r"
# Before these characters, a backslash between double quotes is dropped.
_ESCAPED = "\"\\`$"


def depends_on_release(text: str) -> bool:
    """Return whether releases of systemd read this file differently."""
    return bool(_AMBIGUOUS.search(text))


def variables(text: str, comments_go_on: bool = False) -> list[Variable]:
    """Return the variables of the file, in order. ``comments_go_on``: read comments as before systemd 254."""
    comment, found, here = _LONG_COMMENT if comments_go_on else _COMMENT, [], 0
    while here < len(text):
        if text[here] in BLANKS:
            here += 1
        elif text[here] in "#;":
            here = comment.match(text, here).end()
        else:
            key = _KEY.match(text, here)
            here = key.end()
            if text[here : here + 1] == "=":
                variable, here = _variable(text, key.group().rstrip(BLANKS), here + 1)
                found += [variable] if NAME.match(variable.name) else []
    return found


def _variable(text: str, name: str, at: int) -> tuple[Variable, int]:
    """Return the variable whose value begins at this place, and the end of its line."""
    while at < len(text) and text[at] in " \t":
        at += 1
    quoted = text[at : at + 1] in QUOTES and at < len(text)
    value, end = _value(text, at)
    return Variable(name, value, at + quoted, quoted), end


def _value(text: str, here: int) -> tuple[Value, int]:
    """Quotes count only before the first other character. Blanks at the end do not belong to the value."""
    found: list[tuple[int, int, str]] = []
    kept, may_open = 0, True
    while here < len(text) and text[here] not in _ENDS:
        start, char = here, text[here]
        here += 1
        if may_open and char in QUOTES:
            came = list(_quoted(text, here, char))
            found += came[:-1]
            here = came[-1][1]
        elif char == "\\":
            may_open = False
            here += 1
            found += [(start, here, one) for one in text[start + 1 : here] if one not in _ENDS]
        elif char in BLANKS:
            found += [] if may_open else [(start, here, char)]
            continue
        else:
            may_open = False
            found.append((start, here, char))
        kept = len(found)
    found = found[:kept]
    return Value("".join(char for dummy_start, dummy_end, char in found), [(start, end) for start, end, dummy_char in found]), here


def _quoted(text: str, here: int, quote: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, character) up to and including the closing quote or the end of the file."""
    while here < len(text) and text[here] != quote:
        start, char = here, text[here]
        here += 1
        if quote == '"' and char == "\\" and here < len(text):
            char = text[here]
            here += 1
            if char not in _ESCAPED + "\n":
                yield start, here, "\\"
            if char == "\n":
                continue
        yield start, here, char
    yield here, min(here + 1, len(text)), ""
