# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a JSON list object by object (pure). Takes chunks of bytes, yields objects, and never holds all objects at once.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any, Iterable, Iterator

# Parse pieces of about this many characters. Each piece ends within an object.
PIECE = 1 << 17

_GAP = re.compile(r"[ \t\r\n]*[\[,]?[ \t\r\n]*")


def objects(chunks: Iterable[bytes], piece: int = PIECE) -> Iterator[dict[str, Any]]:
    """Yield the list's objects. Raises ValueError if the text is not a list of objects, or is cut off."""
    decode = json.JSONDecoder().raw_decode
    text, at, longest = "", 0, 0
    for new_text, is_last in _pieces(chunks, piece):
        text, at = text[at:] + new_text, 0
        # If an object may be cut off, wait for more text and parse the object again. A search for the object's end would take longer.
        while is_last or len(text) - at > longest:
            start = _GAP.match(text, at).end()
            if not text.startswith("{", start):
                break
            try:
                value, at = decode(text, start)
            except ValueError:
                break  # the rest has not arrived yet; the end of this function raises an error if the text is cut off
            if at - start > longest:
                longest = at - start
            yield value
    if "".join(text[at:].split()) not in ("]", "[]", "null"):
        raise ValueError("it is not a list of objects, or it is cut off, at %s" % (text[at : at + 60] or "its beginning"))


def _pieces(chunks: Iterable[bytes], size: int) -> Iterator[tuple[str, bool]]:
    """Yield (a piece of text, whether it is the last one)."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    waiting, length = [], 0
    for chunk in chunks:
        waiting.append(decode(chunk))
        length += len(waiting[-1])
        if length >= size:
            yield "".join(waiting), False
            waiting, length = [], 0
    waiting.append(decode(b"", True))
    yield "".join(waiting), True
