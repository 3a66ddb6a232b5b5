# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Extracts a task's output from the frames in which a manager sends it (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import struct
from typing import Iterable, Iterator

from .._printable import printable

# The header of a part: its stream (1: stdout, 2: stderr, 3: an error of the manager), and its length.
_HEADER = struct.Struct(">BxxxI")
_SAID_BY_THE_MANAGER = 3


def printed(pieces: Iterable[bytes], framed: bool = True) -> Iterator[bytes]:
    """Yield the output in pieces. Raises ValueError if the manager could not read it. A terminal's output has no headers (``framed`` is False)."""
    if not framed:
        yield from pieces
        return
    for source, data in _parts(pieces):
        if source == _SAID_BY_THE_MANAGER:
            raise ValueError(printable(" ".join(data.decode("utf-8", "replace").split())))
        yield data


def _parts(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (stream, piece), wherever the answer is cut. A part may be of any length, so it is never held as a whole."""
    head, source, left = b"", 0, 0
    for piece in pieces:
        while piece:
            if left:
                now, piece = piece[:left], piece[left:]
                left -= len(now)
                yield source, now
                continue
            missing = _HEADER.size - len(head)
            head, piece = head + piece[:missing], piece[missing:]
            if len(head) == _HEADER.size:
                source, left = _HEADER.unpack(head)
                head = b""
    if left or head:
        raise ValueError("the manager broke it off")
