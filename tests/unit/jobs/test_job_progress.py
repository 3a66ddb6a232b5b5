# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs import definition, job_progress

PREFIX = "gpu-swarm."
HELD = "starting failed: gpu-swarm: the service t is refused on this node (isolation: exclusive): task x of the service y still has GPU-1."
OWN = "gpu-swarm: the service t is refused on this node (isolation: reserved): it sets NVIDIA_VISIBLE_DEVICES=all, and has none"
BROKEN = "OCI runtime create failed: gpu-swarm: the guard of this node's GPUs does not run"
# The message of a guard that uses other words before the code.
WORDED = "starting failed: gpu-swarm: in other words (refusal: %s): unknown"


def service(tried=0, retried=0, refused=0, timeout=0):
    params = {"name": "train", "image": "cuda:13", "gpus": 1, "kind": "NVIDIA-GPU", "time_limit": timeout}
    spec = definition.jobs(params, PREFIX)[0].spec
    spec["Labels"].update({"gpu-swarm.job-retried": str(retried), "gpu-swarm.job-refused": str(refused)})
    spec["TaskTemplate"]["ForceUpdate"] = tried
    return {"ID": "s1", "Version": {"Index": 7}, "Spec": spec}


def task(state, tried=0, error="", code=None, desired="shutdown", task_id="t1", made="2026-11-23T10:00:00Z"):
    ran = {} if code is None else {"ContainerStatus": {"ContainerID": "c1", **({"ExitCode": code} if code else {})}}
    status = {"State": state, "Timestamp": "2026-11-23T10:00:10Z", **({"Err": error} if error else {}), **ran}
    return {"ID": task_id, "Spec": {"ForceUpdate": tried}, "Status": status, "DesiredState": desired, "CreatedAt": made, "NodeID": "n1"}


STATES = {
    "no task yet": (service(), [], "queued", None, ""),
    "no room": (service(), [task("pending", error="no suitable node", desired="running")], "queued", None, "no suitable node"),
    "starts": (service(timeout=5), [task("starting", desired="running")], "starting", None, ""),
    "image": (service(), [task("preparing", desired="running")], "starting", None, ""),
    "runs": (service(), [task("running", desired="running", code=0)], "running", None, ""),
    "runs with a time-out": (service(timeout=5), [task("starting", desired="running", code=0)], "running", None, ""),
    "drained": (service(), [task("running", code=0)], "stopping", None, "it is about to stop: its node is drained, or does not answer"),
    "complete": (service(), [task("complete", code=0)], "complete", 0, ""),
    "failed": (service(), [task("failed", code=3, error="task: non-zero exit (3)")], "failed", 3, "task: non-zero exit (3)"),
    "no image": (service(), [task("rejected", error="No such image: x")], "failed", None, "No such image: x"),
    "time-out": (
        service(timeout=5),
        [task("failed", code=137, error="task: non-zero exit (137): dockerexec: unhealthy container")],
        "timed out", 137, "it ran for longer than its time limit",
    ),
    "by its image": (service(), [task("failed", code=1, error="unhealthy container")], "failed", 1, "unhealthy container"),
    "refused": (service(), [task("failed", error=HELD)], "refused", None, HELD.partition("failed: ")[2]),
    "refused in other words": (service(), [task("failed", error=WORDED % "forged")], "refused", None, (WORDED % "forged").partition("failed: ")[2]),
    "forced to run again": (service(tried=1), [task("failed", code=1)], "queued", None, "the last try: no reason given"),
    "stopped": (service(), [task("shutdown", code=0)], "failed", 0, "it was stopped (shutdown): its node was drained or down, or left the swarm"),
    "queued for another try": (
        service(tried=1), [task("failed", code=1, error="exit 1"), task("new", tried=1, task_id="t2")], "queued", None, "the last try: exit 1"
    ),
    "queued after two tries": (
        service(tried=2),
        [
            task("failed", error="exit 1", task_id="z"),
            task("failed", tried=1, error="exit 2", task_id="y", made="2026-11-23T11:00:00Z"),
            task("pending", tried=2, desired="running", task_id="x", made="2026-11-23T12:00:00Z"),
        ],
        "queued", None, "the last try: exit 2",
    ),
    "forced to run again while it runs": (
        service(tried=1), [task("running", code=0), task("new", tried=1, task_id="t2", desired="ready")], "queued", None, ""
    ),
    "the newer of two tasks of a try": (
        service(), [task("failed", code=1, task_id="z"), task("complete", code=0, task_id="a", made="2026-11-23T11:00:00Z")], "complete", 0, ""
    ),
    "the newer of two tries": (service(tried=1), [task("failed", code=1), task("complete", tried=1, code=0, task_id="t2")], "complete", 0, ""),
}  # fmt: skip


@pytest.mark.parametrize(("one", "tasks", "state", "code", "error"), STATES.values(), ids=STATES)
def test_a_job_in_plain_words(one, tasks, state, code, error):
    found = job_progress.record(one, tasks, PREFIX)
    assert (found["state"], found["exit_code"], found["error"]) == (state, code, error)
    assert found["tries"] == one["Spec"]["TaskTemplate"]["ForceUpdate"] + 1


def test_labels_count_the_retries():
    found = job_progress.record(service(tried=5, retried=2, refused=3), [], PREFIX)
    assert (found["tries"], found["retried"], found["refused"]) == (6, 2, 3)


def test_a_job_has_the_times_of_its_end_and_of_its_wait():
    ended = job_progress.record(service(), [task("failed")], PREFIX)
    assert (ended["ended"], ended["queued"]) == ("2026-11-23T10:00:10Z", None)
    waits = job_progress.record(service(), [task("pending", desired="running")], PREFIX)
    assert (waits["ended"], waits["queued"]) == (None, "2026-11-23T10:00:00Z")


def test_a_queued_job_avoids_a_node_that_refused_it_for_half_a_minute():
    one = {"avoids": "n1", "state": "queued", "queued": "2026-11-23T10:00:00Z"}
    began = 1795428000.0
    assert [job_progress.has_avoided_for_long(one, began + seconds) for seconds in (0, 29, 30, 99)] == [False, False, True, True]
    assert not job_progress.has_avoided_for_long({**one, "avoids": ""}, began + 99)
    assert not job_progress.has_avoided_for_long({**one, "state": "running"}, began + 99)
    assert not job_progress.has_avoided_for_long({**one, "queued": None}, began + 99)


def test_a_job_avoids_one_node_at_a_time_and_keeps_its_own_constraints():
    spec = service()["Spec"]
    spec["TaskTemplate"]["Placement"] = {"Constraints": ["node.labels.rack==7"], "MaxReplicas": 1}
    first = job_progress.avoiding(spec, "n1", PREFIX)
    second = job_progress.avoiding(first, "n2", PREFIX)
    none = job_progress.avoiding(second, None, PREFIX)
    assert [one["TaskTemplate"]["Placement"] for one in (first, second, none)] == [
        {"Constraints": ["node.labels.rack==7", *more], "MaxReplicas": 1} for more in (["node.id!=n1"], ["node.id!=n2"], [])
    ]
    assert [one["Labels"].get(PREFIX + definition.AVOIDS) for one in (first, second, none)] == ["n1", "n2", None]
    bare = {"TaskTemplate": {}}
    assert job_progress.avoiding(bare, "n1", PREFIX)["TaskTemplate"]["Placement"] == {"Constraints": ["node.id!=n1"]}


@pytest.mark.parametrize("label", [None, "", "often", "-1", "1" * 10])
def test_a_handwritten_label_counts_as_no_try(label):
    one = service()
    one["Spec"]["Labels"].pop("gpu-swarm.job-retried")
    one["Spec"]["Labels"].update({} if label is None else {"gpu-swarm.job-retried": label})
    assert job_progress.record(one, [], PREFIX)["retried"] == 0


def of(state, error="", retried=0, refused=0):
    return {"state": state, "error": error, "retried": retried, "refused": refused, "ended": "2026-11-23T10:00:00Z"}


AGAIN = {
    "complete": (of("complete"), 3, None),
    "failed, no retries": (of("failed"), 0, None),
    "failed": (of("failed", retried=1), 2, "retry"),
    "timed out": (of("timed out"), 1, "retry"),
    "no retries left": (of("failed", retried=2), 2, None),
    "a refusal uses no retry": (of("refused", HELD), 0, "resubmit"),
    "a guard that does not run": (of("refused", BROKEN), 0, "resubmit"),
    "refused too often": (of("refused", HELD, refused=20), 5, None),
    "refused anywhere": (of("refused", OWN), 5, None),
    "refused anywhere, in other words": (of("refused", WORDED % "mount"), 5, None),
    "refused here, in other words": (of("refused", WORDED % "two-cards"), 5, "resubmit"),
    "refused by a newer guard": (of("refused", WORDED % "not-known-yet"), 5, "resubmit"),
    "runs": (of("running"), 5, None),
}


@pytest.mark.parametrize(("one", "retries", "how"), AGAIN.values(), ids=AGAIN)
def test_these_jobs_are_tried_again(one, retries, how):
    assert job_progress.how_to_retry(one, retries) == how


def test_the_pause_before_a_retry_grows_up_to_a_limit():
    began = 1795428000.0  # 2026-11-23T10:00:00Z
    pauses = []
    for refused in (0, 1, 3, 20):
        one = of("refused", refused=refused)
        pauses.append(next(seconds for seconds in range(100) if job_progress.is_due(one, began + seconds)))
    assert pauses == [0, 1, 7, 60]
    assert job_progress.is_due(of("failed", retried=9), None)


def test_retries_are_counted_and_refusals_are_not_and_consent_starts_anew():
    spec = service(tried=4, retried=1, refused=2)["Spec"]

    def counts(how):
        made = job_progress.next_try(spec, how, PREFIX)
        return made["TaskTemplate"]["ForceUpdate"], made["Labels"]["gpu-swarm.job-retried"], made["Labels"]["gpu-swarm.job-refused"]

    assert [counts("retry"), counts("resubmit"), counts(None)] == [(5, "2", "2"), (5, "1", "3"), (5, "0", "0")]
    assert spec["TaskTemplate"]["ForceUpdate"] == 4
