# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plain-text table that a terminal, a log file and a README show alike.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from ...module_utils._printable import printable

GAP = "  "
# A column that is wrapped is at least so wide; else each cell has a line of its own.
LEAST = 20


class Table(NamedTuple):
    """The lines of the head, and of each row."""

    head: list[str]
    rows: list[list[str]]


def render(headings: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> str:
    """Columns padded to their widest cell; columns of numbers stand to the right."""
    table = lines(headings, rows, width)
    return "\n".join([*table.head, *(line for row in table.rows for line in row)])


def lines(headings: Sequence[str], rows: Sequence[Sequence[object]], width: int | None = None) -> Table:
    """The same by rows. What is wider than ``width`` has its last column wrapped, or where that is too narrow all cells one below the other."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headings), *cells]) for i in range(len(headings))]
    right = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headings))]
    before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
    if width and before + widths[-1] > width:
        if width - before < LEAST:
            return Table([], [_stacked(headings, row, width) for row in cells])
        widths[-1] = width - before

    def line(row: Sequence[str]) -> str:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        return GAP.join(parts).rstrip()

    def wrapped(row: Sequence[str]) -> list[str]:
        first, *others = textwrap.wrap(row[-1], widths[-1]) or [""]
        return [line([*row[:-1], first]), *(" " * before + other for other in others)]

    return Table([line(headings), GAP.join("─" * one for one in widths)], [wrapped(row) for row in cells])


def _stacked(headings: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    found: list[str] = []
    for heading, cell in zip(headings, row, strict=True):
        if cell:
            found += textwrap.wrap(f"{heading}: {cell}", width, initial_indent=GAP if found else "", subsequent_indent=GAP * 2)
    return found
