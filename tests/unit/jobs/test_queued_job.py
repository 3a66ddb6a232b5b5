# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs in a queue: the module submits them and reads their progress, and an admitter starts them on a swarm that behaves like swarmkit."""

from __future__ import annotations

import pytest
from queue_swarm import QueueSwarm
from queued import gpu_node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._jobs.job_options import JOB_OPTIONS, RUN_OPTIONS
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue import queue_state, service_changes

DEFAULTS = {option: spec.get("default") for option, spec in {**JOB_OPTIONS, **RUN_OPTIONS}.items()}
PLAIN = {**DEFAULTS, "name": "train", "image": "cuda:13", "gpus": 2, "queue": "research"}
QUEUES = '{"research":{"time_limit":"1h","max":{"NVIDIA-GPU":12}},"nightly":{}}'


@pytest.fixture
def swarm():
    return QueueSwarm([], queues=QUEUES)


@pytest.fixture
def job():
    return PLAIN


def shown(result):
    return [(one["state"], one["left"]) for one in result["jobs"]]


def name_of(swarm, number=0):
    return swarm.created[number]


def short(swarm, number=0):
    return swarm.short[number]


def labels(swarm, number=0):
    return swarm.services_now["id" + short(swarm, number)]["Spec"]["Labels"]


def test_a_job_waits_in_its_queue_runs_and_is_complete(run, rounds, swarm, tmp_path):
    first = run()
    assert (first["changed"], shown(first), first["jobs"][0]["queued"]) == (True, [("waiting", True)], "2026-11-20T12:01:00Z")
    spec = swarm.services_now["id" + short(swarm)]["Spec"]
    assert (spec["Mode"]["Replicated"]["Replicas"], spec["Labels"]["gpu-swarm.queue"]) == (0, "research")
    assert "Healthcheck" not in spec["TaskTemplate"]["ContainerSpec"]
    rounds(2)
    running = run()
    assert (running["changed"], shown(running), running["jobs"][0]["tries"]) == (False, [("running", True)], 1)
    assert running["jobs"][0]["node"] in ("n1", "n2")
    swarm.end(short(swarm))
    assert shown(run()) == [("complete", False)]  # before the admitter has seen it
    rounds(1)
    last = run()
    assert (last["changed"], shown(last), last["waiting"], last["not_ready"]) == (False, [("complete", False)], [], [])
    assert (last["jobs"][0]["exit_code"], last["jobs"][0]["error"]) == (0, "")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"log"]
    assert len(swarm.began) == 1


def test_a_failed_job_waits_once_more_for_each_retry(run, rounds, swarm, tmp_path):
    run(retries=1)
    rounds(2)
    swarm.end(short(swarm), "failed", "task: non-zero exit (3)", 3)
    ended = run(retries=1)
    assert (shown(ended), ended["changed"]) == ([("failed", True)], False)  # its queue has not seen it
    rounds(1)
    again = run(retries=1)
    assert (shown(again), again["changed"]) == ([("waiting", True)], True)
    assert again["jobs"][0]["error"].endswith("; the last try: task: non-zero exit (3)")
    assert run(retries=1, explain=False)["jobs"][0]["error"] == "the last try: task: non-zero exit (3)"
    assert swarm.services_now["id" + short(swarm)]["Spec"]["Mode"]["Replicated"]["Replicas"] == 1  # so swarm keeps the log
    rounds(2)
    assert [(one["state"], one["tries"], one["retried"]) for one in run(retries=1)["jobs"]] == [("running", 2, 1)]
    swarm.end(short(swarm), "failed", "task: non-zero exit (4)", 4)
    rounds(1)
    last = run(retries=1)
    assert (shown(last), last["not_ready"], last["jobs"][0]["exit_code"]) == ([("failed", False)], swarm.created, 4)
    assert last["jobs"][0]["error"] == "task: non-zero exit (4)"
    assert len(list(tmp_path.iterdir())) == 2
    assert len(swarm.began) == 2


@pytest.mark.parametrize(("again", "then"), [("never", "complete"), ("failed", "complete"), ("always", "waiting")])
def test_a_complete_job_runs_again_only_if_someone_says_so(run, rounds, swarm, again, then):
    run()
    rounds(2)
    swarm.end(short(swarm))
    rounds(1)
    planned = run(check_mode=True, again=again)
    assert (planned["changed"], planned["jobs"][0]["state"]) == (then == "waiting", "to be submitted" if then == "waiting" else then)
    result = run(again=again)
    assert (result["changed"], result["jobs"][0]["state"]) == (then == "waiting", then)
    rounds(2)
    assert len(swarm.began) == (2 if again == "always" else 1)


def test_a_job_that_its_queue_stops_for_its_time_limit_has_timed_out(run, rounds, swarm):
    run(time_limit=600)
    assert labels(swarm)["gpu-swarm.time-limit"] == "10m"
    rounds(2)
    rounds(1, 700)
    result = run(time_limit=600)
    assert shown(result) == [("timed out", False)]
    assert result["jobs"][0]["error"] == "stopped: it ran for longer than its time limit of 10m"
    assert (result["jobs"][0]["exit_code"], result["jobs"][0]["ended"] is None) == (137, False)


def test_a_held_job_is_not_waited_for_and_again_releases_it(run, rounds, swarm):
    run()
    rounds(2)
    swarm.scale(short(swarm), 0)
    held = run()
    assert (shown(held), held["not_ready"]) == ([("held", False)], swarm.created)
    assert held["jobs"][0]["error"] == (
        f"it was scaled to 0 after it was admitted, and would run again; 'gpu-swarm release {name_of(swarm)}' lets it run"
    )
    rounds(2)
    assert len(swarm.began) == 1
    assert shown(run(again="failed")) == [("waiting", True)]
    rounds(2)
    assert (shown(run()), len(swarm.began)) == ([("running", True)], 2)


def test_a_waiting_job_says_why_it_waits_and_only_then_everything_is_read(run, rounds, swarm):
    swarm.nodes_now = [gpu_node("n1", 2)]
    run()
    rounds(2)
    run(name="other")
    rounds(2)
    swarm.calls.clear()
    assert run(name="other")["jobs"][0]["error"] == "it is next, and host-n1 is kept for it; it starts at 2026-11-20T13:01:15Z at the latest"
    assert "all tasks" in swarm.calls
    swarm.calls.clear()
    assert run(name="other", explain=False)["jobs"][0]["error"] == ""
    run(name="train")  # it runs
    assert "all tasks" not in swarm.calls


def test_a_job_on_a_node_that_does_not_answer_says_how_it_runs_elsewhere(run, rounds, swarm):
    run()
    rounds(2)
    (task,) = swarm.tasks_now
    task["DesiredState"] = "shutdown"
    next(node for node in swarm.nodes_now if node["ID"] == task["NodeID"])["Status"]["State"] = "down"
    result = run()
    assert shown(result) == [("stopping", True)]
    assert f"does not answer, so its container may still run; 'gpu-swarm retry {name_of(swarm)}' runs it elsewhere" in result["jobs"][0]["error"]


def test_a_cancelled_job_is_not_retried(run, rounds, swarm):
    run(retries=3)
    rounds(2)
    service_id = "id" + short(swarm)
    service = swarm.service(service_id)
    over = queue_state.state_of(service)._replace(state="over", result="cancelled by alice")
    swarm.update_service(service_id, service["Version"]["Index"], service_changes.stopped(service["Spec"], over, over))
    result = run(retries=3)
    assert (shown(result), result["jobs"][0]["error"], result["not_ready"]) == ([("cancelled", False)], "cancelled by alice", swarm.created)
    assert shown(run(retries=3, again="failed")) == [("waiting", True)]


OWN_VARIABLE = "gpu-swarm: the service t is refused on this node (isolation: reserved): it sets NVIDIA_VISIBLE_DEVICES=all, and has none"
IN_USE = "gpu-swarm: the service t is refused on this node (isolation: exclusive): task x of the service y still has GPU-1."


@pytest.mark.parametrize(("refusal", "then"), [(OWN_VARIABLE, ("refused", False)), (IN_USE, ("waiting", True))])
def test_a_refusal_of_a_guard_uses_no_retry(run, rounds, swarm, refusal, then):
    """Its queue tries the job on another node, unless every node would refuse it."""
    run(retries=3)
    rounds(2)
    swarm.end(short(swarm), "failed", refusal)
    rounds(1)
    found = run(retries=3)
    assert (shown(found), found["jobs"][0]["retried"], found["changed"]) == ([then], 0, False)


def test_a_job_that_its_queue_no_longer_allows_does_not_wait_again_and_says_so(run, rounds, swarm):
    run(time_limit=1800)
    rounds(2)
    swarm.end(short(swarm), "failed", "task: non-zero exit (1)", 1)
    rounds(1)
    swarm.labels["gpu-swarm.queues"] = '{"research":{"time_limit":"10m"}}'
    found = run(time_limit=1800, again="failed")
    assert (shown(found), found["changed"]) == ([("failed", False)], False)
    assert found["problems"] == [
        f"{name_of(swarm)} cannot be queued: its time limit is 30m, and the queue research allows 10m. Nothing was changed."
    ]


def test_a_job_that_is_over_is_waited_for_until_its_container_has_stopped(run, rounds, swarm):
    run()
    rounds(2)
    rounds(1, 4000)
    (task,) = [one for one in swarm.tasks_now if one["Status"]["State"] == "shutdown"]
    ended, task["Status"] = task["Status"], {"State": "running", "Timestamp": swarm.time}
    assert shown(run()) == [("timed out", True)]
    task["Status"] = ended
    assert shown(run()) == [("timed out", False)]


def test_labels_of_waiting_work_follow_the_definition_and_nothing_runs_again(run, rounds, swarm):
    swarm.nodes_now = [gpu_node("n1", 2)]
    run(owner="alice")
    rounds(1)
    run(name="other")
    rounds(2)
    before = swarm.services_now["id" + short(swarm, 1)]
    planned = run(check_mode=True, name="other", queue="nightly", priority=5, owner="bob")
    assert planned["changed"]
    other = name_of(swarm, 1)
    lines = [f"{other}: queue: nightly\n", f"{other}: priority: 5\n", f"{other}: owner: bob\n"]
    assert planned["diff"] == {"before": f"{other}: queue: research\n", "after": "".join(lines)}
    assert swarm.services_now["id" + short(swarm, 1)] == before
    assert run(name="other", queue="nightly", priority=5, owner="bob")["changed"]
    assert not run(name="other", queue="nightly", priority=5, owner="bob")["changed"]
    assert [labels(swarm, 1).get("gpu-swarm." + key) for key in ("queue", "priority", "owner")] == ["nightly", "5", "bob"]
    assert not run(owner="carol")["changed"]  # it runs
    assert labels(swarm)["gpu-swarm.owner"] == "alice"
    assert (swarm.created, swarm.began) == (swarm.created[:2], ["id" + short(swarm)])


def test_of_two_people_who_run_a_job_again_at_the_same_time_one_changes_it(run, rounds, swarm):
    run()
    rounds(2)
    swarm.end(short(swarm), "failed", "task: non-zero exit (1)", 1)
    rounds(1)
    read, others = swarm.service, [lambda: run(again="failed")]
    answers = []

    def service(service_id):
        if others:
            answers.append(others.pop()())
        return read(service_id)

    swarm.service = service
    mine = run(again="failed")
    assert (answers[0]["changed"], mine["changed"], shown(mine)) == (True, False, [("failed", True)])
    assert shown(run()) == [("waiting", True)]


def test_a_job_does_not_move_into_a_queue_that_does_not_exist(run, swarm):
    run()
    with pytest.raises(GpuSwarmError, match=r"^The job train cannot change its queue: there is no queue resaerch; the queues are nightly, "):
        run(queue="resaerch")
    assert labels(swarm)["gpu-swarm.queue"] == "research"


def test_a_job_does_not_get_the_name_of_work_that_somebody_submitted_with_the_command(run, swarm):
    run()
    swarm.change(short(swarm), lambda spec: spec.update(Name="train"))  # as 'gpu-swarm run --name train' names it
    with pytest.raises(GpuSwarmError, match=r"^The swarm has a service train that is not this job\. Give the job another name than train\."):
        run(command=["other"])
    assert len(swarm.created) == 1


def test_a_job_that_is_admitted_while_its_labels_change_runs_once(run, rounds, swarm):
    run()
    other = []

    def admitted_first(service_id):
        if not other:
            other.append(service_id)
            rounds(2)

    swarm.before_update = admitted_first
    run(priority=7)
    rounds(2)
    assert "gpu-swarm.priority" not in labels(swarm)
    assert (shown(run()), len(swarm.began)) == ([("running", True)], 1)


WRONG = {
    "no such queue": (
        {"queue": "reserch"},
        "The job train would never start: there is no queue reserch; the queues are nightly, research. Change the job, or gpu_swarm_queues.",
    ),
    "more than the cap": ({"gpus": 13, "nodes_have": 16}, "it needs 13 NVIDIA-GPU, and the queue research allows 12 at a time"),
    "more than any node has": ({"gpus": 9}, "No node could ever run it"),
    "a longer limit than the queue's": ({"time_limit": 7200}, "its time limit is 2h, and the queue research allows 1h"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "words"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("check_mode", [True, False])
def test_what_would_never_start_is_refused_before_anything_is_created(run, swarm, options, words, check_mode):
    options = dict(options)
    swarm.nodes_now = [gpu_node("n1", options.pop("nodes_have", 8))]
    with pytest.raises(GpuSwarmError) as problem:
        run(check_mode, array=[{"A": 1}, {"A": 2}], **options)
    assert words in problem.value.message
    assert problem.value.message.count("Nothing was submitted.") == 1
    assert swarm.created == []


def test_a_job_waits_with_the_reason_if_its_queue_is_removed_or_its_limit_lowered(run, swarm):
    run(time_limit=1800)
    swarm.labels["gpu-swarm.queues"] = '{"nightly":{}}'
    assert run(time_limit=1800)["jobs"][0]["error"] == "there is no queue research; the queues are nightly"
    swarm.labels["gpu-swarm.queues"] = '{"research":{"time_limit":"10m"}}'
    assert run(time_limit=1800)["jobs"][0]["error"] == "its time limit is 30m, and the queue research allows 10m"


@pytest.mark.parametrize("first", ["research", None])
def test_a_job_does_not_move_into_a_queue_or_out_of_it(run, swarm, first):
    other = {"research": None, None: "research"}[first]
    run(queue=first)
    with pytest.raises(GpuSwarmError, match="was submitted %s. Restore queue" % ("in a queue" if first else "without a queue")):
        run(queue=other)
    assert len(swarm.created) == 1
    assert run(queue=first)["changed"] is False


def test_all_jobs_of_a_name_are_removed_wherever_they_are_in_their_queue(run, rounds, swarm, tmp_path):
    swarm.nodes_now = [gpu_node("n1", 2)]
    run(array=[{"A": 1}, {"A": 2}])
    rounds(2)
    result = run(state="absent")
    assert (sorted(one["state"] for one in result["jobs"]), sorted(swarm.removed)) == (["running", "waiting"], sorted(swarm.created))
    assert swarm.services_now == {}
