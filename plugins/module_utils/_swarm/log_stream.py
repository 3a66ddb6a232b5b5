# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Extracts a task's output from the frames in which a manager sends it (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import struct
from typing import Iterable, Iterator

from .._printable import printable

# The header of a part: its stream (1: stdout, 2: stderr, 3: an error of the manager), and its length.
_HEADER = struct.Struct(">BxxxI")
STDOUT, STDERR, _MANAGER_ERROR = 1, 2, 3


def task_output(pieces: Iterable[bytes], framed: bool = True) -> Iterator[bytes]:
    """Yield the output in pieces. Raises ValueError with the manager's error. The output of a terminal has no headers (``framed`` is False)."""
    return (data for _source, data in parts_of(pieces, framed))


def parts_of(pieces: Iterable[bytes], framed: bool = True) -> Iterator[tuple[int, bytes]]:
    """Yield (stream, data), with the stream STDOUT or STDERR. Raises ValueError as ``task_output`` does."""
    if not framed:
        yield from ((STDOUT, piece) for piece in pieces)
        return
    for source, data in _parts(pieces):
        if source == _MANAGER_ERROR:
            raise ValueError(printable(" ".join(data.decode("utf-8", "replace").split())))
        yield source, data


def _parts(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (stream, piece). A chunk may end within a header. A part may have any length, so this function never collects a whole part."""
    head, source, left = b"", 0, 0
    for piece in pieces:
        while piece:
            if left:
                data, piece = piece[:left], piece[left:]
                left -= len(data)
                yield source, data
                continue
            missing = _HEADER.size - len(head)
            head, piece = head + piece[:missing], piece[missing:]
            if len(head) == _HEADER.size:
                source, left = _HEADER.unpack(head)
                head = b""
    if left or head:
        raise ValueError("the manager's answer was cut off")
