# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Work of queues on nodes that a run changes: the run waits for it as for jobs, and it never stops the run."""

from __future__ import annotations

import pytest
from fleet_lab import assessed, planned
from queued import GPU, gpu_node, queued
from swarm_api import discrete, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.room import newly_pending, rooms
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import by_ledger, member_of

ADMITTED = "admitted attempt=1 node=n1 admission=k"


def book(state=None, node_id="n1", **options):
    """Return the ledger of a swarm with one admitted service and its task; without ``state``, swarm has created no task yet."""
    service = queued(state=ADMITTED, replicas=1)
    service["Spec"]["TaskTemplate"]["Placement"] = {"Constraints": ["node.id==n1"]}
    tasks = [task("t1", node_id, discrete(2, GPU) if node_id else (), state, service="idtrain", reserves={GPU: 2}, restart="none")] if state else []
    return ledger(Listed([gpu_node("n1", **options), gpu_node("n2")], tasks, [service], 1_000_000.0), "gpu-swarm.")


def blocking(found):
    host = {"gpu_node_assessed": assessed("n1"), **planned("a", disrupt="services")}
    return by_ledger([member_of("a", host)], found).blocking()


@pytest.mark.parametrize("state", ["assigned", "accepted", "preparing", "starting", "running"])
def test_admitted_work_on_the_node_is_waited_for_from_its_placement_on(state):
    (text,) = blocking(book(state))
    assert text.startswith("task train.1 of service train")


@pytest.mark.parametrize("state", [None, "complete", "failed", "shutdown"])
def test_nobody_waits_for_work_without_a_live_task(state):
    assert blocking(book(state)) == []


@pytest.mark.parametrize("availability", ["active", "pause", "drain"])
def test_admitted_work_without_a_node_neither_holds_up_the_run_nor_stops_it(availability):
    """Swarm places nothing on a paused node, so after the pause no more work comes to the node."""
    found = book("pending", "", availability=availability)
    assert blocking(found) == []
    for before in (book(), book("running"), book("pending", "")):
        assert newly_pending(found, rooms(before)) == []
