# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times for people (pure): a time that a user gives, such as 12h, and the age of data.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from .._errors import GpuSwarmError
from .._printable import printable
from .._tasks.tasks import stamp
from .table import NOTHING

WANTED = "a time such as 30m, 12h, 7d or 4w, or a day (UTC) such as 2026-11-20"
_AGE = re.compile(r"([0-9]{1,6}) ?(s|m|min|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_LATEST = 253402300799  # the end of the year 9999


def since_of(text: str, now: float) -> float:
    """Return the time in seconds since 1970 that a user means with ``text``. Raises GpuSwarmError."""
    word = text.strip()
    age = _AGE.fullmatch(word.lower())
    if age:
        return max(0.0, now - int(age.group(1)) * _SECONDS[age.group(2)])
    try:
        return datetime.strptime(word, "%Y-%m-%d").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        raise GpuSwarmError("since is '%s'. Write %s." % (printable(word[:40]), WANTED)) from None


def is_since(text: str) -> bool:
    """Return whether ``since_of`` takes this text."""
    try:
        since_of(text, 0)
    except GpuSwarmError:
        return False
    return True


def duration(seconds: float | None) -> str:
    """Return the duration in the largest unit that fits at least twice, else in seconds."""
    if seconds is None:
        return NOTHING
    size, unit = next((entry for entry in _UNITS if seconds >= 2 * entry[0]), _UNITS[-1])
    return "%d %s" % (seconds // size, unit)


def moment(at: object) -> str:
    """Return a time in seconds since 1970 as text in UTC, such as 2026-11-20 12:00; a dash if the time is unknown or odd."""
    is_time = isinstance(at, (int, float)) and not isinstance(at, bool) and 0 <= at <= _LATEST
    return stamp(at)[:16].replace("T", " ") if is_time else NOTHING  # type: ignore[arg-type]
