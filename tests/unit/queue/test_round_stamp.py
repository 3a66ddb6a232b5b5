# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from queue_swarm import QueueSwarm

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.round_stamp import LABEL, Stamp


class Clock:
    now = 10.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def swarm():
    return QueueSwarm([])


def take(stamp, swarm):
    return stamp.take(swarm, swarm.cluster()[0])


def test_the_first_manager_writes_its_stamp_and_again_after_a_minute(clock, swarm):
    stamp = Stamp(clock)
    for passed, text in [(0, "m1 1"), (59, "m1 1"), (1, "m1 2"), (59, "m1 2"), (5, "m1 3")]:
        clock.now += passed
        assert take(stamp, swarm)
        assert swarm.labels[LABEL] == text
    assert "gpu-swarm.queues" in swarm.labels


def test_a_new_process_of_the_same_manager_does_not_wait(clock, swarm):
    swarm.labels[LABEL] = "m1 7"
    assert take(Stamp(clock), swarm)
    assert swarm.labels[LABEL] == "m1 8"


def test_another_manager_takes_over_after_three_minutes_without_a_change(clock, swarm):
    swarm.labels[LABEL] = "m2 7"
    stamp = Stamp(clock)
    assert not take(stamp, swarm)
    clock.now += 179
    swarm.labels[LABEL] = "m2 8"
    assert not take(stamp, swarm)
    clock.now += 179
    assert not take(stamp, swarm)
    clock.now += 1
    assert take(stamp, swarm)
    assert swarm.labels[LABEL] == "m1 9"


def test_of_two_managers_that_take_over_one_is_refused(clock, swarm):
    stamp, cluster = Stamp(clock), swarm.cluster()[0]
    swarm.update_cluster(cluster["Version"]["Index"], {"Labels": {LABEL: "m2 1"}})
    assert not stamp.take(swarm, cluster)
    assert not stamp.is_valid()
    assert not take(stamp, swarm)


def test_a_manager_that_cannot_write_its_stamp_stops_before_another_takes_over(clock, swarm):
    stamp = Stamp(clock)
    assert not stamp.is_valid()
    take(stamp, swarm)
    clock.now += 149
    assert stamp.is_valid()
    clock.now += 1
    assert not stamp.is_valid()
    old = swarm.cluster()[0]
    swarm.update_cluster(old["Version"]["Index"], old["Spec"])
    clock.now -= 89
    assert not stamp.take(swarm, old)
    assert not stamp.is_valid()


def test_a_manager_gives_up_only_its_own_stamp(clock, swarm):
    stamp = Stamp(clock)
    take(stamp, swarm)
    stamp.give_up(swarm)
    assert LABEL not in swarm.labels
    assert not stamp.is_valid()
    take(stamp, swarm)
    swarm.labels[LABEL] = "m2 1"
    version = swarm.version
    stamp.give_up(swarm)
    stamp.give_up(swarm)
    assert (swarm.labels[LABEL], swarm.version) == ("m2 1", version)
