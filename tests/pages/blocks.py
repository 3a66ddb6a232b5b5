# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes tables in Markdown, and replaces the generated parts of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

BLOCK = re.compile(r"(<!-- python -m tests\.pages: (.+?) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def fill(text: str, generated: Mapping[str, str]) -> str:
    """Return the page with newly generated parts. A part without a generator is an error."""
    return BLOCK.sub(lambda block: block[1] + generated[block[2]] + block[3], text)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [headings, ("---",) * len(headings), *([cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows)]
    return "".join("| " + " | ".join(row) + " |\n" for row in cells)
