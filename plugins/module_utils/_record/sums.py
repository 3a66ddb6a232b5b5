# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adds up allocations over a time (pure): builds the SQL for one kind of sum.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from .._errors import GpuSwarmError
from .schema import BY

_EPOCH = datetime(1970, 1, 1)
_LATEST = 253402300799  # the last second of the year 9999

# An open allocation counts until the last reading. A NULL in ``cards`` makes the whole sum unknown.
_SUMS = """
SELECT name, kind, unit, sum(amount * seconds) / 3600.0 AS hours,
  CASE WHEN count(cards) = count(*) THEN sum(cards * seconds) / 3600.0 END AS cards,
  sum(amount * (seconds - sure)) / 3600.0 AS estimated,
  count(DISTINCT open) AS running
FROM (
  SELECT %s AS name, kind, unit, amount, cards, CASE WHEN end IS NULL THEN task END AS open,
    max(0, min(coalesce(end, :last), :until) - max(begin, :since)) AS seconds,
    max(0, min(coalesce(sure_until, :last), :until) - max(sure_from, :since)) AS sure
  FROM allocations WHERE begin < :until AND begin <= :last AND (end IS NULL OR end > :since)
)
GROUP BY name, kind, unit
"""


def sums_of_rows(by: str, since: float, until: float, last_reading: float) -> tuple[str, dict[str, Any]]:
    """Return (SQL, values) for [{name, kind, unit, hours, cards, estimated, running}] of the single rows."""
    return _SUMS % column_of(by), {"since": since, "until": until, "last": last_reading}


def column_of(by: str) -> str:
    """Return the column that usage is counted by. Raises GpuSwarmError for another name."""
    if by not in BY:
        raise GpuSwarmError("Usage cannot be counted by %r. Choose one of: %s." % (by, ", ".join(BY)))
    return by


def day_of(seconds: float) -> str:
    """Return the day of UTC, such as 2026-11-28."""
    return (_EPOCH + timedelta(seconds=min(max(int(seconds), 0), _LATEST))).strftime("%Y-%m-%d")
