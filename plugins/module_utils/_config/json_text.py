# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edits of JSON text that touch one member and leave every other byte alone.

The values are read by ``json``; here is only the walk over the members of one object or list, for where they stand.
All functions expect text that ``json.loads`` has accepted.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Sequence

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


class Item(NamedTuple):
    """One member of an object, or one element of a list (then without a key)."""

    key: str | None
    start: int
    value_at: int
    end: int
    value: Any


class Container(NamedTuple):
    """An object or a list: the places of its brackets and what is between."""

    open: int
    close: int
    items: list[Item]

    def find(self, key: str) -> Item | None:
        return next((item for item in self.items if item.key == key), None)


class Style(NamedTuple):
    """How the document is laid out. ``indent`` None: all in one line."""

    eol: str
    indent: str | None
    colon: str
    comma: str

    def render(self, value: Any, depth: int) -> str:
        """The JSON of a value whose own line is indented ``depth`` times."""
        text = json.dumps(value, indent=self.indent, separators=(self.comma, self.colon), ensure_ascii=False)
        return text if self.indent is None else text.replace("\n", self.eol + self.indent * depth)


class Place(NamedTuple):
    """A container in its text, and how the document is laid out there."""

    text: str
    box: Container
    style: Style
    depth: int  # of the container's members

    @property
    def tail(self) -> str:
        """The blanks before the bracket that closes it, where its members have lines of their own."""
        return self.style.eol + self.style.indent * (self.depth - 1) if self.style.indent is not None else ""


def _skip(text: str, at: int) -> int:
    return _BLANK.match(text, at).end()


def scan(text: str, at: int = 0) -> Container:
    """The object or list that begins at the first non-blank from ``at``."""
    start = _skip(text, at)
    items = []
    here = _skip(text, start + 1)
    while text[here] not in "]}":
        item_start, key = here, None
        if text[start] == "{":
            key, here = _DECODER.raw_decode(text, here)
            here = _skip(text, _skip(text, here) + 1)  # over the colon
        value, end = _DECODER.raw_decode(text, here)
        items.append(Item(key, item_start, here, end, value))
        here = _skip(text, end)
        if text[here] == ",":
            here = _skip(text, here + 1)
    return Container(start, here, items)


def style_of(text: str, box: Container) -> Style:
    """The style of a document, read from its first member; four blanks where there is none."""
    eol = "\r\n" if "\r\n" in text else "\n"
    if not box.items:
        return Style(eol, "    ", ": ", ",")
    first = box.items[0]
    gap = text[box.open + 1 : first.start]
    # Between key and value: ": ", ":" or " : ".
    key_end = _DECODER.raw_decode(text, first.start)[1]
    colon = text[key_end : first.value_at] if "\n" not in text[key_end : first.value_at] else ": "
    if "\n" in gap:
        return Style(eol, gap.rsplit("\n", 1)[1], colon, ",")
    return Style(eol, None, colon, "," if colon == ":" else ", ")


def style_within(text: str, box: Container, style: Style) -> Style:
    """The style for an object inside: one that stands in one line stays in one line."""
    if style.indent is None or not box.items or "\n" in text[box.open : box.items[0].start]:
        return style
    return style._replace(indent=None, comma=", ")


def _gap(place: Place) -> str:
    """The blanks before a further item, by the example of the last one."""
    text, box, style = place.text, place.box, place.style
    if not box.items:
        return style.eol + style.indent * place.depth if style.indent is not None else ""
    before = box.open if len(box.items) == 1 else text.index(",", box.items[-2].end)
    gap = text[before + 1 : box.items[-1].start]
    if "\n" in gap:
        return style.eol + gap.rsplit("\n", 1)[1]
    return gap if len(box.items) > 1 else style.comma[1:] or ("" if style.colon == ":" else " ")


def put(place: Place, key: str, raw: str) -> str:
    """The text with ``key: raw`` in the object: in its place, or at the end."""
    text, box = place.text, place.box
    item = box.find(key)
    if item:
        return text[: item.value_at] + raw + text[item.end :]
    member = _gap(place) + json.dumps(key, ensure_ascii=False) + place.style.colon + raw
    if box.items:
        end = box.items[-1].end
        return text[:end] + "," + member + text[end:]
    return text[: box.open + 1] + member + place.tail + text[box.close :]


def remove(text: str, box: Container, key: str) -> str:
    """The text without the member; undoes ``put``."""
    item = box.find(key)
    at = box.items.index(item)
    if len(box.items) == 1:
        return text[: box.open + 1] + text[box.close :]
    if item is box.items[-1]:
        return text[: box.items[at - 1].end] + text[item.end :]
    return text[: item.start] + text[box.items[at + 1].start :]


def join(place: Place, raws: Sequence[str]) -> str:
    """A list made of the raw elements, laid out like the list that is there."""
    if not raws:
        return "[]"
    text, box, style = place.text, place.box, place.style
    first = gap = _gap(place)
    if box.items:
        first, tail = text[box.open + 1 : box.items[0].start], text[box.items[-1].end : box.close]
    elif style.indent is not None:
        tail = place.tail
    else:
        gap, tail = style.comma[1:], ""
    return "[" + first + ("," + gap).join(raws) + tail + "]"
