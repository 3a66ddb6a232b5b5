# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records each reading of the swarm: allocations, events and daily sums. One transaction for each reading.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, Sequence

from .._ledger.ledger import without_garbage_collection
from .._ledger.reading import Reading
from .._tasks.tasks import stamp
from .allocations import CLOCKS_DIFFER_S, Changes, changes
from .database import Database, RecordError, storable
from .events import LONGEST_INTERVAL_S, find_events, gap
from .schema import (
    BEFORE_SET,
    BEHIND_SINCE,
    CLOCK_SET,
    DAY_S,
    INTERVAL,
    LAST_READING,
    RECORDED_SINCE,
    ROWS_SINCE,
    STATE,
    SUMMED_UNTIL,
    SWARM,
    Allocation,
    Event,
)
from .set_clock import time_of
from .sums import sum_days
from .trim import forget_nodes, trim

_INSERT = "INSERT INTO allocations (%s) VALUES (%s)" % (", ".join(Allocation._fields), ", ".join("?" * len(Allocation._fields)))
_INSERT_EVENT = "INSERT OR IGNORE INTO events (%s) VALUES (%s)" % (", ".join(Event._fields), ", ".join("?" * len(Event._fields)))

_BEHIND = "the clock of this manager is behind the last reading, %s. Recorded times stay there until the clock has caught up, or for a day"


class Recorder:
    """Writes the record in one directory, which must exist."""

    def __init__(self, directory: str) -> None:
        self._database = Database(directory)

    def observe(self, reading: Reading) -> list[str]:
        """Record the reading. Return lines for the log: what was not recorded, and why."""
        lines: list[str] = []
        try:
            with without_garbage_collection(), self._database.transaction() as db:
                lines = record(db, reading)
        except RecordError as problem:
            if not problem.is_unusable:  # otherwise the finding has the same text, and says what became of the file
                lines = [problem.message]
        lines += self._database.findings
        self._database.findings.clear()
        return lines


def record(db: Any, reading: Reading) -> list[str]:
    """Write what the reading shows. ``db`` is a connection in a transaction. Return lines for the log."""
    meta = dict(db.execute("SELECT name, value FROM meta"))
    time, last = time_of(int(reading.at), meta), meta.get(LAST_READING)
    reading, at = reading._replace(at=time.at), time.at
    if time.was_ahead:
        _correct_later_times(db, at, meta[BEFORE_SET])
    _write_hostnames(db, reading)
    is_first = meta.get(SWARM) != reading.swarm_id  # a manager may leave a swarm and join another one
    _write_changes(db, changes(reading, _open(db), _ended_tasks(db), last, is_first))
    _write_events(db, reading, meta, None if is_first else _former_state(meta))
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (SWARM, storable(reading.swarm_id)))
    times = _times(meta, at)
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", [*times.items(), (BEHIND_SINCE, time.behind_since)])
    if last is not None and last // DAY_S != at // DAY_S:
        forget_nodes(db)
    sum_days(db, times[SUMMED_UNTIL], at, times[RECORDED_SINCE])
    return [*([] if time.behind_since is None else [_BEHIND % stamp(at)]), *trim(db, at)]


def _times(meta: Mapping[str, Any], at: int) -> dict[str, int]:
    """Return the times after a reading. If the clock was set back, no time may be in the future."""
    last, today = meta.get(LAST_READING), at // DAY_S * DAY_S
    times = {
        LAST_READING: at,
        RECORDED_SINCE: min(meta.get(RECORDED_SINCE, at), at),
        ROWS_SINCE: min(meta.get(ROWS_SINCE, at), max(today, min(meta.get(RECORDED_SINCE, at), at))),
        SUMMED_UNTIL: min(meta.get(SUMMED_UNTIL, today), today),
    }
    if last is not None and abs(at - last) > DAY_S:
        times.update({CLOCK_SET: at, BEFORE_SET: min(last, at)})
    if last is not None:
        times[INTERVAL] = min(max(at - last, 0), LONGEST_INTERVAL_S)
    return times


def _correct_later_times(db: Any, at: int, before: int) -> None:
    """Correct the times that were recorded while the clock was ahead. Otherwise an allocation would count until a time in the future.

    ``before`` is the last reading by the right clock.
    """
    values = {"at": at, "before": before, "latest": at + CLOCKS_DIFFER_S}
    db.execute("UPDATE allocations SET begin = min(begin, :at), sure_until = min(sure_until, :before), end = :at WHERE end > :latest", values)
    db.execute("UPDATE allocations SET begin = :at, sure_from = :at WHERE end IS NULL AND begin > :latest", values)
    db.execute("UPDATE OR IGNORE events SET at = :at, since = min(since, :at) WHERE at > :at", values)


# -- allocations -----------------------------------------------------------------------------------------------------


def _open(db: Any) -> dict[str, tuple[int, int]]:
    return {task: (begin, sure_from) for task, begin, sure_from in db.execute("SELECT task, begin, sure_from FROM allocations WHERE end IS NULL")}


def _ended_tasks(db: Any) -> set[str]:
    return {task for (task,) in db.execute("SELECT task FROM ended_tasks")}


def _write_changes(db: Any, found: Changes) -> None:
    for row, devices in found.new:
        number = db.execute(_INSERT, _storable_row(row)).lastrowid
        for device in dict.fromkeys(devices):
            _write_card(db, storable(device), storable(row.model), number)
    db.executemany(
        "UPDATE allocations SET end = ?, sure_until = ?, how = ? WHERE task = ? AND end IS NULL",
        [(end.end, end.sure_until, storable(end.how), end.task) for end in found.ends],
    )
    before = _ended_tasks(db)
    db.executemany("DELETE FROM ended_tasks WHERE task = ?", [(task,) for task in before - found.ended_tasks])
    db.executemany("INSERT OR IGNORE INTO ended_tasks VALUES (?)", [(storable(task),) for task in found.ended_tasks - before])


def _write_card(db: Any, uuid: str, model: str, allocation: int) -> None:
    db.execute("INSERT OR IGNORE INTO cards (uuid, model) VALUES (?, ?)", (uuid, model))
    db.execute("UPDATE cards SET model = ? WHERE uuid = ? AND model != ? AND ? != ''", (model, uuid, model, model))
    db.execute("INSERT OR IGNORE INTO cards_of_allocations SELECT id, ? FROM cards WHERE uuid = ?", (allocation, uuid))


def _storable_row(row: Iterable[Any]) -> list[Any]:
    return [storable(value) if isinstance(value, str) else value for value in row]


# -- events and nodes ------------------------------------------------------------------------------------------------


def _write_events(db: Any, reading: Reading, meta: Mapping[str, Any], former: Mapping[str, Any] | None) -> None:
    last = meta.get(LAST_READING)
    found, state = find_events(former, reading, last)
    missed = gap(int(reading.at), last, meta.get(INTERVAL), reading.leads)
    events: Sequence[Event] = found if missed is None else [missed, *found]
    db.executemany(_INSERT_EVENT, [_storable_row(event) for event in events])
    text = json.dumps(state, separators=(",", ":"))  # ASCII, so that every text is storable
    if text != meta.get(STATE):
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (STATE, text))


def _former_state(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return json.loads(meta[STATE])
    except (KeyError, ValueError):
        return None


def _write_hostnames(db: Any, reading: Reading) -> None:
    hostnames = {storable(record["id"]): storable(record["hostname"], 200) for record in reading.ledger["nodes"]}
    known = dict(db.execute("SELECT id, hostname FROM nodes"))
    changed = [item for item in hostnames.items() if known.get(item[0]) != item[1]]
    db.executemany("INSERT OR REPLACE INTO nodes VALUES (?, ?)", changed)
