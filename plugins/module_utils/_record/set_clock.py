# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which time a reading has in the record if the clock of the manager was set (pure).

A clock that is wrong for a while must not change what is recorded. So if the clock is behind the last reading, time stands still in the record until
the clock has caught up. After a day the clock is believed. It is believed at once if it was set forward less than a day before, and is now back.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from .schema import BEFORE_SET, BEHIND_SINCE, CLOCK_SET, DAY_S, LAST_READING


class Time(NamedTuple):
    """``at`` is the time of the reading. ``behind_since`` is what the clock said when time began to stand still, or None."""

    at: int
    behind_since: int | None
    was_ahead: bool  # times after ``at`` were recorded while the clock was wrong


def time_of(clock: int, meta: Mapping[str, int]) -> Time:
    """Return the time of a reading. ``clock`` is the time by the manager's clock."""
    last = meta.get(LAST_READING)
    if last is None or clock >= last:
        return Time(clock, None, False)
    since = meta.get(BEHIND_SINCE)
    since = clock if since is None else min(since, clock)
    if _is_back(clock, last, meta):
        return Time(clock, None, True)
    return Time(clock, None, False) if clock - since >= DAY_S else Time(last, since, False)


def _is_back(clock: int, last: int, meta: Mapping[str, int]) -> bool:
    """Return whether the clock was set forward less than a day ago, and is now where it was."""
    set_at, before = meta.get(CLOCK_SET), meta.get(BEFORE_SET)
    return set_at is not None and before is not None and last - set_at < DAY_S and clock >= before
