# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from queued import GPU, gpu_node, queued, state_of

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.admissions import admissions
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.settle import View
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

UPDATED = "2026-11-20T12:00:00Z"
THEN = epoch(UPDATED)


def decided(*services, now=THEN, **options):
    known = {service["ID"]: {**service, "UpdatedAt": UPDATED} for service in services}
    view = View(known, {}, check_queues({"research": {}, "open": {"time_limit": "none"}}), frozenset(), now)
    return admissions(view, state_of([gpu_node("n1"), gpu_node("n2")]), lambda: "k", options.get("refused", {}), options.get("why_none", ""))


def written(found):
    return {change.spec["Name"]: change.spec["Labels"][LABEL] for change in found.changes}


@pytest.mark.parametrize(
    ("state", "replicas", "after"),
    [
        (None, 0, "admitted attempt=1 node=n1 admission=k limit=86400"),
        ("waiting attempt=2 released=2 node=n1", 0, "admitted attempt=3 released=2 node=n1 admission=k limit=86400"),
        ("waiting attempt=1 node=n1 avoids=n1", 1, "admitted attempt=2 node=n2 admission=k limit=86400 avoids=n1"),
        ("waiting attempt=1 node=n1 avoids=n1 result=refused: its GPU is used", 1, "admitted attempt=2 node=n2 admission=k limit=86400 avoids=n1"),
        ("waiting keeps=n2", 0, "admitted attempt=1 node=n1 admission=k limit=86400"),
    ],
)
def test_waiting_work_is_admitted(state, replicas, after):
    assert written(decided(queued("a", state=state, replicas=replicas))) == {"a": after}


@pytest.mark.parametrize(
    "state",
    ["over attempt=1 node=n1", "admitted attempt=1 node=n1", "held attempt=1", "waiting attempt=1 node=n1 admission=k", "rubbish"],
)
def test_no_other_work_is_admitted(state):
    assert written(decided(queued("a", state=state, replicas=1))) == {}


@pytest.mark.parametrize(("attempt", "pause"), [(1, 60), (2, 120), (5, 960), (7, 3600), (400, 3600)])
def test_work_that_was_taken_back_waits_longer_each_time(attempt, pause):
    service = queued("a", state="waiting attempt=%d node=n1 result=taken back: no node" % attempt, replicas=1)
    (waits,) = decided(service, now=THEN + pause - 1).others
    assert waits.problem.endswith("because it was taken back: no node")
    assert written(decided(service, now=THEN + pause)) == {"a": "admitted attempt=%d node=n1 admission=k limit=86400" % (attempt + 1)}


@pytest.mark.parametrize(
    ("label", "queue", "limit"), [(None, "research", "86400"), ("90s", "research", "90"), (None, "open", "none"), ("1d", "open", "86400")]
)
def test_the_state_has_the_time_limit_of_the_admission(label, queue, limit):
    (text,) = written(decided(queued("a", queue=queue, time_limit=label))).values()
    assert text == "admitted attempt=1 node=n1 admission=k limit=" + limit


def test_the_plan_of_a_gang_is_in_each_label_and_other_work_has_none():
    services = [queued("b%d" % rank, gang="train:%d/2 any" % rank) for rank in (0, 1)]
    found = written(decided(queued("a"), *services))
    assert {name for name, text in found.items() if text.endswith(" plan=idb0:n1,idb1:n2")} == {"b0", "b1"}
    assert "plan" not in found["a"]


def ports(found, *names):
    return [re.search(" port=([0-9]+) ", written(found)[name]).group(1) for name in names]


def test_the_journal_says_for_what_nodes_are_kept():
    services = [queued(name, {GPU: 8}) for name in "abc"]
    found = decided(*services, queued("d", queue="gone", state="waiting keeps=n2"))
    assert {change.spec["Name"]: change.text for change in found.changes} == {
        "a": "admitted on node host-n1",
        "b": "admitted on node host-n2",
        "c": "kept for it: host-n1",
        "d": "no node is kept for it any more",
    }


def test_gangs_on_the_same_first_node_have_different_ports():
    """All admissions in this test have the same id, so all would begin with the same port."""
    first, second = ([queued("%s%d" % (name, rank), gang="%s:%d/2 any" % (name, rank)) for rank in (0, 1)] for name in "bc")
    together = ports(decided(*first, *second), "b0", "b1", "c0", "c1")
    assert together[0] == together[1] != together[2] == together[3]
    plan = " admission=k limit=60 port=%s plan=idb0:n1,idb1:n2" % together[0]
    live = [
        queued("b%d" % rank, state="admitted attempt=1 node=n%d%s" % (rank + 1, plan), gang="b:%d/2 any" % rank, replicas=1) for rank in (0, 1)
    ]
    assert ports(decided(*live, *second), "c0", "c1") == together[2:]
    over = [queued("b%d" % rank, state="over attempt=1 node=n%d%s" % (rank + 1, plan), gang="b:%d/2 any" % rank, replicas=1) for rank in (0, 1)]
    assert ports(decided(*over, *second), "c0", "c1") == together[:2]


def test_if_a_member_of_a_gang_may_not_be_admitted_the_others_say_so():
    services = [queued("b%d" % rank, gang="train:%d/2 any" % rank) for rank in (0, 1)]
    others = [queued("c%d" % rank, gang="train:%d/2 any" % rank, owner="alice") for rank in (0, 1)]
    found = decided(*services, *others, refused={"idb1": "swarm refused it"})
    assert {one.name: one.problem for one in found.others} == {"b0": "b1 of its gang waits: swarm refused it", "b1": "swarm refused it"}
    assert set(written(found)) == {"c0", "c1"}


@pytest.mark.parametrize("options", [{"refused": {"ida": "swarm refused it"}}, {"why_none": "swarm refused it"}])
def test_what_swarm_refuses_waits_with_that_reason(options):
    found = decided(queued("a"), **options)
    assert found.changes == found.decisions == []
    assert [one.problem for one in found.others] == ["swarm refused it"]
