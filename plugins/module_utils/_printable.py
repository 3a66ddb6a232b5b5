# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes text safe for a terminal or a log (pure).

Characters that move the cursor, hide text or change its direction are shown as escapes, such as ``\\x1b[2K`` or ``\\u202e``. Otherwise a name that a
node reports could imitate other lines of the run. Making a text printable twice changes nothing more.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Sequence

NAMED = 5


def printable(text: str) -> str:
    """Return the text as one line, with escapes for unprintable characters and line breaks."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def printable_lines(text: str) -> str:
    """Return the text with escapes for unprintable characters. Line breaks and tabs stay."""
    return text if text.isprintable() else "".join(one if one.isprintable() or one in "\n\t" else _escape(one) for one in text)


def shortened(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first names of a list, and how many more there are."""
    more = ["and %d more" % (len(names) - NAMED)] if len(names) > NAMED else []
    return separator.join(list(names[:NAMED]) + more)


def _escape(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")
