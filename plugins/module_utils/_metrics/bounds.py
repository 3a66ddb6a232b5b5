# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many values a label may have (pure): the first of them by weight, and one for all others.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Iterable

# What no service and no kind is called.
OTHERS = "(others)"


def kept(weighted: Iterable[tuple[str, float]], most: int) -> set[str]:
    """The names with the greatest weights, ``most`` at the most."""
    ordered = sorted(weighted, key=lambda pair: (-pair[1], pair[0]))
    return {name for name, dummy in ordered[:most]}
