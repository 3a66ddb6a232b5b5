# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is deleted from the record, and when."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from readings import DAY_S, HOUR, T
from swarm_api import A, B

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import trim as trim_file
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import Database
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.trim import trim

MIB = 1 << 20


@pytest.fixture
def db(tmp_path):
    """Yield a record in a transaction, whose first reading was 200 days ago."""
    with ExitStack() as stack:
        connection = stack.enter_context(Database(str(tmp_path)).transaction())
        connection.executemany("INSERT INTO meta VALUES (?, ?)", [("rows_since", T - 200 * DAY_S), ("recorded_since", T - 200 * DAY_S)])
        yield connection


def add(db, end, uuid=A, size=0, count=1):
    """Add ended allocations of a card. ``size`` is the length of a long name."""
    for number in range(count):
        sql = """INSERT INTO allocations (task, service, owner, node, kind, amount, unit, model, begin, sure_from, sure_until, end)
            VALUES (?, ?, '', 'n1', 'GPU', 1, 'GPU', '', ?, ?, ?, ?)"""
        row = db.execute(sql, (f"t{number}", "x" * size, end - 60, end - 60, end, end)).lastrowid
        db.execute("INSERT OR IGNORE INTO cards (uuid, model) VALUES (?, '')", (uuid,))
        db.execute("INSERT INTO cards_of_allocations SELECT id, ? FROM cards WHERE uuid = ?", (row, uuid))


def count(db, table="allocations"):
    return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def rows_since(db):
    return db.execute("SELECT value FROM meta WHERE name = 'rows_since'").fetchone()[0]


def test_rows_are_deleted_after_90_days_with_their_cards(db):
    add(db, T - 91 * DAY_S)
    add(db, T - 89 * DAY_S, B)
    assert trim(db, T) == []
    assert [count(db, table) for table in ("allocations", "cards", "cards_of_allocations")] == [1, 1, 1]
    assert rows_since(db) == T - 90 * DAY_S


def test_allocations_that_have_not_ended_stay(db):
    add(db, T - 91 * DAY_S)
    db.execute("UPDATE allocations SET end = NULL")
    trim(db, T)
    assert count(db) == 1


def test_a_reading_deletes_one_batch(db, monkeypatch):
    monkeypatch.setattr(trim_file, "_ENDED_BEFORE", "SELECT id FROM allocations WHERE end <= %d ORDER BY end LIMIT 10")
    add(db, T - 91 * DAY_S, count=25)
    left = []
    for _reading in range(4):
        trim(db, T)
        left.append(count(db))
    assert left == [15, 5, 0, 0]


def test_a_large_record_loses_its_oldest_days(db):
    for day in (3, 2, 1):
        add(db, T - day * DAY_S + HOUR, size=1000, count=1000)
    add(db, T + HOUR, size=1000, count=10)
    assert trim(db, T + 2 * HOUR, most_bytes=3 * MIB) == []
    assert rows_since(db) == T - 2 * DAY_S
    assert count(db) == 2010
    assert trim(db, T + 2 * HOUR, most_bytes=3 * MIB) == []
    assert count(db) == 2010


def test_too_much_in_one_day_is_said_and_deleted(db):
    add(db, T + HOUR, size=1000, count=1000)
    (line,) = trim(db, T + 2 * HOUR, most_bytes=1 << 19)
    assert "in one day" in line
    assert count(db) == 0


EVENT = "INSERT INTO events (id, at, since, what, node, hostname, card, cause, text) VALUES (?, ?, ?, 'run', ?, '', '', '', '')"


def test_events_and_sums_have_their_bounds(db):
    db.executemany(EVENT, [(1, T, T - 91 * DAY_S, ""), (2, T, T - DAY_S, ""), (3, T, T, ""), (4, T, T + 1, "")])
    days = [("2024-10-01",), ("2024-10-05",)]  # T is 2025-11-08
    db.executemany("INSERT INTO days VALUES (?, 'owner', 'alice', 'GPU', 'GPU', 1, 1, 0)", days)
    trim(db, T, most_events=2)
    assert [row[0] for row in db.execute("SELECT id FROM events")] == [3, 4]
    assert [row[0] for row in db.execute("SELECT day FROM days")] == ["2024-10-05"]


def test_a_node_with_too_many_events_loses_its_own(db):
    rows = [(number, T, T - HOUR + number, "liar" if number % 10 else "n2") for number in range(100)]
    db.executemany(EVENT, rows)
    trim(db, T, most_events=30)
    assert count(db, "events") == 30
    assert db.execute("SELECT count(*) FROM events WHERE node = 'n2'").fetchone()[0] == 10


def test_days_without_sums_keep_their_rows(db):
    add(db, T - 91 * DAY_S)
    db.execute("INSERT INTO meta VALUES ('summed_until', ?)", (T - 150 * DAY_S,))
    trim(db, T)
    assert count(db) == 1


def test_the_file_becomes_smaller(tmp_path):
    record = Database(str(tmp_path))
    with record.transaction() as db:
        db.execute("INSERT INTO meta VALUES ('rows_since', ?)", (T - 200 * DAY_S,))
        add(db, T - 91 * DAY_S, size=1000, count=2000)
    before = (tmp_path / "fleet.db").stat().st_size
    with record.transaction() as db:
        trim(db, T)
    assert (tmp_path / "fleet.db").stat().st_size < before / 3
