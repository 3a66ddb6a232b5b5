# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits the number of values of a label (pure): keeps the values with the greatest weight, and one value for all others.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Iterable

# A name that no service and no resource kind can have.
OTHERS = "(others)"


def heaviest(weighted: Iterable[tuple[str, float]], most: int) -> set[str]:
    """Return the names with the greatest weights, at most ``most`` of them."""
    ordered = sorted(weighted, key=lambda pair: (-pair[1], pair[0]))
    return {name for name, dummy in ordered[:most]}
