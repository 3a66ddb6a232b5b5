# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text as it may go to a terminal or a log (pure).

What moves the cursor, hides text or turns its direction is shown as an escape, ``\\x1b[2K`` or ``\\u202e``: with it, a name that a node
reports could pass for other lines of the run. What is shown that way is not shown differently again.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Sequence

NAMED = 5


def printable(text: str) -> str:
    """One line."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def printable_lines(text: str) -> str:
    """The same with line breaks and tabs as they are."""
    return text if text.isprintable() else "".join(one if one.isprintable() or one in "\n\t" else _escape(one) for one in text)


def shortened(names: Sequence[str], separator: str = ", ") -> str:
    """The first of a list, and how many more there are."""
    more = ["and %d more" % (len(names) - NAMED)] if len(names) > NAMED else []
    return separator.join(list(names[:NAMED]) + more)


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
