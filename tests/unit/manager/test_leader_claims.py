# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A restarted leader may allocate GPUs of running tasks again. Each leader records these GPUs once."""

from __future__ import annotations

import copy
import os

import pytest
from swarm_api import A, B, cluster, named, node, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.claims import allocatable_again
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.leader_claims import EVERY_S, LeaderClaims
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import isolation
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.isolation import Isolation
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError

C = "GPU-5fa2e7a4-0000-4c53-9d1f-0c9a7d1e2f32"
NODE = node("n1", resources=named(A, B, C))
HAS_B = task("t1", "n1", given=named(B))


@pytest.mark.parametrize(
    ("tasks", "wrong"),
    [
        ([], {}),
        ([task("t1", "n1", given=named(A))], {}),
        ([HAS_B], {"t1": [B]}),
        ([HAS_B, task("t2", "n1", given=named(A))], {}),
        ([HAS_B, task("t2", "n1", given=named(C))], {"t2": [C]}),
        ([task("t1", "n1", given=named(A, C))], {"t1": [C]}),
        ([task("t1", "n1", given=named(B), state="failed")], {}),
        ([task("t1", None, given=named(B), state="pending")], {}),
        ([task("t1", "n2", given=named(B))], {}),  # a task of another node
        ([task("t1", "n1", given=named("GPU-gone"))], {}),  # the node no longer has this card, so no task gets it
        ([task("t1", "n1", given=[{"DiscreteResourceSpec": {"Kind": "VRAM", "Value": 5}}])], {}),
    ],
)
def test_a_leader_counts_from_the_front_of_the_list(tasks, wrong):
    assert allocatable_again([NODE, node("n2", resources=named(B))], tasks) == wrong


class Swarm:
    def __init__(self, level="exclusive", tasks=(HAS_B,)):
        self.node_id = "m1"
        self.spec = isolation.write(cluster()["Spec"], Isolation(level, 5, {"n1": level}))
        self.version, self.written, self.listed = 1, 0, list(tasks)
        self.problem, self.between = None, lambda: None

    def cluster(self):
        if self.problem:
            raise self.problem
        return {"Spec": copy.deepcopy(self.spec), "Version": {"Index": self.version}}, "2026-11-21T02:10:00Z"

    def tasks(self):
        return iter(self.listed)

    def update_cluster(self, version, spec):
        self.between()
        if version != self.version:
            raise OutOfSequence("update out of sequence")
        self.spec, self.version, self.written = spec, version + 1, self.written + 1

    @property
    def noted(self):
        return isolation.read(self.spec)


class Unit:
    """The unit of one manager. The age of a file is the age of its dockerd."""

    def __init__(self, tmp_path):
        self.pid = tmp_path / "docker.pid"
        self.pid.touch()
        self.now, self.said = 0.0, []
        self.claims = LeaderClaims(self.said.append, lambda: self.now, str(self.pid))

    def poll(self, swarm, leads=True):
        self.claims(swarm, [NODE], leads)

    def restart(self):
        os.utime(self.pid, ns=(1, 1))


@pytest.fixture
def unit(tmp_path):
    return Unit(tmp_path)


def test_a_leader_notes_what_it_counts_wrong_once(unit):
    swarm = Swarm()
    unit.poll(swarm)
    assert swarm.noted.again == {"t1": (B,)}
    assert unit.said == [f"this leader may allocate {B} again, although task t1 has it"]
    unit.poll(swarm)
    unit.now += EVERY_S
    unit.poll(swarm)
    assert (swarm.written, len(unit.said)) == (1, 1)


def test_later_allocations_are_counted_correctly(unit):
    """The leader counts only tasks wrong that are older than the leader. It counts the tasks correctly that it has placed itself."""
    swarm = Swarm(tasks=[])
    unit.poll(swarm)
    swarm.listed = [HAS_B]
    unit.now += EVERY_S
    unit.poll(swarm)
    assert (swarm.written, swarm.noted.again) == (1, {})


def test_a_restarted_leader_records_again(unit):
    swarm = Swarm(tasks=[])
    unit.poll(swarm)
    swarm.listed = [HAS_B]
    unit.restart()
    unit.poll(swarm)
    assert swarm.noted.again == {"t1": (B,)}


def test_each_new_leader_records_again(unit, tmp_path):
    swarm = Swarm(tasks=[])
    unit.poll(swarm)
    unit.poll(swarm, leads=False)
    (tmp_path / "other").mkdir()
    other = Unit(tmp_path / "other")
    swarm.node_id = "m2"
    other.poll(swarm)
    swarm.node_id, swarm.listed = "m1", [HAS_B]
    unit.poll(swarm)
    assert (swarm.written, swarm.noted.again) == (3, {"t1": (B,)})


def test_a_node_that_advertises_anything_fills_no_label_and_no_journal(unit):
    names = ["x\x1b[2J" * 999 + str(number) for number in range(500)]
    swarm = Swarm(tasks=[task("t%d" % number, "n1", given=named(name)) for number, name in enumerate(names)])
    unit.claims(swarm, [node("n1", resources=named(*("free%d" % number for number in range(500)), *names))], True)
    assert len(swarm.noted.again) == 100
    assert len(swarm.spec["Labels"][isolation.LABEL]) < 30_000
    assert all(line.isprintable() for line in unit.said)


@pytest.mark.parametrize(("level", "leads"), [("off", True), ("exclusive", False)])
def test_otherwise_nothing_is_written(unit, level, leads):
    swarm = Swarm(level)
    unit.poll(swarm, leads)
    assert (swarm.written, unit.said) == (0, [])


def test_a_level_that_is_set_later_is_noticed(unit):
    swarm = Swarm("off")
    unit.poll(swarm)
    swarm.spec = isolation.write(swarm.spec, Isolation("exclusive", 9))
    unit.poll(swarm)
    assert swarm.written == 0
    unit.now += EVERY_S
    unit.poll(swarm)
    assert swarm.written == 1


def test_a_concurrent_change_of_the_label_is_not_lost(unit):
    swarm = Swarm()

    def run():
        swarm.between = lambda: None
        swarm.spec, swarm.version = isolation.write(swarm.spec, Isolation("reserved", 7, {"n1": "reserved"})), 2

    swarm.between = run
    unit.poll(swarm)
    assert (swarm.noted.level, swarm.noted.since, swarm.noted.again) == ("reserved", 7, {"t1": (B,)})


def test_a_silent_manager_is_reported_once_and_called_again(unit):
    swarm = Swarm()
    swarm.problem = SwarmError("the swarm has no leader")
    unit.poll(swarm)
    unit.poll(swarm)
    assert unit.said == ["the GPUs that this leader counts wrongly could not be noted: the swarm has no leader"]
    swarm.problem = None
    unit.poll(swarm)
    assert swarm.noted.again == {"t1": (B,)}


def test_an_unexpected_error_does_not_end_the_service(unit):
    swarm = Swarm(tasks=[{"ID": "t1"}])
    unit.poll(swarm)
    assert unit.said == ["the GPUs that this leader counts wrongly could not be noted: KeyError('Status'). Please report that."]


def test_a_run_keeps_the_label_as_long_as_there_is_a_level():
    before = Isolation("exclusive", 5, {"n1": "exclusive"}, leader="m1/1", again={"t1": (B,)})
    for level in ("audit", "reserved"):
        after = isolation.merged(before, {"level": level}, 9)
        assert (after.leader, after.again) == ("m1/1", {"t1": (B,)})
    assert isolation.merged(before, {"level": "off"}, 9) == Isolation("off", 9, {"n1": "exclusive"})
    assert isolation.read(isolation.write({}, before)) == before


@pytest.mark.parametrize("again", [[], ["t1"], {"t1": 5}, 7])
def test_a_damaged_label_is_no_level(again):
    spec = isolation.write({}, Isolation("exclusive", 5))
    spec["Labels"][isolation.LABEL] = spec["Labels"][isolation.LABEL].replace("}", ', "again": %s}' % str(again).replace("'", '"'))
    assert isolation.read(spec).level == ("exclusive" if again == [] else "unknown")
