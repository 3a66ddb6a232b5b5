# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the files that a unit names in ``EnvironmentFile=``, as systemd does, and keeps the place of each character (pure).

The syntax of these files differs from the syntax of units (src/basic/env-file.c). Before systemd 254, a comment that ends in a backslash continues on
the next line. A byte order mark makes the first name invalid. Private to this collection; it may change without notice.
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
# Between double quotes, systemd drops a backslash before these characters.
_ESCAPED = "\"\\`$"


def depends_on_release(text: str) -> bool:
    """Return whether releases of systemd read this file differently."""
    return bool(_AMBIGUOUS.search(text))


def variables(text: str, comments_continue: bool = False) -> list[Variable]:
    """Return the variables of the file, in order. ``comments_continue``: read comments as systemd before 254 does."""
    comment, result, position = _LONG_COMMENT if comments_continue else _COMMENT, [], 0
    while position < len(text):
        if text[position] in BLANKS:
            position += 1
        elif text[position] in "#;":
            position = comment.match(text, position).end()
        else:
            key = _KEY.match(text, position)
            position = key.end()
            if text[position : position + 1] == "=":
                variable, position = _variable(text, key.group().rstrip(BLANKS), position + 1)
                result += [variable] if NAME.match(variable.name) else []
    return result


def _variable(text: str, name: str, position: int) -> tuple[Variable, int]:
    """Return the variable whose value begins at this place, and the end of its line."""
    while position < len(text) and text[position] in " \t":
        position += 1
    quoted = text[position : position + 1] in QUOTES and position < len(text)
    value, end = _value(text, position)
    return Variable(name, value, position + quoted, quoted), end


def _value(text: str, position: int) -> tuple[Value, int]:
    """Return the value and its end. A quote is special only before the first other character. Blanks at the end do not belong to the value."""
    characters: list[tuple[int, int, str]] = []
    length, may_open = 0, True
    while position < len(text) and text[position] not in _ENDS:
        start, char = position, text[position]
        position += 1
        if may_open and char in QUOTES:
            quoted = list(_quoted(text, position, char))
            characters += quoted[:-1]
            position = quoted[-1][1]
        elif char == "\\":
            may_open = False
            position += 1
            characters += [(start, position, character) for character in text[start + 1 : position] if character not in _ENDS]
        elif char in BLANKS:
            characters += [] if may_open else [(start, position, char)]
            continue
        else:
            may_open = False
            characters.append((start, position, char))
        length = len(characters)
    characters = characters[:length]
    return Value("".join(char for dummy_start, dummy_end, char in characters), [(start, end) for start, end, dummy_char in characters]), position


def _quoted(text: str, position: int, quote: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, character) up to and including the closing quote or the end of the file."""
    while position < len(text) and text[position] != quote:
        start, char = position, text[position]
        position += 1
        if quote == '"' and char == "\\" and position < len(text):
            char = text[position]
            position += 1
            if char not in _ESCAPED + "\n":
                yield start, position, "\\"
            if char == "\n":
                continue
        yield start, position, char
    yield position, min(position + 1, len(text)), ""
