# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manager that does not answer for a while (pure, but for the clock): what it answered last counts until then.

A dockerd that is restarted, or a leader that is elected anew, takes some seconds, and the stack is deployed by then.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]
# For so long it may be away.
LIMIT_S = 60.0


def patient(
    query: Callable[[], Answer],
    first: Answer,
    lost: type[Exception],
    say: Callable[[str], None],
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], Answer]:
    """``query`` with the answer before in place of ``lost``, up to ``limit_s`` seconds. ``first`` is the one before its first."""
    answer, since = first, None

    def again() -> Answer:
        nonlocal answer, since
        try:
            answer, since = query(), None
        except lost as problem:
            if since is None:
                since = clock()
                say(f"no answer; queried again for up to {limit_s:g} s: {problem}")
            if clock() - since >= limit_s:
                raise
        return answer

    return again
