# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plain-text table that a terminal, a log file and a README show alike.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...module_utils._printable import printable


def render(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell; columns of numbers stand to the right."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headings), *cells]) for i in range(len(headings))]
    right = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        return "  ".join(parts).rstrip()

    return "\n".join([line(headings), "  ".join("─" * width for width in widths), *(line(row) for row in cells)])
