# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries until nothing is waited for any more, and reports once what is (pure, but for the clock).

Ansible's own ``until`` shows each round as a failure, and the last one as an error, though waiting is what the task is for.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]
MOST = 5  # so many are reported by name


def poll(
    query: Callable[[], Answer],
    waits_for: Callable[[Answer], list[str]],
    timeout: float,
    say: Callable[[str], None],
    delay: float = 2,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """The first answer of which nothing is waited for, or the one that there is after ``timeout`` seconds."""
    end = clock() + timeout
    answer = query()
    said = False
    while (left := waits_for(answer)) and clock() < end:
        if not said:
            say(f"waiting for {', '.join(left[:MOST])}{f' and {len(left) - MOST} more' if len(left) > MOST else ''} (up to {timeout:g} s)")
            said = True
        sleep(max(0.0, min(delay, end - clock())))
        answer = query()
    return answer


def apart(args: Mapping[str, Any], own: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the wait, and those of the module that is queried."""
    return {key: args[key] for key in own if key in args}, {key: value for key, value in args.items() if key not in own}
