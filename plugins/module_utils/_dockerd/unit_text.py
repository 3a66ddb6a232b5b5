# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads unit files as systemd does, and keeps the place of each word in the file (pure).

The rules are the same as in systemd 252 to 257 (src/shared/conf-parser.c, src/basic/extract-word.c). A line that ends in a backslash continues on the
next line. A comment between two such lines is skipped. A byte order mark is skipped too. Single words can be removed and put back. Every other byte
stays unchanged. Private to this collection; it may change without notice.
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
# The separator between two commands of one setting, and the escaped form, which is an ordinary word.
_SEPARATOR, _SEMICOLON = re.compile(r";(?=[ \t\n\r]|\Z)"), re.compile(r"\\;(?=[ \t\n\r]|\Z)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ", "\\": "\\", '"': '"', "'": "'"}
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3})")

# escape(text, index of a backslash) returns the character and the length of the escape; None if systemd does not know the escape.
Escape = Callable[[str, int], Optional[Tuple[str, int]]]


class Value(NamedTuple):
    """A text that systemd has parsed, and the place of each of its characters in the file."""

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
    """A variable that a file sets. ``at`` is the place where a first word can be inserted. ``quoted`` says whether this place is between quotes."""

    name: str
    value: Value
    at: int
    quoted: bool


def settings(text: str) -> list[Setting]:
    """Return every assignment of a unit file, in order. systemd stops at a section whose bracket is not closed."""
    result, section = [], ""
    for line in _lines(text):
        stripped = _strip(line)
        if stripped.text.startswith("["):
            if not stripped.text.endswith("]"):
                break
            section = stripped.text[1:-1]
            continue
        name, equals, _value = stripped.text.partition("=")
        if equals:
            result.append(Setting(section, name.strip(BLANKS), _strip(_tail(stripped, len(name) + 1))))
    return result


def words(setting: Setting) -> list[Word]:
    """Return the words of a command. The list ends before a semicolon or before the first word that systemd cannot read."""
    value, position = setting.value, 0
    result: list[Word] = []
    while True:
        position = _skip_blanks(value.text, position)
        if position == len(value.text) or _SEPARATOR.match(value.text, position):
            return result
        if _SEMICOLON.match(value.text, position):
            word_and_end = Word(value.places[position][0], value.places[position + 1][1], ";", value.places[position : position + 1]), position + 2
        else:
            word_and_end = _word(value, position, _c_escape) or _word(value, position, _escape_or_text)
        if word_and_end is None:
            return result
        result.append(word_and_end[0])
        position = word_and_end[1]


def variables(text: str, setting: Setting) -> list[Variable]:
    """Return the variables that an ``Environment=`` sets."""
    result = []
    for word in _split(setting.value, _c_escape):
        name, equals, value = word.text.partition("=")
        if equals and NAME.match(name):
            position, quoted = word.places[len(name)][1], text[word.start] in QUOTES
            opens_quote = not quoted and position < word.end and text[position] in QUOTES
            result.append(Variable(name, Value(value, word.places[len(name) + 1 :]), position + opens_quote, quoted or opens_quote))
    return result


def words_of(variable: Variable) -> list[Word]:
    """Return the words that ``$NAME`` becomes in a command."""
    return list(_split(variable.value, _any_escape, relaxed=True))


def remove(text: str, line: Sequence[Word], chosen: Iterable[Word]) -> str:
    """Return the text without the ``chosen`` words of ``line`` and the blanks before these words. Comments between the words are kept."""
    for index in sorted((line.index(word) for word in chosen), reverse=True):
        start, end = line[index].start, line[index].end
        if index and _is_gap(text, line[index - 1].end, start):
            start = line[index - 1].end
        elif not index and len(line) > 1 and _is_gap(text, end, line[1].start):
            end = line[1].start
        text = text[:start] + text[end:]
    return text


def append(text: str, line: Sequence[Word], added: Iterable[str]) -> str:
    """Return the text with the words ``added`` after the words of ``line``. ``line`` must not be empty."""
    return text[: line[-1].end] + "".join(" " + word for word in added) + text[line[-1].end :]


def fill(text: str, variable: Variable, added: Iterable[str]) -> str:
    """Return the text with the words ``added`` as the value of a variable without a value."""
    value = " ".join(added)
    return text[: variable.at] + (value if variable.quoted else '"%s"' % value) + text[variable.at :]


def _is_gap(text: str, start: int, end: int) -> bool:
    """Return whether only blanks are between the two places, over any number of lines."""
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
            yield _join(parts)
            parts = []
    if parts:
        yield _join(parts)


def _join(parts: Sequence[Value]) -> Value:
    return parts[0] if len(parts) == 1 else Value("".join(part.text for part in parts), [place for part in parts for place in part.places])


def _places(start: int, end: int) -> list[tuple[int, int]]:
    return list(zip(range(start, end), range(start + 1, end + 1)))


def _tail(value: Value, at: int) -> Value:
    return Value(value.text[at:], value.places[at:])


def _strip(value: Value) -> Value:
    start, end = _skip_blanks(value.text, 0), len(value.text.rstrip(BLANKS))
    return Value(value.text[start:end], value.places[start:end])


# -- words -----------------------------------------------------------------------------------------------------------


def _split(value: Value, escape: Escape, relaxed: bool = False) -> Iterator[Word]:
    """Yield the words of a text, up to the first word that systemd cannot read. ``relaxed``: a quote need not be closed."""
    position = _skip_blanks(value.text, 0)
    while position < len(value.text):
        word_and_end = _word(value, position, escape, relaxed)
        if word_and_end is None:
            return
        yield word_and_end[0]
        position = _skip_blanks(value.text, word_and_end[1])


def _word(value: Value, begin: int, escape: Escape, relaxed: bool = False) -> tuple[Word, int] | None:
    """Return the word that begins at this place, and the end of the word; None if systemd cannot read it."""
    characters: list[tuple[str, tuple[int, int]]] = []
    position, quote = begin, ""
    while position < len(value.text):
        char, length = value.text[position], 1
        if char == "\\":
            escaped = escape(value.text, position)
            if escaped is None:
                return None
            length = escaped[1]
            characters += [(character, (value.places[position][0], value.places[position + length - 1][1])) for character in escaped[0]]
        elif char == quote:
            quote = ""
        elif quote or char not in BLANKS + QUOTES:
            characters.append((char, value.places[position]))
        elif char in QUOTES:
            quote = char
        else:
            break
        position += length
    if quote and not relaxed:
        return None
    text = "".join(char for char, dummy_place in characters)
    return Word(value.places[begin][0], value.places[position - 1][1], text, [place for dummy_char, place in characters]), position


def _c_escape(text: str, at: int) -> tuple[str, int] | None:
    char, code = text[at + 1 : at + 2], _CODE.match(text, at + 1)
    if char in _ESCAPES:
        return _ESCAPES[char], 2
    if code is None:
        return None
    number = int(code.group(code.lastindex), 8 if code.lastindex == 4 else 16)
    return (chr(number), 1 + len(code.group())) if 0 < number < 0x110000 else None


def _escape_or_text(text: str, at: int) -> tuple[str, int]:
    """Return the character of an escape in a command. An unknown escape stays unchanged."""
    return _c_escape(text, at) or (text[at : at + 2], len(text[at : at + 2]))


def _any_escape(text: str, at: int) -> tuple[str, int]:
    """Return the character of an escape in the value of a variable: the character after the backslash."""
    return text[at + 1 : at + 2], len(text[at : at + 2])


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at
