# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The comparisons that tests/e2e/test_day.py makes: they accept a true record, and find each lie."""

from __future__ import annotations

import pytest
from day_on_a_fleet import BROKEN, H100, T4, at, readings

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.fleet_view import FleetView
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics.samples import rendered
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._page.page import page
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._page.page_data import page_data
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record import queries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import open_for_reading
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.recorder import Recorder
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._page_template.page_template import page_template
from tests.e2e import one_story
from tests.e2e.one_story import Held, Span

NAMES = {"n1": "gpu-1", "n2": "gpu-2"}
FAULT, EVENING = at(4), at(8)
AWAY, BACK = at(5, 10), at(6, 40)


def cards_of(directory):
    """Return the rows of ``gpu-swarm card`` for all cards, the usage, the events, and the last reading."""
    db = open_for_reading(str(directory))
    try:
        rows = [{**row, "card": uuid} for uuid in (*H100, *T4) for row in queries.card(db, uuid)["allocations"]]
        usage, events = queries.usage(db, 0, EVENING, "owner", EVENING), queries.events(db, 0, EVENING)
        return rows, usage, events, queries.last_reading(db)
    finally:
        db.close()


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """Record the day, and observe its tasks as the test on the lab does."""
    folder, happened = tmp_path_factory.mktemp("day"), {}
    recorder = Recorder(str(folder))
    for one in readings():
        recorder.observe(one)
        services = {made["ID"]: made["Spec"]["Name"] for made in one.services}
        for task in one.tasks:
            service, card = services[task["ServiceID"]], task["GenericResources"][0]["NamedResourceSpec"]["Value"]
            held = one_story.observed(happened.get(task["ID"]), task, service, one.owners.get(service, ""), NAMES[task["NodeID"]], card)
            happened[task["ID"]] = held
    # t5 began and ended while the manager was away.
    (begin, _begin), (end, _end) = happened["t5"].begin, happened["t5"].end
    happened["t5"] = happened["t5"]._replace(begin=Span(begin, begin), unsure=Span(end - begin, end - begin), is_begin_known=False)
    return list(happened.values()), *cards_of(folder)


def test_a_true_record_has_no_differences(day):
    happened, rows, usage, events, last = day
    assert len(happened) == 6
    assert one_story.differences(happened, rows) == []
    assert one_story.wrong_hours(happened, usage, last) == []
    assert one_story.wrong_sums(rows, usage, last) == []
    assert one_story.told_twice(events) == []
    # t5 is no allocation that both saw running.
    assert one_story.disagreements(rows, rows) == (2, [])


def changed(rows, task, /, **values):
    return [{**row, **values} if row["task"] == task else row for row in rows]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"owner": "bob"}, "owner is 'bob', expected 'alice'"),
        ({"hostname": "gpu-2"}, "hostname is 'gpu-2'"),
        ({"begin": at(0, 20)}, f"began at {at(0, 20)}"),
        ({"begin_known": False}, "begin_known is False"),
        ({"end": at(3, 8)}, f"ended at {at(3, 8)}"),
        ({"end": None}, "ended at None"),
        ({"end_known": False}, "end_known is False"),
        ({"task": "t9"}, "0 rows for the task t2"),
    ],
)
def test_each_lie_about_an_allocation_is_found(day, values, text):
    happened, rows, _usage, _events, _last = day
    assert text in one_story.differences(happened, changed(rows, "t2", **values))[0]


def test_an_allocation_that_never_was_is_found(day):
    happened, rows, _usage, _events, _last = day
    assert "2 rows for the task t1" in one_story.differences(happened, [*rows, *(row for row in rows if row["task"] == "t1")])[0]
    assert "nothing is known about" in one_story.differences(happened[1:], rows)[0]
    assert "ended at" in one_story.differences(happened, changed(rows, "t1", end=at(7)))[0]


@pytest.mark.parametrize("key", ["hours", "estimated", "cards"])
def test_wrong_hours_are_found(day, key):
    happened, _rows, usage, _events, last = day
    wrong = [{**row, key: row[key] + 0.1} if row["name"] == "alice" else row for row in usage]
    assert any(text.startswith("alice: ") for text in one_story.wrong_hours(happened, wrong, last))
    more = Held("t7", "new", "eve", "gpu-1", T4[3], Span(at(1), at(1)))
    assert one_story.wrong_hours([*happened, more], usage, last) == ["eve is not in the usage"]


def test_a_sum_that_differs_from_its_rows_is_found(day):
    _happened, rows, usage, _events, last = day
    (wrong,) = one_story.wrong_sums(changed(rows, "t6", begin=at(6, 50)), usage, last)
    assert wrong.startswith(": 3600.0 s, and the sum of the cards is 4200 s")


def test_managers_that_disagree_are_found(day):
    _happened, rows, _usage, _events, _last = day
    assert one_story.disagreements(rows, changed(rows, "t4", end=at(4, 1), how="failed")) == (
        2, [f"('t4', '{T4[1]}'): [({at(4)}, {at(4, 1)}), ('complete', 'failed')]"],
    )  # fmt: skip


HAPPENED = [
    {"availability.new": "pause"}, {"state.new": "unknown"}, {"state.new": "ready"}, {"availability.new": "drain"}, {"availability.new": "active"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("told", "is_true"),
    [
        (["node-paused", "node-drained", "node-returned"], True),
        (["node-drained", "node-returned"], True),  # a reading missed the pause
        (["node-paused", "node-down", "node-up", "node-returned"], True),
        ([], True),
        (["node-drained", "node-paused", "node-returned"], False),
        (["node-paused", "node-paused", "node-returned"], False),
        (["node-paused"], False),
        (["node-down"], False),
    ],
)
def test_what_was_told_about_a_node_must_have_happened(told, is_true):
    events = [{"what": what, "hostname": "g1", "since": number} for number, what in enumerate(told)]
    assert (one_story.invented([*reversed(events), {"what": "node-down", "hostname": "g2", "since": 3}], "g1", HAPPENED) == []) is is_true


def test_an_event_that_is_told_twice_is_found():
    event = {"what": "fault", "hostname": "g1", "card": BROKEN, "cause": "lost", "since": 5}
    assert one_story.told_twice([event, {**event, "since": 6}]) == []
    assert len(one_story.told_twice([event, {**event, "at": 9}])) == 1


def test_ledger_page_and_metrics_name_the_same_holders_and_faults():
    reading = next(one for one in readings() if one.at == FAULT)
    status, cards = FleetView(100).of(reading)
    html = page(page_template(), page_data(status, cards, None, None, None, at=FAULT, manager="m1"))
    told = one_story.cards_of_snapshot(cards)
    assert told == one_story.cards_of_page(one_story.page_data(html))
    assert told == one_story.cards_of_metrics(one_story.samples(rendered(reading.ledger, FAULT, "reactor")))
    assert (told.faults, told.holders[H100[0]], told.holders[T4[0]]) == ({BROKEN}, ("train", "alice"), ("chat", "bob"))
