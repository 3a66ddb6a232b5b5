# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries until there is nothing left to wait for.

Ansible's own ``until`` shows each round as a failure and the last one as an error, although waiting is the purpose of the task.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]
MAX_NAMED = 5  # how many things are named in the message


def poll(
    query: Callable[[], Answer],
    waits_for: Callable[[Answer], list[str]],
    timeout: float,
    say: Callable[[str], None],
    delay: float = 2,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Return the first answer for which ``waits_for`` is empty. After ``timeout`` seconds, return the last answer. Report once what the run waits
    for.
    """
    end = clock() + timeout
    answer = query()
    reported = False
    while (waiting_for := waits_for(answer)) and clock() < end:
        if not reported:
            more = f" and {len(waiting_for) - MAX_NAMED} more" if len(waiting_for) > MAX_NAMED else ""
            say(f"waiting for {', '.join(waiting_for[:MAX_NAMED])}{more} (up to {timeout:g} s)")
            reported = True
        sleep(max(0.0, min(delay, end - clock())))
        answer = query()
    return answer


def split_options(args: Mapping[str, Any], own_names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the options of an action into its own options (``own_names``) and the options of the module that it runs."""
    return {key: args[key] for key in own_names if key in args}, {key: value for key, value in args.items() if key not in own_names}
