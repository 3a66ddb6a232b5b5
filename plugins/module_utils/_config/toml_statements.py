# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the statements of a TOML text and their positions (pure).

This code is not a full parser. In each valid file this code must find the same statements as NVIDIA's tools (pelletier/go-toml 1.9). The guard reads
config.toml with this code before each start of a container with a GPU. So this file imports neither typing nor json.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections import namedtuple

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Iterator

# The pattern matches a whole string, so that it ignores brackets, comment signs and line breaks inside the string.
_ATOM = re.compile(
    r'''
      (?P<string> """[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*"{3,5}
                | \'\'\'[^']*(?:'(?!\'\')[^']*)*'{3,5}
                | "[^"\\\n]*(?:\\.[^"\\\n]*)*"
                | '[^'\n]*' )
    | (?P<comment> \#[^\n]* )
    | (?P<newline> \n )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | [^"'\#\n\[\]{}]+
    | .
    ''',
    re.VERBOSE,
)
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\n]*')"""
_NAME = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_TABLE = re.compile(rf"\[\[?[ \t]*({_NAME})[ \t]*\]")
_ASSIGNMENT = re.compile(rf"({_NAME})[ \t]*=[ \t]*")
_ONE_PART = re.compile(_PART)
BLANK = re.compile(r"[ \t]*")
# The escapes of a basic string. In a multi-line string, a backslash at the end of a line removes the line break and the blanks after it.
_ESCAPE = r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([btnfre\"\\])|[ \t]*\r?\n\s*)"
_SINGLE_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}
_BOM = "\ufeff"

_Statement = namedtuple("_Statement", ["kind", "table", "key", "start", "end", "value_at", "value_end"])


class Statement(_Statement):
    """A statement of the text. ``kind`` is "table", "key" or "comment". ``start`` is the beginning of its line, ``end`` is after its newline.

    ``table`` and ``key`` are the parts of the names. ``key`` is empty for the header of a table and for a comment on its own line.
    """

    __slots__ = ()

    @property
    def name(self) -> tuple[str, ...]:
        return self.table + self.key


def statements(text: str) -> Iterator[Statement]:
    """Yield all statements and whole-line comments in order."""
    table: tuple[str, ...] = ()
    start = 0
    while start < len(text):
        position = BLANK.match(text, start + text.startswith(_BOM, start)).end()
        end, last = _extent(text, position)
        header, assignment = _TABLE.match(text, position), _ASSIGNMENT.match(text, position)
        if header:
            table = _parts(header.group(1))
            yield Statement("table", table, (), start, end, position, last)
        elif assignment:
            yield Statement("key", table, _parts(assignment.group(1)), start, end, assignment.end(), last)
        elif text.startswith("#", position):
            yield Statement("comment", table, (), start, end, position, end)
        start = end


def _extent(text: str, start: int) -> tuple[int, int]:
    """Return the end of the statement's last line, and the position after its last character."""
    depth, last = 0, start
    for atom in _ATOM.finditer(text, start):
        kind = atom.lastgroup
        if kind == "newline" and depth <= 0:
            return atom.end(), last
        depth += (kind == "open") - (kind == "close")
        if kind not in ("comment", "newline") and atom.group().strip():
            last = atom.start() + len(atom.group().rstrip())
    return len(text), last


def _parts(name: str) -> tuple[str, ...]:
    return tuple(unquote(part) for part in _ONE_PART.findall(name))


def keys(text: str) -> Iterator[Statement]:
    """Yield all keys with a value, including keys in inline tables."""
    for statement in statements(text):
        if statement.kind == "key":
            yield statement
            yield from inline_table_keys(text, statement)


def inline_table_keys(text: str, table: Statement) -> Iterator[Statement]:
    """Yield the keys of an inline table, such as ``{mode = "cdi"}``, and of tables inside it. Yields nothing for any other value."""
    if not text.startswith("{", table.value_at):
        return
    position, depth, last = table.value_at + 1, 0, table.value_at + 1
    for atom in _ATOM.finditer(text, position):
        kind, comma = atom.lastgroup, -1
        if kind is None and depth == 0:
            comma = text.find(",", atom.start(), atom.end())
        while comma >= 0:
            yield from _in_brace(text, table, position, comma)
            position = comma + 1
            comma = text.find(",", position, atom.end())
        depth += (kind == "open") - (kind == "close")
        if depth < 0:
            yield from _in_brace(text, table, position, atom.start())
            return
        last = atom.end()
    yield from _in_brace(text, table, position, last)


def _in_brace(text: str, table: Statement, start: int, end: int) -> Iterator[Statement]:
    assignment = _ASSIGNMENT.match(text, start + len(text[start:end]) - len(text[start:end].lstrip()), end)
    if assignment:
        statement = Statement("key", table.name, _parts(assignment.group(1)), table.start, table.end, assignment.end(), len(text[:end].rstrip()))
        yield statement
        yield from inline_table_keys(text, statement)


def strings_in(raw: str) -> list[str]:
    """Return the strings in a list, with their quotes."""
    return [atom.group() for atom in _ATOM.finditer(raw) if atom.lastgroup == "string"]


def unquote(raw: str) -> str:
    """Return the text of a quoted string. Any other value is returned unchanged."""
    for quotes in ('"""', "'''", '"', "'"):
        if raw.startswith(quotes) and len(raw) >= 2 * len(quotes) and raw.endswith(quotes):
            inside = raw[len(quotes) : -len(quotes)]
            if len(quotes) == 3:
                inside = re.sub(r"\A\r?\n", "", inside)
            return re.sub(_ESCAPE, _unescaped, inside) if quotes[0] == '"' and "\\" in inside else inside
    return raw


def _unescaped(match: re.Match[str]) -> str:
    digits = match.group(1) or match.group(2) or match.group(3)
    if digits:
        return chr(int(digits, 16)) if int(digits, 16) <= 0x10FFFF else match.group()
    return _SINGLE_ESCAPES.get(match.group(4), "")
