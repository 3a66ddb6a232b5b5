# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two managers take turns to lead and are killed at any update, while people submit work and swarm places it slowly."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from queue_swarm import Driver, QueueSwarm
from queued import GPU, gpu_node, queued

ROUNDS, AT_REST = 60, 80


def submissions(chance):
    """Return lists of services that are submitted together: single ones and gangs."""
    found = []
    for number in range(chance.randint(2, 8)):
        name, gpus, size = "w%d" % number, chance.choice([1, 2, 4, 8]), chance.choice([1, 1, 1, 2, 3])
        labels = [{"gang": "%s:%d/%d any" % (name, rank, size)} if size > 1 else {} for rank in range(size)]
        found.append([queued("%sr%d" % (name, rank), {GPU: gpus}, **one) for rank, one in enumerate(labels)])
    return found


def check_now(swarm):
    """Work runs only while it is admitted, and no node has more than it has."""
    for node in swarm.nodes_now:
        assert swarm.gpus_held(node["ID"]) <= 8
    for service_id, service in swarm.services_now.items():
        running = [task for task in swarm.tasks_of(service_id) if task["Status"]["State"] == "running"]
        assert len(running) <= 1
        assert not running or " admission=" in swarm.state(service["Spec"]["Name"])


def run_day(seed, slow):
    chance = random.Random(seed)
    swarm, left = QueueSwarm([], [gpu_node("n%d" % number) for number in range(3)]), submissions(chance)
    managers, leader = [Driver(swarm, "m1"), Driver(swarm, "m2")], 0
    work = [service["ID"] for together in left for service in together]
    for step in range(ROUNDS + AT_REST):
        busy = step < ROUNDS
        swarm.places = not (busy and slow) or chance.random() < 0.4
        if left and (not busy or chance.random() < 0.5):
            for service in left.pop():
                swarm.submit(service)
        if busy and chance.random() < 0.1:
            leader = 1 - leader
        swarm.killed_after = swarm.writes + chance.randint(0, 4) if busy and chance.random() < 0.3 else None
        for number, manager in enumerate(managers):
            manager.round(10, number == leader)
        check_now(swarm)
        for task in swarm.tasks_now:
            if task["Status"]["State"] == "running" and chance.random() < 0.3:
                swarm.end_task(task)
    return swarm, work


@given(st.integers(0, 10**9))
@settings(max_examples=25)
def test_all_work_runs_exactly_once_whoever_is_killed(seed):
    swarm, work = run_day(seed, slow=False)
    assert Counter(swarm.began) == Counter(work)
    assert {swarm.state(service["Spec"]["Name"]).rpartition("result=")[2] for service in swarm.services_now.values()} == {"complete"}


@given(st.integers(0, 10**9))
@settings(max_examples=25)
def test_if_swarm_places_tasks_late_work_without_a_gang_runs_at_most_once(seed):
    swarm, work = run_day(seed, slow=True)
    alone = {one for one in work if "gpu-swarm.gang" not in swarm.services_now[one]["Spec"]["Labels"]}
    began = Counter(one for one in swarm.began if one in alone)
    assert set(began.values()) <= {1}
    assert set(began) == alone
    assert {swarm.state(service["Spec"]["Name"]).partition(" ")[0] for service in swarm.services_now.values()} == {"over"}
