# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes text safe for a terminal or a log (pure).

Characters that move the cursor, hide text or change its direction are shown as escapes, such as ``\\x1b[2K`` or ``\\u202e``. Without escapes, a name
that a node reports could imitate other lines of the run. A second call changes nothing.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Sequence

NAMED = 5  # how many names shortened() shows


def printable(text: str) -> str:
    """Return the text as one line, with escapes for unprintable characters and line breaks."""
    return text if text.isprintable() else "".join(character if character.isprintable() else _escape(character) for character in text)


def printable_lines(text: str) -> str:
    """Return the text with escapes for unprintable characters. Line breaks and tabs are kept."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() or character in "\n\t" else _escape(character) for character in text)


def shortened(names: Sequence[str], separator: str = ", ") -> str:
    """Return a text with the first names of a list, and the number of further names."""
    more = ["and %d more" % (len(names) - NAMED)] if len(names) > NAMED else []
    return separator.join(list(names[:NAMED]) + more)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
