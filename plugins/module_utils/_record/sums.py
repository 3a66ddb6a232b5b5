# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adds up allocations over a time, and over each day.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Mapping, Sequence

from .._errors import GpuSwarmError
from .._metrics.bounds import OTHERS
from .schema import BY, DAY_S, OWNER, SERVICE, SUMMED_UNTIL

MOST_NAMES = 200  # owners or services of a day with a sum of their own
_MOST_DAYS = 400
_DAYS_AT_ONCE = 7  # days to add up in one reading, so that no reading takes long

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


def sum_days(db: Any, summed_until: int, at: int, recorded_since: int) -> None:
    """Write the daily sums of the next days that have ended since ``summed_until``. ``db`` is a connection in a transaction."""
    today = at // DAY_S * DAY_S
    db.execute("DELETE FROM days WHERE day >= ?", (day_of(summed_until),))  # of a clock that was ahead
    first = max(summed_until, today - _MOST_DAYS * DAY_S)
    until = min(today, first + _DAYS_AT_ONCE * DAY_S)
    for begin in range(first, until, DAY_S):
        for by in BY:
            _sum_day(db, by, day_of(begin), sums_of_rows(by, max(begin, recorded_since), begin + DAY_S, at))
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (SUMMED_UNTIL, until))


def _sum_day(db: Any, by: str, day: str, sums: tuple[str, Mapping[str, Any]]) -> None:
    rows = [row[:6] for row in db.execute(*sums) if row[3] > 0]  # name, kind, unit, hours, cards, estimated
    if by in (OWNER, SERVICE):
        rows = _bounded(rows)
    db.executemany("INSERT OR REPLACE INTO days VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(day, by, *row) for row in rows])


def _bounded(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows of the names with the most cards. The rows of all other names are added up."""
    weights: dict[str, tuple[float, float]] = {}
    for name, _kind, _unit, hours, cards, _estimated in rows:
        before = weights.get(name, (0.0, 0.0))
        weights[name] = (before[0] + (cards or 0.0), before[1] + hours)
    names = set(sorted(weights, key=lambda name: (*(-weight for weight in weights[name]), name))[:MOST_NAMES])
    totals: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for name, kind, unit, hours, cards, estimated in rows:
        key = (name if name in names else OTHERS, kind, unit)
        if key in totals:
            former = totals[key]
            hours, estimated = hours + former[0], estimated + former[2]
            cards = None if cards is None or former[1] is None else cards + former[1]
        totals[key] = (hours, cards, estimated)
    return [(*key, *total) for key, total in totals.items()]
