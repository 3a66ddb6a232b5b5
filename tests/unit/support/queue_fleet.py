# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small swarm with queues in which work runs, waits, is held, and cannot be queued. For the code that shows queues."""

from __future__ import annotations

from queued import GPU, gpu_node, held, queued
from swarm_api import cluster, pending, service

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.read_queue import queue_in
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

LABELS = {"gpu-swarm.queues": '{"nightly":{"priority":-10},"research":{"max":{"NVIDIA-GPU":12},"time_limit":"8h","weight":3}}'}
SPEC = cluster(LABELS)["Spec"]
NOW = epoch("2026-11-20T14:00:00Z")
BEGAN = "2026-11-20T13:00:00Z"


def swarm(waiting=3):
    """Return the lists of the swarm. ``waiting`` is how many pieces of alice's work wait in the queue research behind the first."""
    services = [
        queued("train", {GPU: 8}, state="admitted attempt=1 node=n1 admission=k", replicas=1, owner="alice", constraints=["node.id==n1"]),
        queued("big", {GPU: 4}, owner="alice", state="waiting keeps=n2"),
        *(queued("sweep-%05d" % number, {GPU: 1}, owner="alice", priority="-1") for number in range(waiting)),
        queued("huge", {GPU: 16}, queue="nightly", owner="bob"),
        queued("stopped", queue="nightly", state="over attempt=1 node=n2 result=stopped", replicas=1, constraints=["node.id==nowhere"]),
        queued("again", queue="nightly", state="over attempt=1 node=n2 result=complete"),
        queued("odd", queue="nightly", condition="any"),
        queued("typo", queue="reserch"),
        service("web", "web", reserves={GPU: 6}),
    ]
    tasks = [
        {**held("n1", 8, "idtrain"), "Spec": {**held("n1", 8)["Spec"], "Placement": {"Constraints": ["node.id==n1"]}}},
        held("n2", 6, "web"),
        pending("t9", {GPU: 2}, service="idstopped", constraints=["node.id==nowhere"], restart="none"),
    ]
    tasks[0]["CreatedAt"] = BEGAN
    tasks[0]["Status"].update(Timestamp=BEGAN, ContainerStatus={"ContainerID": "c"})
    return Listed([gpu_node("n1"), gpu_node("n2")], tasks, [{**one, "UpdatedAt": BEGAN} for one in services], NOW)


def queue(waiting=3):
    return queue_in(swarm(waiting), SPEC, NOW)


class QueueManager:
    """The manager of that swarm."""

    swarm_id, node_id, autolocked, spec, time = "c1", "n1", False, SPEC, "2026-11-20T14:00:00Z"

    def __init__(self, waiting=3):
        self._listed = swarm(waiting)

    def nodes(self):
        return self._listed.nodes

    def tasks(self):
        return iter(self._listed.tasks)

    def services(self):
        return self._listed.services

    def cluster(self):
        return cluster(LABELS), self.time
