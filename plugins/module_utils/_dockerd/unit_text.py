# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads unit files as systemd does, and keeps the place of each word in the file (pure).

The rules are those of systemd 252 to 257 (src/shared/conf-parser.c, src/basic/extract-word.c). A backslash at the end of a line goes on with the
next line, a comment between two such lines is skipped, and a byte order mark is too. Only what is needed to take single words out and to put
them back: everything else stays byte for byte. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Callable, Iterable, Iterator, NamedTuple, Optional, Sequence, Tuple

BLANKS = " \t\n\r"
QUOTES = "\"'"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LINE = re.compile(r"([^\n\r\0]*)(\n\r?|\r\n?|\0|\Z)")
_COMMENT = re.compile(r"[ \t]*[#;]")
_BOM = "\ufeff"
_GAP = re.compile(r"[ \t\n\r\\]*")
# The separator between two commands of one setting, and the same character as a word.
_SEPARATOR, _SEMICOLON = re.compile(r";(?=[ \t\n\r]|\Z)"), re.compile(r"\\;(?=[ \t\n\r]|\Z)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3})")

# escape(text, place of a backslash) returns the character and how many characters the escape has; None if systemd knows no such escape.
Escape = Callable[[str, int], Optional[Tuple[str, int]]]


class Value(NamedTuple):
    """A text as systemd reads it, and the place of each of its characters in the file."""

    text: str
    places: Sequence[tuple[int, int]]


class Setting(NamedTuple):
    """``NAME=value`` in a section of a file."""

    section: str
    name: str
    value: Value


class Word(NamedTuple):
    """One word of a command line: its place in the file, its text without quotes and escapes, and the place of each character."""

    start: int
    end: int
    text: str
    places: Sequence[tuple[int, int]] = ()


class Variable(NamedTuple):
    """A variable that a file sets. ``at`` is the place for a first word; ``quoted`` says whether that is between quotes."""

    name: str
    value: Value
    at: int
    quoted: bool


def settings(text: str) -> list[Setting]:
    """Return every assignment of a unit file, in order. systemd stops at a section whose bracket is not closed."""
    found, section = [], ""
    for line in _lines(text):
        stripped = _stripped(line)
        if stripped.text.startswith("["):
            if not stripped.text.endswith("]"):
                break
            section = stripped.text[1:-1]
            continue
        name, equals, _value = stripped.text.partition("=")
        if equals:
            found.append(Setting(section, name.strip(BLANKS), _stripped(_from(stripped, len(name) + 1))))
    return found


def words(setting: Setting) -> list[Word]:
    """Return the words of a command, up to the semicolon that ends it or the first word that systemd cannot read."""
    value, here = setting.value, 0
    found: list[Word] = []
    while True:
        here = _skipped(value.text, here)
        if here == len(value.text) or _SEPARATOR.match(value.text, here):
            return found
        if _SEMICOLON.match(value.text, here):
            came = Word(value.places[here][0], value.places[here + 1][1], ";", value.places[here : here + 1]), here + 2
        else:
            came = _word(value, here, _c_escape) or _word(value, here, _lenient)
        if came is None:
            return found
        found.append(came[0])
        here = came[1]


def variables(text: str, setting: Setting) -> list[Variable]:
    """Return the variables that an ``Environment=`` sets."""
    found = []
    for word in _split(setting.value, _c_escape):
        name, equals, value = word.text.partition("=")
        if equals and NAME.match(name):
            at, quoted = word.places[len(name)][1], text[word.start] in QUOTES
            opened = not quoted and at < word.end and text[at] in QUOTES
            found.append(Variable(name, Value(value, word.places[len(name) + 1 :]), at + opened, quoted or opened))
    return found


def words_of(variable: Variable) -> list[Word]:
    """Return the words that ``$NAME`` becomes in a command."""
    return list(_split(variable.value, _plain, relaxed=True))


def remove(text: str, line: Sequence[Word], chosen: Iterable[Word]) -> str:
    """Return the text without the ``chosen`` words of ``line`` and the blanks before them. Comments between them stay."""
    for here in sorted((line.index(one) for one in chosen), reverse=True):
        start, end = line[here].start, line[here].end
        if here and _is_gap(text, line[here - 1].end, start):
            start = line[here - 1].end
        elif not here and len(line) > 1 and _is_gap(text, end, line[1].start):
            end = line[1].start
        text = text[:start] + text[end:]
    return text


def append(text: str, line: Sequence[Word], added: Iterable[str]) -> str:
    """Return the text with the words ``added`` after those of ``line``, which is not empty."""
    return text[: line[-1].end] + "".join(" " + one for one in added) + text[line[-1].end :]


def fill(text: str, variable: Variable, added: Iterable[str]) -> str:
    """Return the text with the words ``added`` as the value of a variable that has none."""
    value = " ".join(added)
    return text[: variable.at] + (value if variable.quoted else '"%s"' % value) + text[variable.at :]


def _is_gap(text: str, start: int, end: int) -> bool:
    """Return whether only blanks are between them, over any number of lines."""
    return bool(_GAP.fullmatch(text, start, end))


# -- lines -----------------------------------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[Value]:
    """Yield each line together with its continuation lines."""
    parts: list[Value] = []
    marked = False
    for match in _LINE.finditer(text):
        start, end = match.span(1)
        if _COMMENT.match(text, start, end):
            continue
        if not marked and text.startswith(_BOM, start):
            start, marked = start + 1, True
        line = text[start:end]
        continued = (len(line) - len(line.rstrip("\\"))) % 2
        parts.append(Value(line[:-1] + " " if continued else line, _places(start, end)))
        if not continued:
            yield _joined(parts)
            parts = []
    if parts:
        yield _joined(parts)


def _joined(parts: Sequence[Value]) -> Value:
    return parts[0] if len(parts) == 1 else Value("".join(one.text for one in parts), [place for one in parts for place in one.places])


def _places(start: int, end: int) -> list[tuple[int, int]]:
    return list(zip(range(start, end), range(start + 1, end + 1)))


def _from(value: Value, at: int) -> Value:
    return Value(value.text[at:], value.places[at:])


def _stripped(value: Value) -> Value:
    start, end = _skipped(value.text, 0), len(value.text.rstrip(BLANKS))
    return Value(value.text[start:end], value.places[start:end])


# -- words -----------------------------------------------------------------------------------------------------------


def _split(value: Value, escape: Escape, relaxed: bool = False) -> Iterator[Word]:
    """Return the words of a text, up to the first that systemd cannot read. ``relaxed``: a quote need not be closed."""
    here = _skipped(value.text, 0)
    while here < len(value.text):
        came = _word(value, here, escape, relaxed)
        if came is None:
            return
        yield came[0]
        here = _skipped(value.text, came[1])


def _word(value: Value, begin: int, escape: Escape, relaxed: bool = False) -> tuple[Word, int] | None:
    """Return the word that begins at this place, and where it ends; None if systemd cannot read it."""
    found: list[tuple[str, tuple[int, int]]] = []
    here, quote = begin, ""
    while here < len(value.text):
        char, taken = value.text[here], 1
        if char == "\\":
            came = escape(value.text, here)
            if came is None:
                return None
            taken = came[1]
            found += [(one, (value.places[here][0], value.places[here + taken - 1][1])) for one in came[0]]
        elif char == quote:
            quote = ""
        elif quote or char not in BLANKS + QUOTES:
            found.append((char, value.places[here]))
        elif char in QUOTES:
            quote = char
        else:
            break
        here += taken
    if quote and not relaxed:
        return None
    text = "".join(char for char, dummy_place in found)
    return Word(value.places[begin][0], value.places[here - 1][1], text, [place for dummy_char, place in found]), here


def _c_escape(text: str, at: int) -> tuple[str, int] | None:
    char, code = text[at + 1 : at + 2], _CODE.match(text, at + 1)
    if char in _ESCAPES:
        return _ESCAPES[char], 2
    if code is None:
        return None
    number = int(code.group(code.lastindex), 8 if code.lastindex == 4 else 16)
    return (chr(number), 1 + len(code.group())) if 0 < number < 0x110000 else None


def _lenient(text: str, at: int) -> tuple[str, int]:
    """Read an escape in a command. An unknown escape stays unchanged."""
    return _c_escape(text, at) or (text[at : at + 2], len(text[at : at + 2]))


def _plain(text: str, at: int) -> tuple[str, int]:
    """Read an escape in the value of a variable: it is the character after the backslash."""
    return text[at + 1 : at + 2], len(text[at : at + 2])


def _skipped(text: str, at: int) -> int:
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at
