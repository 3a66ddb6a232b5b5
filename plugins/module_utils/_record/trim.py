# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Deletes old rows of the record in small batches, so that no reading takes long.

Daily sums are kept for 400 days, single rows for 90 days or until they take 500 MiB. A clock that was set to a wrong time must not delete the
record: after a jump of more than a day, nothing is deleted for a day.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any

from .schema import CLOCK_SET, DAY_S, NODE, ROWS_SINCE, SUMMED_UNTIL
from .sums import day_of

ROWS_DAYS, SUMS_DAYS = 90, 400
MOST_BYTES = 500 << 20
MOST_EVENTS = 100_000
BATCH = 5000

_OLDEST = "SELECT id FROM allocations WHERE end IS NOT NULL ORDER BY end LIMIT %d" % BATCH
_ENDED_BEFORE = "SELECT id FROM allocations WHERE end <= %%d ORDER BY end LIMIT %d" % BATCH


def trim(db: Any, at: int, most_bytes: int = MOST_BYTES, most_events: int = MOST_EVENTS) -> list[str]:
    """Delete what is too old or too much. Return lines for the log. ``db`` is a connection in a transaction, ``at`` is the time of the reading."""
    meta = dict(db.execute("SELECT name, value FROM meta WHERE name IN (?, ?, ?)", (CLOCK_SET, ROWS_SINCE, SUMMED_UNTIL)))
    if abs(at - meta.get(CLOCK_SET, at - DAY_S)) < DAY_S:
        return []
    today, rows_since = at // DAY_S * DAY_S, meta[ROWS_SINCE]
    summed_until = min(meta.get(SUMMED_UNTIL, today), today)  # later days have no sums yet
    kept_since = max(rows_since, min(today - ROWS_DAYS * DAY_S, summed_until))
    if _used_bytes(db) > most_bytes:
        kept_since = max(kept_since, min(_day_after_oldest(db), summed_until))
    if kept_since != rows_since:
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (ROWS_SINCE, kept_since))
    deleted = _delete(db, _ENDED_BEFORE % kept_since)
    lines = []
    if not deleted and _used_bytes(db) > most_bytes and _delete(db, _OLDEST):
        lines = ["the record has reached %d MiB in one day. Allocations of today are deleted, so the usage of today is too low." % (most_bytes >> 20)]
    db.execute("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE since < ? LIMIT ?)", (at - ROWS_DAYS * DAY_S, BATCH))
    _delete_events_of_noisiest_node(db, most_events)
    db.execute("DELETE FROM days WHERE day < ?", (day_of(at - SUMS_DAYS * DAY_S),))
    return lines


def forget_nodes(db: Any) -> None:
    """Delete the names of nodes without any usage. The next reading adds those of the swarm again. This reads all rows, so call it once a day."""
    used = "SELECT node FROM allocations UNION SELECT name FROM days WHERE by = '%s'" % NODE
    db.execute("DELETE FROM nodes WHERE id NOT IN (%s)" % used)


def _delete_events_of_noisiest_node(db: Any, most: int) -> None:
    """Delete the oldest events of the node with the most events, so that a node that lies does not delete the events of others."""
    excess = db.execute("SELECT count(*) FROM events").fetchone()[0] - most
    if excess > 0:
        noisiest = "SELECT node FROM events GROUP BY node ORDER BY count(*) DESC LIMIT 1"
        db.execute("DELETE FROM events WHERE id IN (SELECT id FROM events WHERE node = (%s) ORDER BY id LIMIT ?)" % noisiest, (min(excess, BATCH),))


def _used_bytes(db: Any) -> int:
    pages, free, size = (db.execute("PRAGMA " + name).fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def _day_after_oldest(db: Any) -> int:
    oldest = db.execute("SELECT min(end) FROM allocations").fetchone()[0]
    return 0 if oldest is None else (oldest // DAY_S + 1) * DAY_S


def _delete(db: Any, ids: str) -> int:
    """Delete these allocations, and cards that no allocation has any more. Return how many allocations were deleted."""
    deleted = db.execute("SELECT count(*) FROM (%s)" % ids).fetchone()[0]
    if deleted:
        cards = "SELECT card FROM cards_of_allocations WHERE allocation IN (%s)" % ids
        candidates = db.execute("SELECT DISTINCT card FROM (%s)" % cards).fetchall()
        db.execute("DELETE FROM cards_of_allocations WHERE allocation IN (%s)" % ids)
        db.execute("DELETE FROM allocations WHERE id IN (%s)" % ids)
        db.executemany("DELETE FROM cards WHERE id = ? AND NOT EXISTS (SELECT 1 FROM cards_of_allocations WHERE card = cards.id)", candidates)
    return deleted
