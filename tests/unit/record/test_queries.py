# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the record answers, from rows that a test writes."""

from __future__ import annotations

import pytest
from swarm_api import A, B

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu.record import slot_name
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import queries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import Database, open_for_reading
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.schema import DAY_S, Allocation, Event

HOUR = 3600
T = 20000 * DAY_S  # 2024-10-04
DAY = "2024-10-04"


def allocation(task="t1", begin=T, end=None, value=A, **others):
    values = dict(service="train", owner="alice", node="n1", kind="GPU", amount=1, unit="GPU", mib=None, model="T4", cards=1.0, sure_from=begin)
    values.update(sure_until=end, how="complete" if end else None)
    return Allocation(task=task, value=value, begin=begin, end=end, **{**values, **others})


def event(what="fault", since=T, **others):
    return Event(**{"at": since, "since": since, "what": what, "node": "n1", "hostname": "gpu1", "card": "", "cause": "", "text": "x", **others})


def insert(connection, table, row, **more):
    columns = {**row._asdict(), **more}
    marks = ", ".join("?" * len(columns))
    return connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values())).lastrowid


@pytest.fixture
def record(tmp_path):
    """Return a function that writes rows and returns the record, opened for reading."""

    def write(allocations=(), events=(), days=(), **meta):
        values = {"recorded_since": T, "last_reading": T + DAY_S, "rows_since": T, "summed_until": T, **meta}
        with Database(str(tmp_path)).transaction() as db:
            db.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
            db.executemany("INSERT INTO nodes VALUES (?, ?)", [("n1", "gpu1"), ("n2", "gpu2")])
            db.executemany("INSERT INTO days VALUES (?, ?, ?, ?, ?, ?, ?, ?)", days)
            for row in allocations:
                number = insert(db, "allocations", row)
                for uuid in (row.value or "").split("+"):
                    db.execute("INSERT OR IGNORE INTO cards (uuid, model, mib) VALUES (?, 'T4', NULL)", (uuid,))
                    db.execute("INSERT INTO cards_of_allocations SELECT id, ? FROM cards WHERE uuid = ?", (number, uuid))
            for row in events:
                insert(db, "events", row)
        return open_for_reading(str(tmp_path))

    return write


def usage(db, since=T, until=T + DAY_S, by="owner", now=T + DAY_S):
    return queries.usage(db, since, until, by, now)


def test_hours_are_counted_between_the_two_times_and_until_the_last_reading(record):
    db = record([allocation(begin=T - HOUR, end=T + HOUR), allocation("t2", begin=T + 22 * HOUR)], last_reading=T + 23 * HOUR)
    assert usage(db, since=T - HOUR / 2 + HOUR / 2) == [
        {"name": "alice", "kind": "GPU", "unit": "GPU", "hours": 2.0, "cards": 2.0, "estimated": 0.0, "running": 1}
    ]


def test_amounts_count_in_their_own_unit_and_unknown_cards_stay_unknown(record):
    db = record([
        allocation(kind="VRAM", value=None, amount=8000, unit="MiB", cards=0.5, end=T + HOUR),
        allocation("t2", kind="FPGA", value=None, amount=2, unit="FPGA", cards=None, end=T + HOUR),
        allocation("t3", kind="FPGA", value=None, amount=1, unit="FPGA", cards=1.0, end=T + HOUR),
    ])  # fmt: skip
    rows = [(row["kind"], row["unit"], row["hours"], row["cards"]) for row in usage(db)]
    assert rows == [("VRAM", "MiB", 8000.0, 0.5), ("FPGA", "FPGA", 3.0, None)]


def test_what_is_not_certain_counts_as_estimated(record):
    db = record([
        allocation(begin=T, sure_from=T + HOUR, end=T + 4 * HOUR, sure_until=T + 3 * HOUR),
        allocation("t2", begin=T, sure_from=T + HOUR, end=T + HOUR, sure_until=T + HOUR),
    ])  # fmt: skip
    (row,) = usage(db)
    assert (row["hours"], row["estimated"]) == (5.0, 3.0)


def test_nodes_with_the_same_hostname_stay_apart(record):
    db = record([allocation(end=T + HOUR), allocation("t2", node="n2", end=T + 2 * HOUR), allocation("t3", node="n3", end=T + 3 * HOUR)])
    assert [(row["name"], row["node"], row["hours"]) for row in usage(db, by="node")] == [("n3", "n3", 3.0), ("gpu2", "n2", 2.0), ("gpu1", "n1", 1.0)]


def test_daily_sums_stand_for_deleted_rows(record):
    day = ("2024-10-02", "owner", "alice", "GPU", "GPU", 30.0, 30.0, 1.0)
    db = record([allocation(end=T + HOUR), allocation("t0", begin=T - HOUR, end=T)], days=[day])
    (row,) = usage(db, since=T - 7 * DAY_S)
    assert (row["hours"], row["cards"], row["estimated"]) == (31.0, 31.0, 1.0)
    assert queries.usage_by_day(db, T - 7 * DAY_S, T + DAY_S, "owner", T + DAY_S) == [
        {"day": "2024-10-02", "name": "alice", "cards": 30.0},
        {"day": DAY, "name": "alice", "cards": 1.0},
    ]


def test_a_day_counts_once_whether_it_is_summed_or_not(record):
    day = (DAY, "owner", "alice", "GPU", "GPU", 1.0, 1.0, 0.0)
    db = record([allocation(end=T + HOUR)], days=[day], summed_until=T + DAY_S, last_reading=T + DAY_S + HOUR)
    assert queries.usage_by_day(db, T, T + 2 * DAY_S, "owner", T + 2 * DAY_S) == [{"day": DAY, "name": "alice", "cards": 1.0}]
    assert [row["hours"] for row in usage(db, until=T + 2 * DAY_S)] == [1.0]


def test_usage_by_something_else_is_refused(record):
    with pytest.raises(GpuSwarmError, match=r"'value'\. Choose one of: owner, service, model, node"):
        usage(record(), by="value")


def test_events_are_listed_newest_first_and_by_node(record):
    db = record(events=[event(), event("leader", T + 5, node="", hostname=""), event("node-down", T + 9, node="n2", hostname="gpu2")])
    assert [row["what"] for row in queries.events(db, T, T + 9)] == ["node-down", "leader", "fault"]
    assert [row["what"] for row in queries.events(db, T, T + 8, "gpu1")] == ["fault"]
    assert [row["what"] for row in queries.events(db, T, T + 9, "n2")] == ["node-down"]
    assert queries.events(db, T, T, "x' OR 1=1 --") == []


def test_a_gap_is_listed_if_its_end_is_in_the_time(record):
    db = record(events=[event("gap", T - DAY_S, at=T)])
    assert [row["what"] for row in queries.events(db, T - HOUR, T + HOUR)] == ["gap"]


def test_the_history_of_a_card_includes_slots_and_groups(record):
    db = record(
        [allocation(end=T + HOUR), allocation("t2", begin=T + HOUR, value=f"{A}+{B}", sure_from=T + 2 * HOUR)],
        [event(card=A), event(card=B, node="n2")],
    )  # fmt: skip
    card = queries.card(db, slot_name(A, 1))
    assert (card["uuid"], card["model"], card["mib"]) == (A, "T4", None)
    assert [(row["task"], row["hostname"], row["begin_known"], row["end_known"]) for row in card["allocations"]] == [
        ("t2", "gpu1", False, False),
        ("t1", "gpu1", True, True),
    ]
    assert len(card["events"]) == 1


def test_the_beginning_of_a_uuid_is_enough_if_it_is_of_one_card(record):
    db = record([allocation(), allocation("t2", value=B)])
    assert queries.card(db, A[:14])["uuid"] == A
    with pytest.raises(GpuSwarmError, match=f"2 cards begin with GPU-5fa2e7a4: {A}, {B}"):
        queries.card(db, "GPU-5fa2e7a4")


@pytest.mark.parametrize("odd", ["", "GPU-x", "%", "'; DROP TABLE allocations; --", "\x1b[2J", "\ud800"])
def test_an_unknown_card_has_empty_lists(odd, record):
    card = queries.card(record([allocation()]), odd)
    assert (card["uuid"], card["allocations"], card["events"]) == (odd.replace("\ud800", "?"), [], [])


def test_when_the_record_began_and_was_last_written(record):
    db = record()
    assert (queries.recorded_since(db), queries.last_reading(db)) == (T, T + DAY_S)
