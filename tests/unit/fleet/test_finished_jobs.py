# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds finished jobs that Swarm would run again after an update of their node."""

from __future__ import annotations

from dataclasses import asdict, replace

import fleet_lab
import pytest
from fleet_lab import BOUND, host, member, swarm, task
from node_lab import UUIDS, resources

from ansible_collections.fleet.gpu_swarm.plugins.action.provision_plan import _steps
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.finished_jobs import jobs_that_run_again
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import END, IDLE, LABEL, MARKED
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.consent import plan_finished_jobs
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import only_paused, plan
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.manager_updates import availability_updates
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.manager_updates import finished_jobs as on
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import view

KIND = "NVIDIA-GPU"
SAME, RENAMED = resources(0, 1), resources(0, 1, kind="TRAINING")
WORDS = "finished job sweep, which would run again (provision_remove_finished_jobs: true removes it)"


def finished(service="sweep", node="n1", kind=KIND, values=(UUIDS[0],), amount=1, clash=False):
    return {"service": service, "node": node, "kind": kind, "values": values and list(values), "amount": amount, "tasks": 1, "clash": clash}


CASES = {
    "nothing finished": ([], RENAMED, []),
    "its GPU stays": ([finished()], SAME, []),
    "the kind is no longer advertised": ([finished()], RENAMED, ["sweep"]),
    "its GPU is no longer advertised": ([finished()], resources(1), ["sweep"]),
    "another GPU is no longer advertised": ([finished()], resources(0), []),
    "its GPU is allocated again": ([finished(clash=True)], SAME, ["sweep"]),
    "its GPU is allocated again, and the node's resources are unknown": ([finished(clash=True)], None, ["sweep"]),
    "the node's resources are unknown": ([finished()], None, []),
    "on another node": ([finished(node="n2", clash=True)], RENAMED, []),
    "the same memory": ([finished(kind="VRAM", values=None, amount=8)], ["VRAM=8"], []),
    "less memory": ([finished(kind="VRAM", values=None, amount=8)], ["VRAM=7"], ["sweep"]),
    "memory is no longer advertised": ([finished(kind="VRAM", values=None, amount=8)], SAME, ["sweep"]),
    "memory becomes a named resource": ([finished(kind="VRAM", values=None, amount=8)], ["VRAM=a"], ["sweep"]),
    "each job is named once": ([finished(), finished(values=[UUIDS[1]]), finished("other")], RENAMED, ["sweep", "other"]),
}


@pytest.mark.parametrize(("jobs", "advertised", "expected"), CASES.values(), ids=CASES)
def test_finished_jobs_in_the_way_are_found(jobs, advertised, expected):
    assert jobs_that_run_again({"finished_jobs": jobs}, "n1", advertised) == expected
    assert jobs_that_run_again(None, "n1", advertised) == []


def planned(one, *jobs, remove=False, **of_node):
    known_swarm = swarm(member("n1", **of_node), member("n2"))
    known_swarm.ledger["finished_jobs"] = list(jobs)
    steps = plan([one], known_swarm)
    plan_finished_jobs([one], steps, known_swarm, remove)
    return steps


def renamed(**more):
    return host(restart_required=True, drift=["x"], resources=RENAMED, advertised=RENAMED, **more)


def test_without_consent_the_node_waits_and_is_left_alone():
    step = planned(renamed(), finished())["gpu-1"]
    assert (step.work.waits_for, step.work.left_alone, step.error, step.groups) == ([WORDS], True, None, ["gpu_swarm_end"])
    assert "restarts dockerd" in step.impact  # the impact is planned, although the node waits


def test_with_consent_the_jobs_are_reported_and_the_node_is_updated():
    step = planned(renamed(), finished(), remove=True)["gpu-1"]
    assert (step.work.waits_for, step.work.jobs, step.groups[0]) == ([], ["sweep"], IDLE)
    assert "removes finished job sweep" in step.impact


@pytest.mark.parametrize("remove", [True, False])
def test_a_node_that_is_not_updated_runs_nothing_again(remove):
    step = planned(host(advertised=SAME), finished(clash=True), remove=remove)["gpu-1"]
    assert (step.work.waits_for, step.groups, step.impact) == ([], [], [])


def test_a_restart_that_keeps_all_resources_runs_nothing_again():
    step = planned(host(restart_required=True, drift=["x"], advertised=SAME), finished())["gpu-1"]
    assert (step.work.waits_for, step.groups[0]) == ([], IDLE)


def test_labels_and_a_return_to_service_are_updates_too():
    assert planned(host(advertised=SAME), finished(clash=True), labels={})["gpu-1"].work.waits_for == [WORDS]
    paused = {"availability": "pause", "former_availability": "active"}
    steps = planned(host(advertised=SAME), finished(clash=True), **paused)
    assert (steps["gpu-1"].work.waits_for, only_paused(steps)) == ([WORDS], [])
    steps = planned(host(advertised=SAME), finished(clash=True), remove=True, **paused)
    assert (MARKED in steps["gpu-1"].groups, only_paused(steps)) == (True, [])  # the node returns only after the job is removed
    steps = planned(host(advertised=SAME), remove=True, **paused)
    assert only_paused(steps) == ["gpu-1"]


# the host, its node -> whether its finished jobs may be removed
NOT_UPDATED = {
    "no change is needed": (host(advertised=SAME), {}, None),
    "refused": (host(restart_required=True, drift=["x"], advertised=SAME, refused=[{"id": "x", "text": "no"}]), {}, None),
    "left alone": (host(disrupt="never", restart_required=True, drift=["x"], advertised=SAME), {"tasks": [task("train.1", "train")]}, None),
    "updated": (host(restart_required=True, drift=["x"], advertised=SAME), {}, True),
}


@pytest.mark.parametrize(("one", "node", "removes"), NOT_UPDATED.values(), ids=NOT_UPDATED)
def test_jobs_are_removed_only_if_the_node_is_updated(one, node, removes):
    steps = planned(one, remove=True, **node)
    assert steps["gpu-1"].work.remove_jobs is removes
    # Until the end of the run, a job has finished on this node.
    plan_of_run = {"steps": {"gpu-1": asdict(steps["gpu-1"])}}
    variables = {"gpu-1": {"gpu_swarm_plan": plan_of_run, "gpu_node_assessed": one.assessed}}
    now = {"finished_jobs": [finished(clash=True)], "nodes": [member("n1")]}
    assert on(view(["gpu-1"], variables, now), remove=True) == (["sweep"] if removes else [])


@pytest.mark.parametrize(("remove", "words"), [(True, ([], ["sweep"])), (False, ([WORDS], []))])
def test_a_node_that_is_left_alone_may_return_to_service(remove, words):
    """The node still advertises the same resources, because the change is not made."""
    paused = {"availability": "pause", "former_availability": "active", "tasks": [task("train.1", "train")]}
    one = renamed(disrupt="never")
    step = planned(one, finished(clash=True), remove=remove, **paused)["gpu-1"]
    assert ([text for text in step.work.waits_for if "sweep" in text], step.work.jobs) == words
    assert (step.work.left_alone, MARKED in step.groups) == (True, remove)
    assert planned(one, finished(), remove=remove, **paused)["gpu-1"].groups == [MARKED, END]


DEPROVISIONED = {"drift": ["x"], "restart_required": True, "resources": [], "advertised": []}
M1 = member("m1", role="manager", leader=True, bound=False, labels={}, shown=(), hostname="host-m1")
NO_LOSS = {"services": [], "secrets": [], "configs": []}
WAITS = ([WORDS], True, [END], False)


def deprovisioned(one, *nodes, contents=None, remove=False, clash=False):
    known_swarm = swarm(*nodes)
    known_swarm.ledger["finished_jobs"] = [finished(clash=clash)]
    return _steps([one], known_swarm, {"state": "absent", "contents": contents or NO_LOSS}, {"provision_remove_finished_jobs": remove})[0]["gpu-1"]


# the host, its node -> (why the host waits, whether it is left alone, its groups, whether jobs may be removed)
ABSENT = {
    "it stays a member": (replace(host(**DEPROVISIONED), leave=False), {}, WAITS),
    "it leaves": (host(**DEPROVISIONED), {}, ([], False, [IDLE, MARKED, END], None)),
    "it waits before it leaves, and returns to service meanwhile": (
        host(disrupt="never", **DEPROVISIONED),
        {"tasks": [task("train.1", "train")], "availability": "pause", "former_availability": "active"},
        (["service train"], True, [MARKED, END], False),
    ),
    "its GPU stays advertised": (replace(host(**{**DEPROVISIONED, "advertised": SAME}), leave=False), {}, ([], False, [IDLE, MARKED, END], False)),
    "it waits for other work too": (
        replace(host(disrupt="never", **DEPROVISIONED), leave=False),
        {"tasks": [task("train.1", "train")], "availability": "pause", "former_availability": "active"},
        (["service train"], True, [MARKED, END], False),
    ),
}


@pytest.mark.parametrize(("one", "node", "expected"), ABSENT.values(), ids=ABSENT)
def test_removing_resources_from_a_node_is_an_update(one, node, expected):
    step = deprovisioned(one, member("n1", hostname="host-n1", **node), M1)
    assert step.removal
    assert (step.work.waits_for, step.work.left_alone, step.groups, step.work.remove_jobs) == expected


def test_with_consent_jobs_are_removed_before_that():
    step = deprovisioned(replace(host(**DEPROVISIONED), leave=False), member("n1", hostname="host-n1"), M1, remove=True)
    assert (step.work.waits_for, step.work.jobs, step.groups, step.work.remove_jobs) == ([], ["sweep"], [IDLE, MARKED, END], True)
    assert "removes finished job sweep" in step.impact


def test_the_last_manager_that_stays_waits_too_and_says_why_it_stays():
    held = {"services": ["web"], "secrets": [], "configs": []}
    last = member("n1", role="manager", leader=True, hostname="host-n1")
    step = deprovisioned(host(**DEPROVISIONED), last, contents=held)
    assert (step.work.waits_for, step.work.left_alone, step.groups, step.work.remove_jobs) == WAITS
    assert "service web" in str(step.problem)
    step = deprovisioned(host(**DEPROVISIONED), last)  # this is the last node, so the swarm is dissolved
    assert (step.work.waits_for, step.needs[-2:]) == ([], ["leave", "dissolve"])


@pytest.mark.parametrize(("remove", "words"), [(True, ([], ["sweep"])), (False, ([WORDS], [])), (None, ([], []))])
def test_in_a_window_the_latest_query_counts(remove, words):
    """A job that ended during the wait has finished by now."""
    name = BOUND["n1"]
    variables = {name: {**fleet_lab.planned(name, remove_jobs=remove), "gpu_node_assessed": renamed().assessed}}
    ledger = {"finished_jobs": [finished()], "nodes": [member("n1")]}
    assert tuple(on(view([name], variables, ledger), remove=one) for one in (False, True)) == words
    variables[name]["gpu_swarm_outcome"] = {"state": "failed", "reason": "x"}
    assert tuple(on(view([name], variables, ledger), remove=one) for one in (False, True)) == ([], [])


FAILED = {"state": "failed", "reason": "x"}
AWAY = {"availability": "pause", "former_availability": "active"}


def at_the_end(outcome=None, lease=None, **step):
    known_swarm = {**fleet_lab.planned("gpu-1", **step), "gpu_node_assessed": host(advertised=SAME).assessed}
    return {"gpu-1": {**known_swarm, **({"gpu_swarm_outcome": outcome} if outcome else {}), **({"gpu_swarm_lease": lease} if lease else {})}}


# the groups of the host, its node at the end of the run, the host's outcome -> whether a job that finished during the run is reported
LEFT = {
    "not labelled yet": ([LABEL, END], {"labels": {}}, {}, True),
    "already labelled": ([LABEL, END], {}, {}, False),
    "paused": ([MARKED, END], AWAY, {}, True),
    "paused by somebody else": ([LABEL, END], AWAY, {}, False),
    "already in service": ([MARKED, LABEL, END], {}, {}, False),
    "something went wrong": ([MARKED, LABEL, END], {"labels": {}, **AWAY}, {"outcome": FAILED}, False),
    "another run changes the swarm": ([MARKED, LABEL, END], {"labels": {}, **AWAY}, {"lease": {"acquired": False, "holder": "x"}}, False),
}


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize(("groups", "node", "became", "counts"), LEFT.values(), ids=LEFT)
def test_at_the_end_of_a_run_only_remaining_updates_count(groups, node, became, counts, remove):
    variables = at_the_end(groups=groups, remove_jobs=remove, **became)
    now = {"finished_jobs": [finished(clash=True)], "nodes": [member("n1", **node)]}
    expected = (["sweep"] if remove else [WORDS]) if counts else []
    assert on(view(["gpu-1"], variables, now), remove=remove, updates_left=True) == expected
    assert on(view(["gpu-1"], variables, now), remove=not remove, updates_left=True) == []


# the text of the step, the host's outcome, the job -> whether the node returns to service
RETURNS = {
    "no job": ({"remove_jobs": False}, None, [], True),
    "no other task has its GPU": ({"remove_jobs": False}, None, [finished()], True),
    "the job finished during the run": ({"remove_jobs": False}, None, [finished(clash=True)], False),
    "the job is removed before": ({"remove_jobs": True}, None, [finished(clash=True)], True),
    "the host failed, so the job is not removed": ({"remove_jobs": True}, FAILED, [finished(clash=True)], False),
    "the host failed to leave": ({"remove_jobs": None}, FAILED, [finished(clash=True)], False),
    "a change that was not made": ({"remove_jobs": False}, FAILED, [finished(kind="OLD")], True),
    "left alone": ({"remove_jobs": False, "left_alone": True}, None, [finished(kind="OLD")], True),
}


@pytest.mark.parametrize(("step", "outcome", "jobs", "returns"), RETURNS.values(), ids=RETURNS)
def test_a_node_does_not_return_to_service_if_that_runs_a_job_again(step, outcome, jobs, returns):
    now = {"finished_jobs": jobs, "nodes": [member("n1", **AWAY)]}
    updates = availability_updates(view(["gpu-1"], at_the_end(outcome, **step), now), "former", labels=False)
    assert [update["id"] for update in updates] == (["n1"] if returns else [])
    # The job does not keep the node from being paused.
    assert bool(availability_updates(view(["gpu-1"], at_the_end(**step), now), "pause"))
