# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How often the service reads the swarm. If one observer fails, the others still get the reading."""

from __future__ import annotations

import pytest
from queue_fleet import QueueManager, queue
from read_manager import ReadManager, nodes
from swarm_api import A, named, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.reading import read
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.readings import AT_LEAST_S, AT_MOST_S, EVERY_S, SHARE, Observer, Readings
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._record.database import WRITER_WAITS_S
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import assigned


class Watching:
    """An observer that keeps its readings. ``answers`` has the lines to return, or the exception to raise, for each reading."""

    def __init__(self, *answers, needs=lambda leads: True):
        self.readings, self.answers, self.needs = [], list(answers), needs

    def observe(self, reading):
        self.readings.append(reading)
        if not self.answers:
            return []
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def observer(self, name):
        return Observer(name, self.observe, self.needs)


@pytest.fixture
def manager():
    return ReadManager()


@pytest.fixture
def logged():
    return []


def readings_of(manager, logged, *watching):
    return Readings([one.observer(name) for one, name in zip(watching, ("the record", "the page"), strict=False)], logged.append, manager.clock)


@pytest.mark.parametrize(
    ("takes", "look", "after", "again"),
    [
        (0.2, nodes(), EVERY_S - 1, False),
        (0.2, nodes(), EVERY_S, True),
        (2.0, nodes(), EVERY_S, False),  # reading may take at most a hundredth of the time
        (2.0, nodes(), 200, True),
        (0.1, nodes("pause"), AT_LEAST_S - 1, False),
        (0.1, nodes("pause"), AT_LEAST_S, True),
        (0.1, nodes(label=f"fault {A} reason=lost"), AT_LEAST_S, True),
        (0.1, nodes(State="down"), AT_LEAST_S, True),
        (0.2, nodes(label="ok drift=0123abcd"), AT_LEAST_S, False),
        (0.0, nodes(label="ok since=1764000000"), EVERY_S - 1, False),
        (1.0, nodes("pause"), 99, False),  # a flapping node does not cause more reads
        (1.0, nodes("pause"), 100, True),
        (20.0, nodes("pause"), 599, False),
        (20.0, nodes("pause"), 600, True),  # without this reading, the metrics would be too old
        (20.0, nodes(), 599, False),
        (20.0, nodes(), 600, True),
    ],
)
def test_how_often_the_leader_reads(manager, logged, takes, look, after, again):
    manager.takes = takes
    readings = readings_of(manager, logged, Watching())
    readings(manager, nodes(), True)
    manager.now = 1000 + after
    readings(manager, look, True)
    assert manager.readings == 1 + again


@pytest.mark.parametrize(
    ("look", "leads", "after", "again"),
    [
        (nodes(), False, AT_MOST_S - 1, False),
        (nodes(), False, AT_MOST_S, True),
        (nodes(State="down"), False, AT_MOST_S - 1, False),  # only the leader reads after a change
        (nodes(), True, AT_LEAST_S - 1, False),  # leadership that flaps does not cause more reads
        (nodes(), True, AT_LEAST_S, True),
    ],
)
def test_how_often_another_manager_reads(manager, logged, look, leads, after, again):
    readings = readings_of(manager, logged, Watching())
    readings(manager, nodes(), False)
    manager.now = 1000 + after
    readings(manager, look, leads)
    assert manager.readings == 1 + again


def test_the_time_of_observers_counts(manager, logged):
    slow = Watching()

    def observe(reading):
        manager.now += 3
        return slow.observe(reading)

    readings = Readings([Observer("the record", observe)], logged.append, manager.clock)
    readings(manager, nodes(), True)
    for after, expected in ((299, 1), (300, 2)):
        manager.now = 1000 + after
        readings(manager, nodes(), True)
        assert len(slow.readings) == expected


def test_a_reader_that_holds_the_record_delays_the_next_reading_by_two_minutes_at_most():
    assert WRITER_WAITS_S / SHARE <= 2 * EVERY_S


def test_nothing_is_read_while_no_observer_needs_it(manager, logged):
    metrics, record = Watching(needs=lambda leads: leads), Watching(needs=lambda leads: False)
    readings = readings_of(manager, logged, metrics, record)
    readings(manager, nodes(), False)
    assert manager.readings == 0
    readings(manager, nodes(), True)
    assert (manager.readings, len(metrics.readings), record.readings) == (1, 1, [])


def test_all_observers_share_one_reading(manager, logged):
    first, second = Watching(), Watching()
    manager.services = lambda: [{**service(), "Spec": {**service()["Spec"], "Labels": {"gpu-swarm.owner": "alice"}}}]
    readings_of(manager, logged, first, second)(manager, nodes(), True)
    (reading,) = first.readings
    assert (manager.readings, second.readings[0] is reading, logged) == (1, True, [])
    assert (reading.at, reading.leads, reading.swarm_id) == (1795179600, True, "c1")
    assert (reading.manager_id, reading.manager_hostname) == ("n1", "host-n1")
    assert reading.owners == reading.ledger["owners"] == {service()["Spec"]["Name"]: "alice"}
    assert reading.ledger["nodes"][0]["hostname"] == "host-n1"
    assert reading.ledger["swarm"]["last_run"]["hosts"] == {"done": 3}
    assert [one["ID"] for one in reading.tasks] == ["t1"]
    assert {"findings", "explained", "allocation_findings", "classes"} <= set(reading.ledger)


def test_the_variables_and_the_command_of_a_task_are_not_passed_on(manager):
    one = task("t1", given=named(A))
    one["Spec"] = {**(one.get("Spec") or {}), "ContainerSpec": {"Env": ["PASSWORD=secret"], "Args": ["--key=secret"]}, "Networks": [{}]}
    manager.tasks = lambda: [one]
    reading = read(manager, nodes(), True)
    assert "secret" not in repr(reading)
    assert assigned(reading.tasks[0]) == {"NVIDIA-GPU": [A]}
    assert reading.tasks[0]["Spec"]["Resources"] == one["Spec"]["Resources"]


def test_one_that_fails_stops_no_other_and_is_reported_once(manager, logged):
    failing = Watching(GpuSwarmError("the disk is full"), GpuSwarmError("the disk is full"), [], GpuSwarmError("the disk is full"), KeyError("x"))
    other = Watching()
    readings = readings_of(manager, logged, failing, other)
    for _each in range(5):
        readings(manager, nodes(), True)
        manager.now += EVERY_S
    assert len(other.readings) == 5
    assert logged == ["the disk is full", "the disk is full", "the record failed: KeyError('x'). Please report that."]


def test_a_line_is_printed_once_until_it_is_gone(manager, logged):
    readings = readings_of(manager, logged, Watching(["a", "b"], ["b"], ["a"]))
    for _each in range(3):
        readings(manager, nodes(), True)
        manager.now += EVERY_S
    assert logged == ["a", "b", "a"]


def test_a_failed_reading_is_reported_once_and_tried_again(manager, logged):
    watching = Watching()
    readings = readings_of(manager, logged, watching)
    manager.failure = "the manager does not answer"
    for _each in range(3):
        readings(manager, nodes(), True)
        manager.now += 5
        readings(manager, nodes("pause"), True)
        manager.now += EVERY_S
    assert (logged, watching.readings) == (["the manager does not answer"], [])
    manager.failure = None
    readings(manager, nodes("pause"), True)
    assert (len(watching.readings), len(logged)) == (1, 1)


def test_another_manager_tries_again_a_minute_after_a_failed_reading(manager, logged):
    watching = Watching()
    readings = readings_of(manager, logged, watching)
    manager.failure = "the manager does not answer"
    readings(manager, nodes(), False)
    manager.failure = None
    for after, expected in ((EVERY_S - 1, 0), (EVERY_S, 1), (EVERY_S + AT_MOST_S - 1, 1), (EVERY_S + AT_MOST_S, 2)):
        manager.now = 1000 + after
        readings(manager, nodes(), False)
        assert len(watching.readings) == expected


def test_an_unknown_answer_does_not_end_the_service(manager, logged):
    readings_of(manager, logged, Watching())(manager, [{"ID": "g1", "Spec": {"Labels": 5}}], True)
    assert logged[0].startswith("the reading of the swarm failed: ")


def test_the_queues_are_computed_once_for_all_observers(logged):
    first, second = Watching(), Watching()
    asked = QueueManager()
    asked.clock = lambda: 1000
    readings_of(asked, logged, first, second)(asked, asked.nodes(), True)
    assert first.readings[0] is second.readings[0]
    assert (first.readings[0].ledger["queue"], logged) == (queue(), [])


def test_a_swarm_without_queues_has_no_view_of_them(manager, logged):
    watching = Watching()
    readings_of(manager, logged, watching)(manager, nodes(), True)
    assert watching.readings[0].ledger["queue"] is None


def test_an_odd_service_of_a_queue_does_not_keep_the_rest_from_being_observed(logged):
    watching, asked = Watching(), QueueManager()
    asked.clock = lambda: 1000
    asked.services()[1]["Spec"]["EndpointSpec"] = "no object"
    readings_of(asked, logged, watching)(asked, asked.nodes(), True)
    assert [one.ledger["queue"] for one in watching.readings] == [None]
    assert "the view of the queues failed" in logged[0]
