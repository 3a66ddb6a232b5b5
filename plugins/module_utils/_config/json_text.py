# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edits one member of a JSON text. Every other byte stays unchanged.

This file only finds the positions of members; ``json`` reads the values. All functions need text that ``json.loads`` accepts.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Sequence

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")


class Item(NamedTuple):
    """One member of an object, or one element of a list, which has no key."""

    key: str | None
    start: int
    value_at: int
    end: int
    value: Any


class Container(NamedTuple):
    """An object or a list: the positions of its brackets, and its items."""

    open: int
    close: int
    items: list[Item]

    def find(self, key: str) -> Item | None:
        return next((item for item in self.items if item.key == key), None)


class Style(NamedTuple):
    """Line ends and indentation of the document. ``indent`` is None if the whole document is on one line."""

    eol: str
    indent: str | None
    colon: str
    comma: str

    def render(self, value: Any, depth: int) -> str:
        """Return the JSON text of a value. ``depth`` is how many times the first line of the value is indented."""
        text = json.dumps(value, indent=self.indent, separators=(self.comma, self.colon), ensure_ascii=False)
        return text if self.indent is None else text.replace("\n", self.eol + self.indent * depth)


class Place(NamedTuple):
    """A container, the whole text, and how to lay out new members of the container."""

    text: str
    box: Container
    style: Style
    depth: int  # how deep the container's members are nested

    @property
    def tail(self) -> str:
        """Return the blanks before the closing bracket, if the members have their own lines."""
        return self.style.eol + self.style.indent * (self.depth - 1) if self.style.indent is not None else ""


def _skip_blanks(text: str, at: int) -> int:
    return _BLANK.match(text, at).end()


def scan(text: str, at: int = 0) -> Container:
    """Return the object or list that starts at the first non-blank after ``at``."""
    start = _skip_blanks(text, at)
    items = []
    position = _skip_blanks(text, start + 1)
    while text[position] not in "]}":
        item_start, key = position, None
        if text[start] == "{":
            key, position = _DECODER.raw_decode(text, position)
            position = _skip_blanks(text, _skip_blanks(text, position) + 1)  # skip the colon
        value, end = _DECODER.raw_decode(text, position)
        items.append(Item(key, item_start, position, end, value))
        position = _skip_blanks(text, end)
        if text[position] == ",":
            position = _skip_blanks(text, position + 1)
    return Container(start, position, items)


def style_of(text: str, box: Container) -> Style:
    """Return the style of a document, from its first member. Without members, the indent is four blanks."""
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
    """Return the style for an inner object. An object on one line stays on one line."""
    if style.indent is None or not box.items or "\n" in text[box.open : box.items[0].start]:
        return style
    return style._replace(indent=None, comma=", ")


def _blanks_before_item(place: Place) -> str:
    """Return the blanks before a new item, copied from the last item."""
    text, box, style = place.text, place.box, place.style
    if not box.items:
        return style.eol + style.indent * place.depth if style.indent is not None else ""
    before = box.open if len(box.items) == 1 else text.index(",", box.items[-2].end)
    gap = text[before + 1 : box.items[-1].start]
    if "\n" in gap:
        return style.eol + gap.rsplit("\n", 1)[1]
    return gap if len(box.items) > 1 else style.comma[1:] or ("" if style.colon == ":" else " ")


def set_member(place: Place, key: str, raw: str) -> str:
    """Return the text with ``key: raw`` in the object. A new key is added at the end."""
    text, box = place.text, place.box
    item = box.find(key)
    if item:
        return text[: item.value_at] + raw + text[item.end :]
    member = _blanks_before_item(place) + json.dumps(key, ensure_ascii=False) + place.style.colon + raw
    if box.items:
        end = box.items[-1].end
        return text[:end] + "," + member + text[end:]
    return text[: box.open + 1] + member + place.tail + text[box.close :]


def remove_member(text: str, box: Container, key: str) -> str:
    """Return the text without the member."""
    item = box.find(key)
    at = box.items.index(item)
    if len(box.items) == 1:
        return text[: box.open + 1] + text[box.close :]
    if item is box.items[-1]:
        return text[: box.items[at - 1].end] + text[item.end :]
    return text[: item.start] + text[box.items[at + 1].start :]


def format_list(place: Place, raws: Sequence[str]) -> str:
    """Return the JSON text of a list with the elements ``raws``, in the same layout as the list at ``place``."""
    if not raws:
        return "[]"
    text, box, style = place.text, place.box, place.style
    first = gap = _blanks_before_item(place)
    if box.items:
        first, tail = text[box.open + 1 : box.items[0].start], text[box.items[-1].end : box.close]
    elif style.indent is not None:
        tail = place.tail
    else:
        gap, tail = style.comma[1:], ""
    return "[" + first + ("," + gap).join(raws) + tail + "]"
