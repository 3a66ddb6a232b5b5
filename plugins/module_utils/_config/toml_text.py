# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edits of TOML text that touch one line and leave comments, order and every other byte alone.

This is no parser: it only finds where statements begin and end (strings and lists over several lines included) and
what they are called. Whoever edits has a real parser confirm the result.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import re
from typing import Iterator, NamedTuple

# Strings are matched whole, so that nothing inside of one is taken for a bracket, a comment or the end of a line.
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
_BLANK = re.compile(r"[ \t]*")


class Statement(NamedTuple):
    """``start`` is the beginning of its line, ``end`` stands after its newline.

    ``key`` is empty for a table's header and for a comment on a line of its own; these belong to ``table`` as keys do.
    """

    what: str  # "table", "key" or "comment"
    table: tuple[str, ...]
    key: tuple[str, ...]
    start: int
    end: int
    value_at: int
    value_end: int

    @property
    def name(self) -> tuple[str, ...]:
        return self.table + self.key


def statements(text: str) -> Iterator[Statement]:
    """All statements and whole-line comments in order."""
    table: tuple[str, ...] = ()
    start = 0
    while start < len(text):
        here = _BLANK.match(text, start).end()
        end, last = _extent(text, here)
        header, assignment = _TABLE.match(text, here), _ASSIGNMENT.match(text, here)
        if header:
            table = _parts(header.group(1))
            yield Statement("table", table, (), start, end, here, last)
        elif assignment:
            yield Statement("key", table, _parts(assignment.group(1)), start, end, assignment.end(), last)
        elif text.startswith("#", here):
            yield Statement("comment", table, (), start, end, here, end)
        start = end


def _extent(text: str, start: int) -> tuple[int, int]:
    """(where the statement's last line ends, where its last character is)."""
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
    return tuple(plain(part) for part in _ONE_PART.findall(name))


def plain(raw: str) -> str:
    """The text of a string as written; what is no string comes back as it is."""
    if raw.startswith("'"):
        return raw.strip("'")
    if not raw.startswith('"'):
        return raw
    try:
        return json.loads(raw)  # the escapes that TOML has beyond JSON's stay as they are written
    except ValueError:
        return raw.strip('"')


def eol_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def find(text: str, name: tuple[str, ...], what: str = "key") -> list[Statement]:
    """Every statement of that full name."""
    return [one for one in statements(text) if one.what == what and one.name == name]


def drop(text: str, statement: Statement) -> str:
    """The text without the statement's lines; a missing newline at the end stays missing."""
    before = text[: statement.start]
    if not text[statement.start : statement.end].endswith("\n"):
        before = before[:-2] if before.endswith("\r\n") else before[:-1]
    return before + text[statement.end :]


def put(text: str, name: tuple[str, ...], raw: str) -> str:
    """The text with ``name = raw``: in place, or else where a reader would expect it."""
    found = find(text, name)
    if found:
        return text[: found[0].value_at] + raw + text[found[0].value_end :]
    return insert(text, name, f"{name[-1]} = {raw}")


def insert(text: str, name: tuple[str, ...], line: str) -> str:
    """The text with this line for a key that it does not have."""
    table, eol = name[:-1], eol_of(text)
    anchor = _anchor(text, name)
    if anchor:
        return _insert_after(text, anchor, line, eol)
    if not table:
        return line + eol + text
    start = "" if not text or text.endswith("\n") else eol
    return text + start + eol + f"[{'.'.join(table)}]" + eol + line + eol


def commented(text: str, name: tuple[str, ...]) -> Statement | None:
    """The key's line where it is commented out, as a default is in a file that a program wrote; or None."""
    line = re.compile(rf"#[ \t]*{re.escape(name[-1])}[ \t]*=")
    found = (one for one in statements(text) if one.what == "comment" and one.table == name[:-1])
    return next((one for one in found if line.match(text, one.value_at)), None)


def _anchor(text: str, name: tuple[str, ...]) -> Statement | None:
    """The commented default of the key; else the last key at top level, or the table's header. Or None."""
    table = name[:-1]
    after = [one for one in statements(text) if one.table == table and one.what == ("table" if table else "key")]
    return commented(text, name) or (after[-1] if after else None)


def _insert_after(text: str, anchor: Statement, line: str, eol: str) -> str:
    indent = _BLANK.match(text, anchor.start).group()
    if text[anchor.start : anchor.end].endswith("\n"):
        return text[: anchor.end] + indent + line + eol + text[anchor.end :]
    return text[: anchor.end] + eol + indent + line + text[anchor.end :]
