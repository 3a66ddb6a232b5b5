# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders plain-text tables that look the same in a terminal, a log file and a README.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple, Sequence

from .._printable import printable
from .fold import fold, longest_unit

GAP, NOTHING = "  ", "–"
# The least width of a folded column. If the terminal is too narrow for this width, each row becomes a block of lines.
MIN_COLUMN = 20


class Table(NamedTuple):
    """The lines of the header and of each row."""

    head: list[str]
    rows: list[list[str]]

    def size(self, width: int) -> tuple[int, int]:
        """Return how many lines are wider than the terminal, and how many lines the rows have. The smaller table is easier to read."""
        return sum(len(line) > width for lines in [self.head, *self.rows] for line in lines), sum(map(len, self.rows))


def render(headings: Sequence[str], rows: Sequence[Sequence[object]], width: int | None) -> str:
    """Return the table as text. Columns are padded to their widest cell, and numbers are aligned right. ``width`` is the width of the terminal."""
    table = layout(headings, rows, width)
    return "\n".join([*table.head, *(line for row in table.rows for line in row)])


def layout(headings: Sequence[str], rows: Sequence[Sequence[object]], width: int | None) -> Table:
    """Lay out the table. If the table is wider than ``width``, fold its widest columns, or print each row as a block of lines if this is shorter."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    blocks = Table([], [_block(headings, row, width) for row in cells]) if width else None
    limits = _limits(list(zip(headings, *cells)), width)
    if blocks and not limits:
        return blocks
    head, *folded = [[fold(cell, limit) for cell, limit in zip(row, limits)] for row in [headings, *cells]]
    widths = [max(len(line) for row in [head, *folded] for line in row[i]) for i in range(len(headings))]
    align_right = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, align_right)]
        return GAP.join(parts).rstrip()

    def whole(row: Sequence[list[str]]) -> list[str]:
        return [line(parts) for parts in zip_longest(*row, fillvalue="")]

    table = Table([*whole(head), GAP.join("─" * column_width for column_width in widths)], [whole(row) for row in folded])
    return blocks if blocks and width and blocks.size(width) < table.size(width) else table


def _limits(columns: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """Return the greatest width of each column, or [] if the table does not fit. The widest columns shrink first, but no name in them is split."""
    maximum = [max(map(len, column)) for column in columns]
    room = (width or sum(maximum) + len(GAP) * len(maximum)) - len(GAP) * (len(maximum) - 1)
    minimum = [_min_width(column, room) for column in columns]
    capped = ([max(low, min(wide, cap)) for low, wide in zip(minimum, maximum)] for cap in range(max(maximum), -1, -1))
    return next((limits for limits in capped if sum(limits) <= room), [])


def _min_width(column: Sequence[str], room: int) -> int:
    """Return the least width of a column that does not divide its names. A name that is too long for any table sticks out of its column."""
    heading, *cells = column
    longest = max(map(len, cells), default=0)
    return max(longest_unit(heading), min(longest, max([MIN_COLUMN, *(long for cell in cells if (long := longest_unit(cell)) <= room)])))


def _block(headings: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return a row as a block of lines: the first cell, and below this cell the other cells, several on a line."""
    (_heading, first), *rest = zip(headings, row)
    lines, beside = fold(f"{headings[0]}: {first}", width, "", GAP * 2), False
    for text in (f"{heading}: {cell}" for heading, cell in rest if cell not in ("", NOTHING)):
        if beside and len(lines[-1] + GAP + text) <= width:
            lines[-1] += GAP + text
            continue
        added = fold(text, width, GAP, GAP * 2)
        lines += added
        beside = len(added) == 1
    return lines
