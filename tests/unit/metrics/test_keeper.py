# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the metrics file: how often the leader reads tasks for the file, and what a manager does with the file if another manager leads."""

from __future__ import annotations

import pytest
from swarm_api import A, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._metrics.keeper import AT_LEAST_S, EVERY_S, Keeper
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement import explain
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError

NOW = "2026-11-20T13:00:00.5Z"
NOTE = '{"ended": "2026-11-20T12:00:00Z", "hosts": {"done": 3}}'


class FakeManager:
    swarm_id = "c1"

    def __init__(self, takes=0.0):
        self.takes, self.now, self.readings, self.failure = takes, 1000.0, 0, None

    def clock(self):
        return self.now

    def cluster(self):
        return {"Spec": {"Labels": {"gpu-swarm.last-run": NOTE}}}, NOW

    def tasks(self):
        self.readings += 1
        self.now += self.takes
        if self.failure:
            raise SwarmError(self.failure)
        return iter([task("t1", given=named(A))])

    def services(self):
        return [service()]


def nodes(availability="active", label="ok", **status):
    one = node(resources=named(A), availability=availability, leader=True, **status)
    one["Description"]["Engine"]["Labels"] = {KEY: label}
    return [one]


@pytest.fixture
def manager():
    return FakeManager()


@pytest.fixture
def logged():
    return []


@pytest.fixture
def keeper(tmp_path, manager, logged):
    return Keeper(str(tmp_path), logged.append, manager.clock)


def test_the_leader_writes_the_file_at_once(keeper, manager, tmp_path, logged):
    keeper(manager, nodes(), True)
    text = (tmp_path / "gpu-swarm.prom").read_text()
    assert 'gpu_swarm_info{swarm="c1",leader="host-n1",leader_version="26.1.5+dfsg1",source="reactor"} 1' in text
    assert 'gpu_swarm_run_hosts{outcome="done"} 3' in text
    assert f'gpu_swarm_gpu_allocated{{UUID="{A}"' in text
    assert logged == []


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
        (20.0, nodes("pause"), 600, True),  # without this reading, the file would be too old
        (20.0, nodes(), 599, False),
        (20.0, nodes(), 600, True),
    ],
)
def test_how_often_the_tasks_are_read(keeper, manager, takes, look, after, again):
    manager.takes = takes
    keeper(manager, nodes(), True)
    manager.now = 1000 + after
    keeper(manager, look, True)
    assert manager.readings == 1 + again


def test_of_many_pending_services_only_those_in_the_file_are_explained(keeper, manager, tmp_path, monkeypatch):
    # The thread that pauses nodes compares each explained service with every node.
    explained = []
    real = explain.explain
    monkeypatch.setattr(explain, "explain", lambda service, *more: explained.append(service["Spec"]["Name"]) or real(service, *more))
    names = [f"service-{number:02}" for number in range(60)]
    manager.services = lambda: [service(name, name, reserves={"NVIDIA-GPU": 1}) for name in names]
    manager.tasks = lambda: [
        pending(f"task-{name}", {"NVIDIA-GPU": 1}, service=name, since=f"2026-11-20T12:{59 - number:02}:00Z") for number, name in enumerate(names)
    ]
    keeper(manager, nodes(), True)
    text = (tmp_path / "gpu-swarm.prom").read_text()
    assert explained == names[10:]
    assert [name for name in names if f'gpu_swarm_pending_possible{{service="{name}"}} 1' in text] == names[10:]
    assert 'gpu_swarm_pending_tasks{service="(others)"} 10' in text


def test_a_manager_removes_the_file_when_it_stops_leading(keeper, manager, tmp_path, logged):
    keeper(manager, nodes(), True)
    keeper(manager, nodes(), False)
    keeper(manager, nodes(), False)
    assert list(tmp_path.iterdir()) == []
    assert logged == [f"this manager does not lead: {tmp_path}/gpu-swarm.prom is removed"]
    keeper(manager, nodes(), True)
    assert (manager.readings, len(list(tmp_path.iterdir()))) == (2, 1)


def test_an_unknown_answer_does_not_end_the_service(keeper, manager, tmp_path, logged):
    broken = [{"ID": "g1", "Spec": {"Labels": 5}}]
    keeper(manager, broken, True)
    assert logged[0].startswith("the metrics could not be computed: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("directory", ["", "none"])
def test_without_a_directory_nothing_is_read(manager, tmp_path, logged, directory):
    keeper = Keeper(directory and str(tmp_path / directory), logged.append, manager.clock)
    for leads in (True, False):
        keeper(manager, nodes(), leads)
    assert (manager.readings, logged, list(tmp_path.iterdir())) == (0, [], [])


def test_an_error_is_reported_once_and_the_old_file_stays(keeper, manager, tmp_path, logged):
    keeper(manager, nodes(), True)
    before = (tmp_path / "gpu-swarm.prom").read_text()
    manager.failure = "the manager does not answer"
    for _each in range(3):
        manager.now += EVERY_S
        keeper(manager, nodes("pause"), True)
        manager.now += 5
        keeper(manager, nodes("pause"), True)
    assert (logged, (tmp_path / "gpu-swarm.prom").read_text()) == (["the manager does not answer"], before)
    manager.failure, manager.now = None, manager.now + EVERY_S
    keeper(manager, nodes("pause"), True)
    assert 'gpu_swarm_nodes{state="paused",by="hand"} 1' in (tmp_path / "gpu-swarm.prom").read_text()
    assert len(logged) == 1
