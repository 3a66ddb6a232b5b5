# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses numbers and percentages in settings (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any


def count_of(share: Any, total: int) -> int | None:
    """Return the number for ``2`` or for a percentage of ``total`` such as ``25%``, at least 1.

    None if ``share`` is neither a number nor a percentage.
    """
    match = re.fullmatch(r"(\d+)(%?)", str(share).strip())
    if not match or isinstance(share, bool) or not int(match.group(1)):
        return None
    return max(1, total * int(match.group(1)) // 100) if match.group(2) else int(match.group(1))
