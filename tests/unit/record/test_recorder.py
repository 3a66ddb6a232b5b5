# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the record says after readings of a swarm: through the recorder, and back through the questions."""

from __future__ import annotations

import itertools
import random
import sqlite3

import pytest
from readings import DAY, DAY_S, HOUR, T, node, reading, service, task
from swarm_api import A, B, discrete, named

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu.record import group_name, slot_name
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import database, queries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import open_for_reading
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.recorder import Recorder

MINUTE = 60


class Record:
    """A recorder, and what people read."""

    def __init__(self, directory):
        self.directory, self.recorder = str(directory), Recorder(str(directory))

    def __call__(self, *readings):
        for one in readings:
            assert self.recorder.observe(one) == []
        return self

    def ask(self, question, *values):
        db = open_for_reading(self.directory)
        try:
            return getattr(queries, question)(db, *values)
        finally:
            db.close()

    def usage(self, by="owner", since=0, until=T + 1000 * DAY_S):
        return self.ask("usage", since, until, by, until)

    def hours(self, **options):
        """Return {(name, kind): (hours, cards, estimated)}."""
        return {(row["name"], row["kind"]): (row["hours"], row["cards"], row["estimated"]) for row in self.usage(**options)}

    def card(self, uuid=A):
        return self.ask("card", uuid)["allocations"]

    def events(self):
        return self.ask("events", 0, T + 1000 * DAY_S)


@pytest.fixture
def record(tmp_path):
    return Record(tmp_path)


def ended(task_id="t1", since=T + HOUR, state="complete", created=T, **options):
    return task(task_id, since, state, desired="shutdown", created=created, **options)


NOTHING = reading(T)


def test_an_allocation_begins_and_ends_with_the_first_stamps_that_were_seen(record):
    record(
        NOTHING,
        reading(T + 100, [task(since=T + 60, state="preparing", created=T + 50)]),
        reading(T + 160, [task(since=T + 110)]),
        reading(T + 7200, [ended(since=T + 60 + HOUR)]),
        reading(T + 7260, [ended(since=T + 7250)]),  # dockerd was restarted and stamps ended tasks anew
        reading(T + 7320, [ended(since=T + 7300, state="failed")]),
        reading(T + 7380),
    )
    assert record.card() == [
        {
            "task": "t1", "service": "train", "owner": "alice", "node": "n1", "hostname": "host-n1", "kind": "NVIDIA-GPU", "value": A, "amount": 1,
            "begin": T + 60, "begin_known": True, "end": T + 60 + HOUR, "end_known": True, "how": "complete",
        }
    ]  # fmt: skip
    assert record.usage() == [{"name": "alice", "kind": "NVIDIA-GPU", "unit": "GPU", "hours": 1.0, "cards": 1.0, "estimated": 0.0, "running": 0}]


def test_an_open_allocation_counts_until_the_last_reading(record):
    record(NOTHING, reading(T + 60, [task(since=T)]), reading(T + HOUR, [task(since=T)]))
    assert [(row["hours"], row["estimated"], row["running"]) for row in record.usage(until=T + DAY_S)] == [(1.0, 0.0, 1)]


def test_a_task_that_left_the_list_ended_at_the_reading(record):
    record(NOTHING, reading(T + HOUR, [task(since=T)]), reading(T + 2 * HOUR, [task(since=T)]), reading(T + 3 * HOUR))
    (row,) = record.card()
    assert (row["end"], row["end_known"], row["how"]) == (T + 3 * HOUR, False, "gone")
    assert record.hours() == {("alice", "NVIDIA-GPU"): (3.0, 3.0, 1.0)}


def test_a_task_between_two_readings_counts_as_estimated(record):
    record(NOTHING, reading(T + 2 * HOUR, [ended(since=T + HOUR, created=T + HOUR / 2)]))
    (row,) = record.card()
    assert (row["begin"], row["begin_known"], row["end"], row["how"]) == (T + HOUR / 2, False, T + HOUR, "complete")
    assert record.hours() == {("alice", "NVIDIA-GPU"): (0.5, 0.5, 0.5)}


def test_a_task_that_waited_long_began_after_the_last_reading(record):
    record(reading(T), reading(T + HOUR), reading(T + HOUR + 60, [ended(since=T + HOUR + 30, created=T)]))
    assert record.card()[0]["begin"] == T + HOUR


def test_a_task_ends_even_if_the_manager_no_longer_says_what_it_had(record):
    record(reading(T, [task()]), reading(T + 2 * HOUR, [ended(given=[])]), reading(T + 3 * HOUR, [ended(given=[])]))
    assert [(row["end"], row["how"]) for row in record.card()] == [(T + HOUR, "complete")]


def test_tasks_that_ended_before_the_record_began_are_not_recorded(record):
    old = ended(since=T - HOUR, created=T - 2 * HOUR)
    record(reading(T, [old]), reading(T + 60, [ended(since=T + 50, created=T - 2 * HOUR)]), reading(T + 120))
    assert record.card() == []


def test_the_owner_stays_as_it_was_when_the_task_was_first_seen(record):
    record(
        reading(T, [task()], services=[service(owner="alice")]),
        reading(T + HOUR, [task(), task("t2", T + HOUR)], services=[service(owner="bob")]),
        reading(T + 2 * HOUR, [task(), task("t2", T + HOUR)], services=[service()]),
    )
    assert {name: hours for (name, _kind), (hours, _cards, _estimated) in record.hours().items()} == {"alice": 2.0, "bob": 1.0}
    assert list(record.hours(by="service")) == [("train", "NVIDIA-GPU")]


def test_nodes_that_left_without_any_use_are_forgotten(record, tmp_path):
    used = node("n1", leader=True)
    for day in range(4):
        record(reading(T + day * DAY_S, [task()] if day < 2 else [], [used, node(f"passing-{day}")]))
    record(reading(T + 3 * DAY_S + 60, [], [node("n9", leader=True)]))
    with sqlite3.connect(tmp_path / "fleet.db") as db:
        assert {row[0] for row in db.execute("SELECT id FROM nodes")} == {"n1", "n9"}
    assert [row["name"] for row in record.usage(by="node")] == ["host-n1"]


def test_usage_counts_from_the_time_when_the_record_began(record):
    record(reading(T, [task(since=T - 5 * DAY_S)]), reading(T + HOUR, [task(since=T - 5 * DAY_S)]))
    assert record.card()[0]["begin"] == T - 5 * DAY_S
    assert record.hours()[("alice", "NVIDIA-GPU")][0] == 1.0


@pytest.mark.parametrize(
    ("stamp", "created", "begin", "estimated"),
    [
        (T + HOUR, T, T + HOUR, 0.0),
        (T - HOUR, T, T, 2.0),  # the node's clock is behind: not before the task was created
        (T + 9 * HOUR, T, T + 2 * HOUR, 0.0),  # the node's clock is ahead: not after the reading
        (None, T, T, 2.0),
        (None, None, T + 2 * HOUR, 0.0),
        (T + HOUR, T + 9 * HOUR, T + 2 * HOUR, 0.0),
    ],
)
def test_a_begin_that_cannot_be_is_corrected_and_counts_as_estimated(stamp, created, begin, estimated, record):
    running = task(since=stamp, created=created)
    record(NOTHING, reading(T + 2 * HOUR, [running]), reading(T + 3 * HOUR, [running]))
    (row,) = record.card()
    assert row["begin"] == begin
    assert record.hours()[("alice", "NVIDIA-GPU")][2] == estimated


@pytest.mark.parametrize(
    ("stamp", "end", "estimated"),
    [
        (T + 2 * HOUR, T + 2 * HOUR, 0.0),
        (T - HOUR, T + 60, 0.0),
        (T + 9 * HOUR, T + 3 * HOUR, 2.0),
        (None, T + 3 * HOUR, 2.0),
    ],
)
def test_an_end_that_cannot_be_is_corrected_and_counts_as_estimated(stamp, end, estimated, record):
    record(NOTHING, reading(T + HOUR, [task(since=T + 60)]), reading(T + 3 * HOUR, [ended(since=stamp)]))
    (row,) = record.card()
    assert (row["end"], row["end_known"]) == (end, stamp == end)
    assert sum(estimated for _hours, _cards, estimated in record.hours().values()) == estimated


def test_two_managers_agree_exactly_about_what_both_saw_running(tmp_path):
    """The second manager reads rarely, its clock differs, and its reading after the end comes when dockerd has stamped the task anew."""
    tasks = {
        T + 60: [task(since=T + 50)],
        T + 600: [task(since=T + 50), task("t2", since=T + 500)],
        T + 700: [ended(since=T + 650), task("t2", since=T + 500)],
        T + 1200: [ended(since=T + 650), ended("t2", since=T + 1111, created=T + 480)],
    }
    managers = []
    for name, skew, times in (("leader", 0, list(tasks)), ("other", 7, [T + 60, T + 600, T + 1200])):
        (tmp_path / name).mkdir()
        managers.append(Record(tmp_path / name)(reading(T + skew), *(reading(at + skew, tasks[at]) for at in times)))
    closed = [[(row["task"], row["begin"], row["end"], row["how"]) for row in manager.card()] for manager in managers]
    assert closed[0] == closed[1] == [("t2", T + 500, T + 1111, "complete"), ("t1", T + 50, T + 650, "complete")]
    assert managers[0].hours() == managers[1].hours()


@pytest.mark.parametrize("skew", [-50, -7, 7, 50])
@pytest.mark.parametrize("seed", range(5))
def test_managers_whose_clocks_differ_agree_exactly_about_random_tasks(seed, skew, tmp_path):
    """Both managers see each task while it runs, and soon after its end. The nodes' clocks differ too."""
    chance, managers = random.Random(seed), []
    lives = [(T + chance.randrange(HOUR), chance.randrange(700, 2 * HOUR), chance.randrange(-10, 10)) for _number in range(30)]
    for name, offset, interval in (("leader", 0, 60), ("other", skew, 600)):
        (tmp_path / name).mkdir()
        managers.append(Record(tmp_path / name))
        for at in range(T, T + 4 * HOUR, interval):
            tasks = []
            for number, (begin, length, error) in enumerate(lives):
                if begin <= at < begin + length:
                    tasks.append(task(f"t{number}", begin + error, created=begin - 30))
                elif at >= begin + length:
                    tasks.append(ended(f"t{number}", begin + length + error, created=begin - 30))
            managers[-1](reading(at + offset, tasks))
    closed = [sorted((row["task"], row["begin"], row["end"], row["how"]) for row in manager.card()) for manager in managers]
    assert len(closed[0]) == 30
    assert closed[0] == closed[1]


def test_a_manager_that_was_away_reads_what_the_api_still_has_and_marks_the_gap(record):
    first, second = task(since=T, given=named(B)), task("t2", since=T + 30)
    after = [ended("t2", since=T + 2 * HOUR), ended("t3", since=T + 3 * HOUR, created=T + 2 * HOUR)]
    record(NOTHING, reading(T + 60, [first, second]), reading(T + 120, [first, second]), reading(T + DAY_S, [first, *after]))
    rows = {row["task"]: (row["begin"] - T, row["end"] and row["end"] - T, row["begin_known"]) for row in record.card() + record.card(B)}
    assert rows == {"t1": (0, None, True), "t2": (30, 2 * HOUR, True), "t3": (2 * HOUR, 3 * HOUR, False)}
    assert [(event["what"], event["since"], event["at"]) for event in record.events()] == [("gap", T + 120, T + DAY_S)]
    assert "read nothing for 23 hours" in record.events()[0]["text"]


@pytest.mark.parametrize(
    ("leads", "step", "pause", "is_gap"),
    [
        (True, 60, 180, False),
        (True, 60, 181, True),
        (True, 15, 120, False),  # after changes the leader reads sooner
        (True, 300, 900, False),  # a large swarm takes long to read
        (True, 300, 901, True),
        (False, 600, 1800, False),
        (False, 600, 1801, True),
    ],
)
def test_a_gap_is_more_than_three_intervals(leads, step, pause, is_gap, record):
    record(*(reading(T + at, leads=leads) for at in (0, step, 2 * step, 2 * step + pause)))
    assert [event["what"] for event in record.events()] == ["gap"] * is_gap


def test_a_manager_that_no_longer_leads_reads_less_often_without_a_gap(record):
    record(reading(T), reading(T + 60), reading(T + 75, leads=False), reading(T + 675, leads=False))
    assert record.events() == []


def test_another_swarm_ends_what_was_and_is_no_event_of_each_node(record):
    old = [ended("t8", since=T - HOUR, created=T - 2 * HOUR), ended("t9", since=T + 90 * MINUTE, created=T)]
    record(reading(T, [task()]), reading(T + HOUR, [task()]), reading(T + 2 * HOUR, old, [node("n7", leader=True)], swarm_id="c2"))
    assert [(row["task"], row["end"], row["how"]) for row in record.card()] == [("t1", T + 2 * HOUR, "gone")]
    record(reading(T + 3 * HOUR, [*old, ended("t10", since=T + 150 * MINUTE)], [node("n7", leader=True)], swarm_id="c2"))
    assert [row["task"] for row in record.card()] == ["t10", "t1"]
    assert {event["what"] for event in record.events()} <= {"gap"}


# -- kinds and cards -------------------------------------------------------------------------------------------------

LABELS = {"gpu.count": "2", "gpu.healthy": "true", "gpu.model": "T4", "gpu.memory": "16"}
SLOTS = [slot_name(A, number) for number in range(4)]
GROUP = group_name([A, B])
MIG = "MIG-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30"


@pytest.mark.parametrize(
    ("advertised", "given", "unit", "hours", "cards"),
    [
        (named(A, B), named(A, B), "GPU", 2.0, 2.0),
        (named(*SLOTS, kind="NVIDIA-SLOT"), named(*SLOTS[:3], kind="NVIDIA-SLOT"), "slot", 3.0, 0.75),
        (named(GROUP, kind="NVIDIA-GROUP"), named(GROUP, kind="NVIDIA-GROUP"), "group", 1.0, 2.0),
        (named("GPU-+GPU-", kind="X"), named("GPU-+GPU-", kind="X"), "group", 1.0, None),
        (named("FPGA-1", kind="FPGA"), named("FPGA-1", kind="FPGA"), "FPGA", 1.0, None),
        (named(slot_name("CARD", 1), kind="X"), named(slot_name("CARD", 1), kind="X"), "slot", 1.0, None),
        (named(B), named(slot_name(A, 1), kind="NVIDIA-SLOT"), "slot", 1.0, None),  # no longer advertised
        (discrete(30720), discrete(7680), "MiB", 7680.0, 0.5),  # the sum of two cards
        (discrete(28672), discrete(14336), "MiB", 14336.0, 1.0),  # 1 GiB of each card is reserved for the host
        (discrete(15360, "VRAM-C1") + discrete(15360, "VRAM-C2"), discrete(3840, "VRAM-C1"), "MiB", 3840.0, 0.25),
        (named(B) + discrete(15360), discrete(3840), "MiB", 3840.0, 0.25),  # the other card is advertised whole
        (discrete(8, "LICENSE"), discrete(2, "LICENSE"), "LICENSE", 2.0, None),
        (discrete(99999999), discrete(1), "VRAM", 1.0, None),
        (named(MIG, kind="MIG-1g.2gb"), named(MIG, kind="MIG-1g.2gb"), "MIG device", 1.0, 0.125),
        (named(MIG, kind="MIG-4g.8gb.me"), named(MIG, kind="MIG-4g.8gb.me"), "MIG device", 1.0, 0.5),
        (named(MIG, kind="SMALL"), named(MIG, kind="SMALL"), "MIG device", 1.0, None),
        (named(MIG, kind="MIG-1g.999gb"), named(MIG, kind="MIG-1g.999gb"), "MIG device", 1.0, None),
        (named(slot_name(MIG, 0), slot_name(MIG, 1), kind="MIG-1g.2gb"), named(slot_name(MIG, 0), kind="MIG-1g.2gb"), "slot", 1.0, 0.0625),
    ],
)
def test_each_kind_has_its_unit_and_its_part_of_the_cards(advertised, given, unit, hours, cards, record):
    nodes = [node(resources=advertised, labels=LABELS, leader=True)]
    record(reading(T, [task(given=given)], nodes), reading(T + HOUR, [task(given=given)], nodes))
    rows = record.usage(by="model")
    assert {row["name"] for row in rows} == {"T4"}
    assert (rows[0]["unit"], sum(row["hours"] for row in rows)) == (unit, hours)
    assert rows[0]["cards"] == (None if cards is None else pytest.approx(cards))


def test_without_labels_the_size_of_a_card_is_not_guessed(record):
    nodes = [node(resources=discrete(15360), leader=True)]
    record(reading(T, [task(given=discrete(7680))], nodes), reading(T + HOUR, [task(given=discrete(7680))], nodes))
    assert record.hours() == {("alice", "VRAM"): (7680.0, None, 0.0)}


def test_a_card_is_found_through_its_slots_and_groups(record):
    nodes = [node(resources=named(*SLOTS, kind="SLOT") + named(GROUP, kind="GROUP"), leader=True)]
    record(reading(T, [task(given=named(SLOTS[0], kind="SLOT")), task("t2", given=named(GROUP, kind="GROUP"))], nodes))
    assert sorted((row["task"], row["value"]) for row in record.card(A)) == [("t1", SLOTS[0]), ("t2", GROUP)]
    assert [row["task"] for row in record.card(B)] == ["t2"]


# -- days ------------------------------------------------------------------------------------------------------------


def test_days_add_up_to_the_usage_and_survive_the_rows(record, tmp_path):
    running = task(since=T)
    record(reading(T, [running]), *(reading(T + hour * HOUR, [running]) for hour in range(1, 60)), reading(T + 60 * HOUR))
    days = record.ask("usage_by_day", 0, T + 9 * DAY_S, "owner", T + 9 * DAY_S)
    assert [(row["day"], row["name"], row["cards"]) for row in days] == [(DAY, "alice", 24), ("2025-11-09", "alice", 24), ("2025-11-10", "alice", 12)]
    before = record.hours()
    record(*(reading(T + day * DAY_S) for day in range(3, 102)))
    assert record.card() == []
    assert record.hours() == before == {("alice", "NVIDIA-GPU"): (60.0, 60.0, 1.0)}
    assert record.hours(by="node") == {("host-n1", "NVIDIA-GPU"): (60.0, 60.0, 1.0)}
    assert record.ask("usage_by_day", 0, T + 9 * DAY_S, "owner", T + 9 * DAY_S) == days


def test_many_owners_share_one_sum_of_a_day(record):
    services = [service(f"s{number}", f"job-{number}", owner=f"owner-{number:04}") for number in range(300)]
    tasks = [task(f"t{number}", service=f"s{number}", given=named(f"GPU-{number}")) for number in range(300)]
    record(reading(T, tasks, services=services), reading(T + DAY_S, tasks, services=services), reading(T + 100 * DAY_S))
    names = {row["name"]: row["cards"] for row in record.ask("usage_by_day", T, T + DAY_S, "owner", T + DAY_S)}
    assert len(names) == 201
    assert names["(others)"] == 100 * 24
    assert names["owner-0000"] == 24


@pytest.mark.parametrize("jump", [3 * 365 * DAY_S, -3 * 365 * DAY_S])
def test_a_clock_that_jumps_deletes_nothing_and_comes_back(jump, record):
    running = task(since=T)
    record(reading(T, [running]), reading(T + HOUR, [running]), reading(T + 2 * HOUR, [ended(since=T + 2 * HOUR)]))
    before = record.hours()
    for at in (3 * HOUR, 4 * HOUR):
        assert len(record.recorder.observe(reading(T + jump + at))) == (jump < 0)
    record(*(reading(T + at * HOUR) for at in range(5, 9)))
    assert [row["end"] for row in record.card()] == [T + 2 * HOUR]
    assert record.hours() == before
    record(reading(T + 9 * HOUR, [task("t2", T + 9 * HOUR)]), reading(T + 10 * HOUR, [task("t2", T + 9 * HOUR)]))
    assert record.hours()[("alice", "NVIDIA-GPU")][0] == 3.0
    assert record.ask("last_reading") == T + 10 * HOUR


def wrong_clock(record, jump):
    """Record for five days, then twice by a clock that is wrong by ``jump``, then by the right clock. Task t1 runs all the time."""
    days = [reading(T + day * DAY_S, [task(since=T)]) for day in range(6)]
    record(*days, reading(T + 5 * DAY_S + 60, [task(since=T), task("t2", T + 5 * DAY_S + 30, given=named(B))]))
    now, first = T + 5 * DAY_S, [task(since=T), ended("t2", T + 5 * DAY_S + 90, created=T + 5 * DAY_S)]
    wrong = [reading(now + jump + at, [*first, task("t3", now + 110, given=named(B))]) for at in (120, 180)]
    lines = [record.recorder.observe(one) for one in wrong]
    record(reading(now + 240, [*first, task("t3", now + 110, given=named(B))]), reading(now + HOUR, [task(since=T)]))
    return lines


@pytest.mark.parametrize("jump", [-3 * 365 * DAY_S, -2 * DAY_S, -HOUR])
def test_a_clock_that_was_set_back_changes_nothing_that_was_recorded(jump, record):
    lines = wrong_clock(record, jump)
    (line,) = {line for each in lines for line in each}
    assert "is behind the last reading, 2025-11-13T00:01:00Z. Recorded times stay there until" in line
    now = T + 5 * DAY_S
    assert [(row["task"], row["begin"], row["end"]) for row in record.card(B)] == [("t3", now + 110, now + HOUR), ("t2", now + 30, now + 90)]
    assert record.ask("recorded_since") == T
    days = record.ask("usage_by_day", 0, now, "owner", now)
    assert [row["cards"] for row in days] == [24] * 5
    assert record.hours()[("alice", "NVIDIA-GPU")][0] == pytest.approx(5 * 24 + 1 + (60 + HOUR - 110) / HOUR)


def test_a_clock_that_was_set_back_loses_no_daily_sums_of_deleted_rows(record):
    record(*(reading(T + day * DAY_S, [task(since=T)] if day < 5 else []) for day in range(120)))
    before = record.hours()
    assert record.card() == []
    record.recorder.observe(reading(T - 1000 * DAY_S))
    record(reading(T + 120 * DAY_S))
    assert record.hours() == before == {("alice", "NVIDIA-GPU"): (120.0, 120.0, 24.0)}


def test_a_clock_that_stays_behind_is_believed_after_a_day(record):
    record(*(reading(T + day * DAY_S, [task(since=T)]) for day in range(4)))
    late = T - 100 * DAY_S
    lines = [record.recorder.observe(reading(late + hour * HOUR, [task(since=T)])) for hour in range(27)]
    assert [bool(each) for each in lines] == [True] * 24 + [False] * 3
    assert record.ask("last_reading") == late + 26 * HOUR


@pytest.mark.parametrize("jump", [3 * 365 * DAY_S, 2 * DAY_S])
def test_what_was_recorded_by_a_clock_that_was_ahead_is_corrected(jump, record):
    now = T + 5 * DAY_S
    record(*(reading(T + day * DAY_S, [task(since=T), task("t2", T)]) for day in range(6)))
    record(reading(now + jump, [task("t2", T), task("t3", now + jump - 5)]))
    record(reading(now + 120, [task("t2", T), task("t3", now + jump - 5)]))
    rows = {row["task"]: row for row in record.card()}
    assert (rows["t1"]["end"], rows["t1"]["end_known"]) == (now + 120, False)
    assert record.hours()[("alice", "NVIDIA-GPU")] == pytest.approx((240 + 240 / HOUR, 240 + 240 / HOUR, 120 / HOUR))
    assert rows["t3"]["begin"] == now + 120
    assert max(event["at"] for event in record.events()) == now + 120
    assert [row["cards"] for row in record.ask("usage_by_day", 0, now, "owner", now)] == [48] * 5


# -- hostile and broken ----------------------------------------------------------------------------------------------

NASTY = ["\x1b[2J\x1b[31mred", "<script>alert(1)</script>", "'; DROP TABLE allocations; --", "a\nb\x00c", "\ud800", "x" * 99999, "%s %(x)s", "\u202e"]


@pytest.mark.parametrize("name", NASTY)
def test_hostile_names_are_kept_as_data(name, record):
    services, nodes = [service("s1", name, owner=name)], [node(resources=named(name, kind=name), leader=True)]
    nodes[0]["Description"]["Hostname"] = name
    first = task(given=named(name, kind=name))
    record(reading(T, [first], nodes, services), reading(T + HOUR, [first], nodes, services))
    for by in ("owner", "service", "node"):
        (row,) = record.usage(by=by)
        assert name.replace("\ud800", "?").startswith(row["name"])
        assert row["hours"] == 1.0
    record(reading(T + 2 * HOUR, [], [], []))
    assert all(event["text"].isprintable() and len(event["text"]) <= 500 for event in record.events())


@pytest.mark.parametrize("amount", [0, -5, 2**70])
def test_odd_amounts_do_no_harm(amount, record):
    odd = task(given=[{"DiscreteResourceSpec": {"Kind": "VRAM", "Value": amount}}])
    record(reading(T, [odd]), reading(T + HOUR, [odd]))
    assert len(record.usage()) == (amount > 0)


def test_a_kill_between_two_readings_loses_nothing(record, tmp_path):
    """A new process goes on where the last one stopped."""
    record(NOTHING, reading(T + 60, [task(since=T)]))
    Record(tmp_path)(reading(T + HOUR, [ended(since=T + HOUR)]))
    Record(tmp_path)(reading(T + HOUR + 60, [ended(since=T + HOUR + 50)]))
    assert [(row["begin"], row["end"]) for row in record.card()] == [(T, T + HOUR)]


def test_a_corrupt_record_is_a_finding_and_the_next_reading_begins_a_new_one(record, tmp_path):
    record(reading(T, [task()]))
    (tmp_path / "fleet.db").write_bytes(b"\xff" * 20000)
    lines = [record.recorder.observe(reading(T + at, [task()])) for at in (60, 120, 180)]
    assert [len(line) for line in sorted(lines, key=len)] == [0, 0, 1]
    (line,) = itertools.chain(*lines)
    assert "is corrupt" in line
    assert "and a new record begins." in line
    assert [row["task"] for row in record.card()] == ["t1"]


def test_a_missing_folder_is_a_finding(tmp_path):
    (line,) = Recorder(str(tmp_path / "missing")).observe(NOTHING)
    assert "missing/fleet.db: No such file or directory" in line


def test_a_reader_that_holds_the_file_costs_one_reading(record, tmp_path, monkeypatch):
    monkeypatch.setattr(database, "WRITER_WAITS_S", 0.05)
    record(reading(T, [task()]))
    record.recorder = Recorder(str(tmp_path))
    reader = sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchone()
    (line,) = record.recorder.observe(reading(T + 60, [task()]))
    assert "in use at the moment" in line
    reader.close()
    record(reading(T + 120, [task()]))
    assert record.ask("last_reading") == T + 120
