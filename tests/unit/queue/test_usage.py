# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from queued import GPU, queued
from swarm_api import task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.usage import running_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

QUEUES = check_queues({"research": {"time_limit": "1h"}, "endless": {"time_limit": "none"}})
STARTED = epoch("2026-11-20T12:00:00Z")
NOW = STARTED + 60
ADMITTED = "admitted attempt=1 node=n7 admission=k"


def found(service, *tasks):
    return [(one.node, one.amounts, one.ends, one.placed) for one in running_of(service, tasks, QUEUES, NOW)]


def of(state, desired="running", node_id="n7", forced=0, count=2):
    made = task("t" + state, node_id, state=state, desired=desired, reserves={GPU: count, "NanoCPUs": 10**9})
    made["Spec"]["ForceUpdate"] = forced
    return made


@pytest.mark.parametrize(
    ("service", "tasks", "uses"),
    [
        (queued(queue=None, replicas=1), [of("running")], []),
        (queued(), [], []),
        # from the admission to the end
        (queued(state=ADMITTED, replicas=1), [], [("n7", {GPU: 2}, NOW + 3600, False)]),
        (queued(state=ADMITTED, replicas=1), [of("pending", node_id=None)], [("n7", {GPU: 2}, NOW + 3600, False)]),
        (queued(state=ADMITTED, replicas=1), [of("preparing")], [("n7", {GPU: 2}, STARTED + 3600, True)]),
        (queued(state=ADMITTED, replicas=1), [of("running")], [("n7", {GPU: 2}, STARTED + 3600, True)]),
        (queued(state=ADMITTED, replicas=1), [of("running", desired="shutdown")], [("n7", {GPU: 2}, STARTED + 3600, True)]),
        (queued(state=ADMITTED, replicas=1), [of("complete")], []),
        (queued(state="over attempt=1", replicas=1), [of("failed")], []),
        # waiting for the next try, while the task of the former try may still run
        (queued(state="waiting attempt=1", replicas=1), [of("failed")], []),
        (queued(state="waiting attempt=1", replicas=1), [of("running", desired="shutdown")], [("n7", {GPU: 2}, None, True)]),
        # also work that somebody started by hand
        (queued(replicas=3), [of("running", count=1), of("starting", count=1)], [("n7", {GPU: 1}, None, True)] * 2),
        # without a limit, or with a label that somebody broke
        (queued(state=ADMITTED, replicas=1, queue="endless"), [of("running")], [("n7", {GPU: 2}, None, True)]),
        (queued(state=ADMITTED, replicas=1, time_limit="x"), [of("running")], [("n7", {GPU: 2}, STARTED + 3600, True)]),
        (queued(state=ADMITTED + " limit=60", replicas=1, time_limit="5m"), [of("running")], [("n7", {GPU: 2}, STARTED + 60, True)]),
        (queued(state=ADMITTED + " limit=none", replicas=1, time_limit="5m"), [of("running")], [("n7", {GPU: 2}, None, True)]),
        (queued(state=ADMITTED, replicas=1, time_limit="5m"), [of("running")], [("n7", {GPU: 2}, STARTED + 300, True)]),
    ],
)
def test_usage_counts_from_the_admission_to_the_end(service, tasks, uses):
    assert found(service, *tasks) == uses


def test_another_try_is_not_yet_assigned_while_only_the_former_task_has_ended():
    service = queued(state="admitted attempt=2 node=n8", replicas=1)
    service["Spec"]["TaskTemplate"]["ForceUpdate"] = 1
    assert found(service, of("failed")) == [("n8", {GPU: 2}, NOW + 3600, False)]
    assert found(service, of("running", desired="shutdown")) == [("n7", {GPU: 2}, STARTED + 3600, True), ("n8", {GPU: 2}, NOW + 3600, False)]
    assert found(service, of("failed"), of("running", node_id="n8", forced=1)) == [("n8", {GPU: 2}, STARTED + 3600, True)]


def test_usage_names_queue_and_owner():
    (one,) = running_of(queued(owner="alice", state=ADMITTED, replicas=1), [of("running")], QUEUES, NOW)
    assert (one.service_id, one.queue, one.owner, one.ports) == ("idtrain", "research", "alice", frozenset())
