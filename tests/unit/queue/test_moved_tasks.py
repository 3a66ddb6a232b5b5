# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from queued import GPU, queued
from swarm_api import task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.census import Census
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.moved_tasks import LONGEST_S, MOST, may_be_moved, moved_since, moved_work
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch, stamp

BEGAN = epoch("2026-11-20T12:00:00Z")


def swarm(since=0, until=3600, **more):
    return {"Labels": {"gpu-swarm.lease": json.dumps({"holder": "a run", "since": stamp(BEGAN + since), "until": stamp(BEGAN + until), **more})}}


@pytest.mark.parametrize(
    ("spec", "passed", "since"),
    [
        (swarm(), 60, 0),
        (swarm(), LONGEST_S, 0),
        (swarm(), LONGEST_S + 1, 1),  # a run of hours
        (swarm(), 3599, 1799),
        (swarm(), 3600, None),  # its lease has ended
        ({"Labels": {"gpu-swarm.lease": "somebody else's text"}}, 60, None),
        ({"Labels": {}}, 60, None),
        ({}, 60, None),
    ],
)
def test_only_a_run_that_has_the_lease_moves_tasks(spec, passed, since):
    assert moved_since(spec, BEGAN + passed) == (None if since is None else BEGAN + since)


@pytest.mark.parametrize(
    ("options", "since", "may"),
    [
        ({}, 0, True),
        ({"state": "new"}, 0, True),
        ({"desired": "ready"}, 0, True),
        ({}, 1, False),
        ({}, None, False),
        ({"state": "assigned"}, 0, False),
        ({"desired": "shutdown"}, 0, False),
        ({"node_id": "n1"}, 0, False),  # a task of a global service
    ],
)
def test_tasks_that_wait_since_the_run_began_may_be_moved(options, since, may):
    one = task("t", **{"node_id": "", "state": "pending", "since": stamp(BEGAN), **options})
    assert may_be_moved(one, None if since is None else BEGAN + since) == may


def web(name="web", condition="any"):
    return queued(name, {GPU: 8}, queue=None, replicas=1, condition=condition)


def waits(name="web", slot=1, at=0, **options):
    options = {"node_id": "", "state": "pending", "since": stamp(BEGAN + at), "service": "id" + name, "slot": slot, **options}
    return task("t%s%d%d" % (name, slot, at), **options)


def ended(name="web", slot=1):
    return waits(name, slot, -60, state="shutdown", desired="shutdown", node_id="n1")


def found(services, tasks):
    census = Census()
    for one in tasks:
        census.add(one, None)
    return moved_work([one for one in tasks if may_be_moved(one, BEGAN)], services, census)


def test_a_moved_task_becomes_work_without_a_queue():
    (work,) = found([web()], [ended(), waits()])
    assert (work.service_id, work.name, work.queue, work.since, work.demand.wants) == ("idweb", "web", "", BEGAN, {GPU: 8})


@pytest.mark.parametrize(
    ("services", "tasks"),
    [
        ([web()], [waits()]),  # a new service never had room
        ([web()], [ended(), waits(slot=2)]),  # nor had a new replica
        ([web(condition="none")], [ended(), waits(restart="none")]),
        ([], [ended(), waits()]),
    ],
)
def test_other_waiting_tasks_are_not_moved(services, tasks):
    assert found(services, tasks) == []


def test_the_oldest_task_of_each_service_counts_and_there_are_not_very_many():
    names = ["s%02d" % number for number in range(MOST + 5)]
    tasks = [one for number, name in enumerate(names) for one in (ended(name), waits(name, at=100 - number), ended(name, 2), waits(name, 2, 200))]
    works = found([web(name) for name in names], tasks)
    assert [(work.name, work.since) for work in works] == [(name, BEGAN + 100 - number) for number, name in reversed(list(enumerate(names)))][:MOST]
