# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock of a service. A test passes another clock, which skips two minutes at once.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import select
import time
from typing import Sequence


class Clock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    def wait(self, seconds: float, handles: Sequence[int]) -> list[int]:
        """Wait until a handle can be read, and return all readable handles. Return [] after ``seconds``."""
        return select.select(handles, [], [], max(0.0, seconds))[0]
