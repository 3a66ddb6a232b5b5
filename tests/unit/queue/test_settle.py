# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written about admitted work in situations that rounds rarely meet."""

from __future__ import annotations

import pytest
from queued import GPU, queued
from swarm_api import task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.refusal import with_code
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL, State, from_text
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.service_changes import NOWHERE, own_constraints, started
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.settle import View, settle
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch, stamp

QUEUES = check_queues({"research": {"time_limit": "1h"}, "nightly": {}})
BEGAN = "2026-11-20T12:00:00Z"
NOW = epoch(BEGAN) + 30
PLAN = " plan=ida:n1,idb:n2"
A, B = "admitted attempt=1 node=n1 admission=k" + PLAN, "admitted attempt=1 node=n2 admission=k" + PLAN
REFUSED = with_code("held-twice", "the service a is refused on this node (isolation: exclusive): task b has its GPU")


def member(name, state=None, rank=0, replicas=1, gang="train:%d/2 any", **options):
    labels = {"gang": gang % rank} if gang else {}
    return {**queued(name, {GPU: 8}, state=state, replicas=replicas, **labels, **options), "UpdatedAt": BEGAN}


def runs(name, node_id, state="running", error=None):
    return task("t" + name, node_id, state=state, service="id" + name, reserves={GPU: 8}, restart="none", since=BEGAN, error=error)


def settled(services, tasks, now=NOW):
    """Return the new state of each service that is written, by name."""
    own = {service["ID"]: [one for one in tasks if one["ServiceID"] == service["ID"]] for service in services}
    changes = settle(View({service["ID"]: service for service in services}, own, QUEUES, frozenset(), now))
    return {change.spec["Name"]: change.spec["Labels"][LABEL] for change in changes}


def test_a_gang_that_runs_is_left_alone():
    assert settled([member("a", A), member("b", B, 1)], [runs("a", "n1"), runs("b", "n2")]) == {}


def test_work_that_a_person_scaled_up_is_left_alone():
    assert settled([member("a", "admitted attempt=1 node=n1 admission=k", replicas=2, gang="")], [runs("a", "n1", "complete")]) == {}


@pytest.mark.parametrize("mode", ["Global", "GlobalJob", "ReplicatedJob"])
@pytest.mark.parametrize("state", ["admitted attempt=1 node=n1 admission=k", A, "unreadable"])
def test_a_service_that_is_not_replicated_is_not_written(mode, state):
    """Any update, also of a label, runs a job of swarm again. Somebody may copy the labels of a queued service to such a job."""
    assert settled([member("a", state, mode={mode: {}})], [runs("a", "n1", "complete")], NOW + 7200) == {}


@pytest.mark.parametrize(("result", "then"), [(" result=taken back: no node", "taken back: no node"), ("", "taken back")])
def test_if_an_earlier_round_took_back_a_part_of_a_gang_the_others_follow(result, then):
    services = [member("a", "waiting attempt=1 node=n1 admission=k" + PLAN + result), member("b", B, 1)]
    assert settled(services, [runs("b", "n2")]) == {"b": B.replace("admitted", "waiting") + " result=" + then}


def test_a_member_that_was_never_admitted_stays_as_it_is_after_the_end_of_its_gang():
    assert settled([member("a", A.replace("admitted", "over")), member("b", None, 1, 0)], []) == {}


def test_the_order_of_the_services_does_not_matter():
    services = [member("c", "admitted attempt=1 node=n1 admission=k", gang=""), member("b", B, 1), member("a", A)]
    tasks = [runs("c", "n1", "complete"), runs("b", "n2", "failed"), runs("a", "n1")]
    assert list(settled(services, tasks)) == list(settled(services[::-1], tasks)) == ["c", "a", "b"]


def test_a_gang_waits_again_only_after_all_its_tasks_have_ended():
    back = "waiting attempt=1 node=%s admission=k" + PLAN + " result=taken back: no node"
    services = [member("a", back % "n1"), member("b", back % "n2", 1)]
    assert settled(services, [runs("a", "n1"), runs("b", "n2", "shutdown")]) == {"b": "waiting attempt=1 node=n2 result=taken back: no node"}


def test_a_member_that_completed_before_its_gang_was_taken_back_does_not_run_again():
    back = "waiting attempt=1 node=n1 admission=k" + PLAN + " result=taken back: no node"
    done = B + " result=complete"
    assert settled([member("a", back), member("b", B, 1)], [runs("b", "n2", "complete")]) == {"b": done.replace("admitted", "over")}
    ended = settled([member("a", back), member("b", done.replace("admitted", "over"), 1)], [runs("b", "n2", "complete")])
    assert ended == {"a": "over attempt=1 node=n1 admission=k" + PLAN + " result=stopped: b of its gang ended first (complete)"}


@pytest.mark.parametrize(
    "other",
    [
        member("b", "waiting attempt=1 node=n2 admission=k2" + PLAN, 1),
        member("b", None, 1, 0, queue="nightly"),
        member("b", None, 1, 0, gang=""),
        member("b", "held", 1, 0),
        member("b", None, 1, 1),
        member("other"),
    ],
)
def test_a_gang_is_stopped_if_a_planned_member_cannot_be_admitted_any_more(other):
    found = settled([member("a", A), other], [runs("a", "n1")])
    assert found["a"].startswith("over attempt=1 node=n1 ")
    assert found["a"].endswith(" of its gang was removed, held or changed")
    assert "b" not in found or not found["b"].startswith("admitted")


def test_a_member_that_is_admitted_later_keeps_what_its_state_says_about_earlier_attempts():
    later = member("b", "waiting attempt=3 released=3 node=n9 avoids=n9", 1, 0)
    assert settled([member("a", A), later], [runs("a", "n1")]) == {"b": "admitted attempt=4 released=3 node=n2 admission=k avoids=n9" + PLAN}


@pytest.mark.parametrize(
    ("state", "state_of_task", "seconds", "after"),
    [
        (
            "admitted attempt=1 node=n1 admission=k",
            None,
            600,
            "held attempt=1 node=n1 result=swarm has no record of its task, so nobody knows whether it ran",
        ),
        (
            "admitted attempt=1 node=n1 admission=k",
            "pending",
            60,
            "waiting attempt=1 node=n1 admission=k result=taken back: swarm gave it no node within 60 s",
        ),
        ("waiting attempt=1 node=n1 avoids=n1,n2 result=refused: x", "failed", 600, "waiting attempt=1 node=n1 result=refused: x"),
    ],
)
def test_nothing_is_written_before_its_time(state, state_of_task, seconds, after):
    tasks = [runs("a", "n1" if state_of_task == "failed" else "", state_of_task)] if state_of_task else []
    services = [member("a", state, gang="")]
    assert settled(services, tasks, epoch(BEGAN) + seconds - 1) == {}
    assert settled(services, tasks, epoch(BEGAN) + seconds) == {"a": after}


def test_only_the_member_that_ran_too_long_says_so():
    services = [member("a", A, time_limit="10s"), member("b", B, 1)]
    found = settled(services, [runs("a", "n1"), runs("b", "n2")])
    assert found["a"].endswith(" result=stopped: it ran for longer than its time limit of 10s")
    assert found["b"].endswith(" result=stopped: a of its gang ended first (stopped: it ran for longer than its time limit of 10s)")


@pytest.mark.parametrize(("after", "clock_of_the_node"), [(0, 7200), (0, -7200), (3600, 7200), (3600, -7200)])
def test_a_time_limit_counts_by_the_managers_clock_from_the_admission(after, clock_of_the_node):
    one = runs("a", "n1")
    one["Status"]["Timestamp"] = stamp(epoch(BEGAN) + clock_of_the_node)
    found = settled([member("a", "admitted attempt=1 node=n1 admission=k", gang="")], [one], epoch(BEGAN) + after)
    assert bool(found) == bool(after)


@pytest.mark.parametrize(
    ("limit", "queue", "after", "stops"), [("7200", "research", 7200, True), ("none", "nightly", 10**6, False), ("60", "gone", 60, True)]
)
def test_the_time_limit_at_the_admission_counts_whatever_is_set_later(limit, queue, after, stops):
    service = member("a", "admitted attempt=1 node=n1 admission=k limit=" + limit, gang="", time_limit="5s", queue=queue)
    assert settled([service], [runs("a", "n1")], epoch(BEGAN) + after - 1) == {}
    assert bool(settled([service], [runs("a", "n1")], epoch(BEGAN) + after)) == stops


def test_work_whose_image_is_pulled_for_longer_than_its_time_limit_is_stopped():
    service = member("a", "admitted attempt=1 node=n1 admission=k", gang="", time_limit="10s")
    assert settled([service], [runs("a", "n1", "preparing")])["a"].endswith("result=stopped: it did not run within its time limit of 10s")


def test_a_gang_of_which_a_member_can_never_be_admitted_is_stopped_after_a_while():
    services = [member("a", A), member("b", None, 1, 0)]
    assert list(settled(services, [runs("a", "n1")], NOW + 1700)) == ["b"]
    found = settled(services, [runs("a", "n1")], NOW + 1800)
    assert list(found) == ["a"]
    assert found["a"].endswith(" result=stopped: b of its gang did not run within 30m")


def test_the_label_stays_readable_with_very_many_refusals():
    many = ",".join("x%02d" % number for number in range(64))
    services = [member("a", A), member("b", B.replace(" plan", " avoids=%s plan" % many), 1)]
    found = settled(services, [runs("a", "n1", "failed", REFUSED), runs("b", "n2")])
    assert {from_text(text).state for text in found.values()} == {"waiting"}


def test_after_many_refusals_work_is_over():
    for number, state in [(19, "waiting"), (20, "over")]:
        avoids = ",".join("x%02d" % one for one in range(number))
        service = member("a", "admitted attempt=20 node=n1 admission=k avoids=" + avoids, gang="")
        assert settled([service], [runs("a", "n1", "failed", REFUSED)])["a"].startswith(state)


def test_if_somebody_spoils_the_time_limit_of_running_work_the_limit_of_its_queue_counts():
    service = member("a", "admitted attempt=1 node=n1 admission=k", gang="", time_limit="much")
    assert settled([service], [runs("a", "n1")], NOW + 3000) == {}
    assert settled([service], [runs("a", "n1")], NOW + 3600)["a"].endswith("its time limit of 1h")


@pytest.mark.parametrize(
    ("constraints", "state", "own"),
    [
        (["node.labels.a==b"], State(), ["node.labels.a==b"]),
        ([NOWHERE], State(), [NOWHERE]),
        (["node.id==n1", "node.id==n1"], State("admitted", 1, node="n1"), ["node.id==n1"]),
        (["node.labels.a==b", NOWHERE], State("over", 1, node="n1"), ["node.labels.a==b"]),
        (["node.id==n2"], State("admitted", 1, node="n1"), ["node.id==n2"]),
        (None, State("admitted", 1, node="n1"), []),
    ],
)
def test_only_the_constraint_of_an_admission_is_taken_away(constraints, state, own):
    assert own_constraints({"Placement": {"Constraints": constraints}}, state) == own


@pytest.mark.parametrize(("replicas", "forced"), [(0, None), (1, 1)])
def test_only_another_try_forces_an_update(replicas, forced):
    spec = {**member("a", replicas=replicas)["Spec"], "UpdateConfig": {"Monitor": 5, "Order": "start-first"}}
    spec["TaskTemplate"]["Placement"] = {"Platforms": [{"OS": "linux"}]}
    after = started(spec, State(), State("admitted", 1, node="n1"))
    assert after["TaskTemplate"]["Placement"] == {"Platforms": [{"OS": "linux"}], "Constraints": ["node.id==n1"]}
    assert after["TaskTemplate"].get("ForceUpdate") == forced
    assert after["UpdateConfig"] == {"Monitor": 5, "Order": "stop-first", "Parallelism": 0, "FailureAction": "continue"}
    assert "ForceUpdate" not in spec["TaskTemplate"]
