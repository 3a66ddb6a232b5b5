# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rounds of the admitter on a swarm that places tasks. In some tests, an update kills the admitter, and a new admitter continues."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from queue_swarm import Driver, QueueSwarm
from queued import GPU, gpu_node, queued

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.refusal import with_code
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import LABEL, released, state_of, to_text, tried_again
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import SwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import stamp

TRAIN = ("gang0", "gang1")


def driver(*services, **options):
    return Driver(QueueSwarm(services, **options))


def gang(size=2, gpus=8):
    return [queued("gang%d" % rank, {GPU: gpus}, gang="train:%d/%d any" % (rank, size)) for rank in range(size)]


def test_work_is_admitted_in_one_update_and_is_over_when_its_task_has_ended():
    run = driver(queued("a", {GPU: 8}), nodes=[gpu_node("n1")])
    run.rounds(2)
    spec = run.swarm.services_now["ida"]["Spec"]
    assert run.swarm.writes == 1
    assert run.swarm.began == ["ida"]
    assert spec["TaskTemplate"]["Placement"]["Constraints"] == ["node.id==n1"]
    assert spec["Mode"]["Replicated"]["Replicas"] == 1
    assert spec["UpdateConfig"] == {"Parallelism": 0, "Order": "stop-first", "FailureAction": "continue"}
    assert run.swarm.state("a").startswith("admitted attempt=1 node=n1 admission=k")
    run.swarm.end("a")
    run.rounds(2)
    assert run.swarm.state("a").startswith("over attempt=1 node=n1 ")
    assert run.swarm.state("a").endswith(" result=complete")
    run.rounds(20)
    assert run.swarm.writes == 2
    assert run.swarm.began == ["ida"]


def test_the_next_work_starts_when_the_first_has_ended():
    run = driver(queued("a", {GPU: 8}), queued("b", {GPU: 8}), nodes=[gpu_node("n1")])
    run.rounds(3)
    assert run.swarm.began == ["ida"]
    assert run.swarm.state("b") == "waiting keeps=n1"
    run.swarm.end("a", "failed", "task: non-zero exit (3)", 3)
    run.rounds(2)
    assert run.swarm.state("a").endswith("result=failed: task: non-zero exit (3)")
    assert run.swarm.began == ["ida", "idb"]
    assert "keeps" not in run.swarm.state("b")


@pytest.mark.parametrize("killed_after", range(12))
def test_wherever_the_admitter_is_killed_the_next_one_goes_on_and_nothing_runs_twice(killed_after):
    names = ["a", "b", "c", *TRAIN]
    run = driver(*[queued(name, {GPU: 4}) for name in "abc"], *gang())
    run.swarm.killed_after = killed_after
    for _step in range(40):
        run.round()
        for name in names:
            run.swarm.end(name)
    assert run.swarm.killed_after is None
    assert Counter(run.swarm.began) == Counter("id" + name for name in names)
    assert [run.swarm.state(name).partition(" ")[0] for name in names] == ["over"] * 5


def test_a_gang_that_was_admitted_in_part_is_completed_with_the_same_plan():
    run = driver(*gang())
    run.swarm.killed_after = 3  # the first two updates only keep the nodes while they pull the image
    run.round()
    first = run.swarm.state("gang0")
    assert first.endswith(" plan=idgang0:n1,idgang1:n2")
    assert run.swarm.state("gang1") == "waiting keeps=n1,n2"
    run.rounds(1)
    assert run.swarm.state("gang1") == first.replace("node=n1", "node=n2")
    assert sorted(run.swarm.began) == ["idgang0", "idgang1"]


@pytest.mark.parametrize("killed_after", [None, *range(2, 8)])
def test_a_gang_whose_member_gets_no_node_is_taken_back_and_admitted_again(killed_after):
    run = driver(*gang())
    run.swarm.places = False
    run.round()
    run.swarm.killed_after = killed_after
    run.rounds(8)
    assert [run.swarm.state(name).partition(" ")[0] for name in TRAIN] == ["waiting"] * 2
    assert not {"admission", "plan"} & set(re.findall("[a-z]+", run.swarm.state("gang0") + " " + run.swarm.state("gang1")))
    assert run.swarm.state("gang0").endswith("result=taken back: swarm gave it no node within 60 s")
    run.swarm.places = True
    run.rounds(12)
    assert sorted(run.swarm.began) == ["idgang0", "idgang1"]
    assert {run.swarm.state(name).partition(" node")[0] for name in TRAIN} == {"admitted attempt=2"}
    constraints = [run.swarm.services_now["id" + name]["Spec"]["TaskTemplate"]["Placement"]["Constraints"] for name in TRAIN]
    assert constraints == [["node.id==n1"], ["node.id==n2"]]


@pytest.mark.parametrize("killed_after", [None, 2, 3])
def test_if_a_member_fails_its_gang_is_stopped(killed_after):
    run = driver(*gang())
    run.rounds(2)
    run.swarm.killed_after = killed_after
    run.swarm.end("gang1", "failed", "task: non-zero exit (1)", 1)
    run.rounds(4)
    assert run.swarm.state("gang1").endswith("result=failed: task: non-zero exit (1)")
    assert run.swarm.state("gang0").startswith("over attempt=1 node=n1 ")
    assert run.swarm.state("gang0").endswith("result=stopped: gang1 of its gang ended first (failed: task: non-zero exit (1))")
    assert [task["Status"]["State"] for task in run.swarm.tasks_of("idgang0")] == ["shutdown", "pending"]
    run.rounds(20)
    assert sorted(run.swarm.began) == ["idgang0", "idgang1"]


def test_a_copy_of_a_member_with_its_label_does_not_stop_the_gang():
    run = driver(*gang())
    run.rounds(2)
    run.swarm.submit(queued("copy", state=run.swarm.state("gang0"), replicas=1, gang="train:0/2 any"))
    run.swarm.begin("copy", "n3")
    run.swarm.end("copy", "failed", "task: non-zero exit (1)", 1)
    run.rounds(3)
    assert run.swarm.state("copy").endswith("result=failed: task: non-zero exit (1)")
    assert [run.swarm.state(name).partition(" ")[0] for name in TRAIN] == ["admitted"] * 2


def test_if_a_member_completes_the_others_go_on():
    run = driver(*gang())
    run.rounds(2)
    run.swarm.end("gang0")
    run.rounds(4)
    assert run.swarm.state("gang0").endswith("result=complete")
    assert run.swarm.state("gang1").startswith("admitted")


def test_if_a_member_is_removed_its_gang_is_stopped():
    run = driver(*gang())
    run.rounds(2)
    del run.swarm.services_now["idgang1"]
    run.rounds(2)
    assert run.swarm.state("gang0").endswith("result=stopped: a member of its gang was removed, held or changed")


def test_a_gang_of_which_a_member_does_not_run_in_time_is_stopped():
    run = driver(*gang())
    run.rounds(2)
    for task in run.swarm.tasks_of("idgang1"):
        task["Status"]["State"] = "preparing"
    run.rounds(3, 600)
    assert run.swarm.state("gang0").endswith("result=stopped: gang1 of its gang did not run within 30m")
    assert run.swarm.state("gang1").endswith("result=stopped: gang1 of its gang did not run within 30m")


def roll(lease_s):
    """Return a swarm in which a run drained the node of a task with 8 GPUs, while queued work fills the other node."""
    run = driver(*[queued("w%02d" % number, {GPU: 1}) for number in range(20)])
    run.swarm.submit(queued("web", {GPU: 8}, queue=None, condition="any", replicas=1))
    run.swarm.begin("web", "n1")
    run.rounds(2)
    assert run.swarm.gpus_held("n2") == 8
    times = {"since": stamp(run.swarm.clock - 60), "until": stamp(run.swarm.clock + lease_s)}
    run.swarm.labels["gpu-swarm.lease"] = json.dumps({"holder": "a run", **times})
    run.swarm.set_availability("n1", "drain")
    return run


def end_one(run, node_id):
    run.swarm.end_task(next(task for task in run.swarm.tasks_now if task.get("NodeID") == node_id and task["Status"]["State"] == "running"))


@pytest.mark.parametrize("lease_s", [3600, 0])
def test_while_a_run_moves_a_task_queued_work_leaves_it_room(lease_s):
    run = roll(lease_s)
    for _number in range(8):
        end_one(run, "n2")
        run.rounds(2)
    has_room = run.swarm.began[-1] == "idweb"
    assert has_room == bool(lease_s)
    assert has_room or run.swarm.gpus_held("n2") == 8
    run.swarm.set_availability("n1", "active")
    run.rounds(3)
    assert {node: run.swarm.gpus_held(node) for node in ("n1", "n2")} == {"n1": 8, "n2": 8}
    assert "idweb" in run.swarm.began


def test_a_moved_task_that_has_no_room_for_long_does_not_stop_the_queue():
    run = roll(10 * 3600)
    for _number in range(3):
        end_one(run, "n2")
    run.rounds(8)
    assert run.swarm.gpus_held("n2") == 5
    run.rounds(2, 1800)
    assert run.swarm.gpus_held("n2") == 8


def test_a_node_that_is_paused_between_admission_and_placement_gets_no_work_and_the_work_goes_elsewhere():
    run = driver(queued("a"), nodes=[gpu_node("n1"), gpu_node("n2")])
    run.swarm.before_update = lambda service_id: run.swarm.set_availability("n1", "pause")
    run.round()
    assert run.swarm.state("a").startswith("admitted attempt=1 node=n1 ")
    run.swarm.before_update = lambda service_id: None
    run.swarm.set_availability("n1", "drain")
    run.rounds(16)
    assert run.swarm.began == ["ida"]
    assert run.swarm.state("a").startswith("admitted attempt=2 node=n2 ")
    assert not run.swarm.gpus_held("n1")


def test_work_whose_former_task_still_stops_is_not_admitted():
    run = driver(queued("a"))
    run.rounds(2)
    (task,) = run.swarm.tasks_of("ida")
    set_state(run, "a", tried_again)
    run.rounds(4)
    assert run.waits("a") == "the task of its last attempt has not ended"
    run.swarm.end_task(task, "shutdown")
    run.rounds(3)
    assert run.swarm.began == ["ida", "ida"]


REFUSED = with_code("held-twice", "the service a is refused on this node (isolation: exclusive): task b has its GPU")


@pytest.mark.parametrize("killed_after", [None, 1, 2])
def test_after_a_refusal_by_the_guard_another_node_is_used(killed_after):
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.killed_after = killed_after
    run.swarm.end("a", "failed", REFUSED, 125)
    run.rounds(4)
    assert run.swarm.state("a").startswith("admitted attempt=2 node=n2 admission=")
    assert run.swarm.state("a").endswith(" avoids=n1")
    assert run.swarm.began == ["ida", "ida"]


def test_if_the_guard_refuses_a_member_its_gang_avoids_that_node():
    run = driver(*gang(), nodes=[gpu_node("n1"), gpu_node("n2"), gpu_node("n3")])
    run.rounds(2)
    run.swarm.end("gang0", "failed", REFUSED, 125)
    run.rounds(6)
    assert [run.swarm.state(name).partition(" admission")[0] for name in TRAIN] == ["admitted attempt=2 node=n2", "admitted attempt=2 node=n3"]


def test_a_refusal_that_every_node_would_repeat_is_the_end():
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.end("a", "failed", with_code("mount", "the service a is refused on this node (isolation: exclusive): it has a mount at /dev."), 125)
    run.rounds(4)
    assert run.swarm.state("a").startswith("over attempt=1 node=n1 ")
    assert run.swarm.began == ["ida"]


def test_work_that_gets_no_node_is_taken_back_and_pauses():
    run = driver(queued("a", {GPU: 8}), nodes=[gpu_node("n1")])
    run.swarm.places = False
    run.rounds(7)
    assert run.swarm.state("a") == "waiting attempt=1 node=n1 result=taken back: swarm gave it no node within 60 s"
    assert "it is not tried before 2026-11-20T12:0" in run.waits("a")
    run.swarm.places = True
    run.rounds(10)
    assert run.swarm.began == ["ida"]
    assert run.swarm.state("a").startswith("admitted attempt=2 node=n1 ")


def test_work_that_got_its_node_while_it_was_taken_back_does_not_run_again():
    run = driver(queued("a", {GPU: 8}), nodes=[gpu_node("n1")])
    run.swarm.places = False
    run.rounds(4)

    def place(_service_id):
        run.swarm.places = True
        run.swarm.schedule()

    run.swarm.before_update = place
    run.rounds(20)
    assert run.swarm.began == ["ida"]
    assert run.swarm.state("a").endswith("result=stopped: it got its node while it was taken back")


def test_work_is_stopped_at_its_time_limit_and_its_record_stays():
    run = driver(queued("a", time_limit="10m"))
    run.rounds(2)
    run.rounds(11, 60)
    assert run.swarm.state("a").endswith("result=stopped: it ran for longer than its time limit of 10m")
    assert [task["Status"]["State"] for task in run.swarm.tasks_of("ida")] == ["shutdown", "pending"]
    run.rounds(5)
    assert run.swarm.began == ["ida"]


def test_work_on_a_node_that_does_not_answer_is_not_tried_elsewhere():
    run = driver(queued("a", time_limit="10m"))
    run.rounds(2)
    run.swarm.nodes_now[0]["Status"]["State"] = "down"
    run.rounds(30, 60)
    assert run.swarm.state("a").startswith("admitted attempt=1 node=n1 ")
    run.swarm.end("a", "orphaned")
    run.rounds(2)
    assert run.swarm.state("a").startswith("over attempt=1 node=n1 ")
    assert run.swarm.began == ["ida"]


def set_state(run, name, change):
    """Change the state of a service as the commands ``retry`` and ``release`` will."""
    state = to_text(change(state_of(run.swarm.services_now["id" + name])))
    run.swarm.change(name, lambda spec: spec["Labels"].update({LABEL: state}))


@pytest.mark.parametrize("state", ["failed", "orphaned", None])
def test_work_that_failed_or_is_lost_runs_again_if_somebody_says_so(state):
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.nodes_now[0]["Status"]["State"] = "down"
    if state:
        run.swarm.end("a", state)
    run.rounds(2)
    set_state(run, "a", tried_again)
    run.rounds(3)
    assert run.swarm.began == ["ida", "ida"]
    assert run.swarm.state("a").startswith("admitted attempt=2 node=n2 ")
    assert len(run.swarm.tasks_of("ida")) == 2


def test_held_work_runs_again_after_it_was_released():
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.scale("a", 0)
    run.rounds(2)
    set_state(run, "a", released)
    run.rounds(3)
    assert run.swarm.began == ["ida", "ida"]
    assert run.swarm.state("a").startswith("admitted attempt=2 released=1 node=n1 ")
    assert run.swarm.services_now["ida"]["Spec"]["TaskTemplate"]["Placement"]["Constraints"] == ["node.id==n1"]


def test_admitted_work_that_is_scaled_to_0_or_rolled_back_is_held():
    run = driver(queued("a"), queued("b"))
    run.rounds(2)
    run.swarm.end("a")
    run.rounds(2)
    run.swarm.scale("a", 0)
    run.swarm.roll_back("b")
    run.rounds(3)
    words = "result=it was scaled to 0 after it was admitted, and would run again"
    assert run.swarm.state("a") == "held attempt=1 node=n1 " + words
    assert run.swarm.state("b") == "held attempt=1 " + words
    run.rounds(10)
    assert sorted(run.swarm.began) == ["ida", "idb"]
    run.swarm.change("b", lambda spec: spec["Labels"].update(note="somebody else's"))  # swarm forgets the former specification
    run.rounds(10)
    assert sorted(run.swarm.began) == ["ida", "idb"]


@pytest.mark.parametrize("ends", ["complete", "too long", "tried again"])
def test_what_swarm_runs_again_because_of_a_rollback_is_stopped_and_held(ends):
    run = driver(queued("a", time_limit="10m"))
    run.rounds(2)
    if ends == "too long":
        run.rounds(11, 60)
    run.swarm.end("a")
    run.rounds(2)
    if ends == "tried again":
        set_state(run, "a", tried_again)
        run.rounds(2)
    began = len(run.swarm.began)
    run.swarm.roll_back("a")
    run.swarm.schedule()
    assert len(run.swarm.began) == began + 1
    for _again in range(2):
        run.rounds(20)
        assert run.swarm.state("a") == (
            "held attempt=%d node=n1 result=it was rolled back after it was admitted, and swarm ran it again" % (2 if ends == "tried again" else 1)
        )
        assert not run.swarm.gpus_held("n1")
        run.swarm.roll_back("a")
        run.swarm.schedule()


def test_work_that_runs_goes_on_if_somebody_rolls_back_a_label():
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.change("a", lambda spec: spec["Labels"].update(note="new"))
    run.swarm.roll_back("a")
    run.rounds(3)
    assert run.swarm.state("a").startswith("admitted")
    assert run.swarm.gpus_held("n1") == 2


def test_a_gang_is_not_tried_again_while_a_task_of_it_still_stops():
    run = driver(*gang(), nodes=[gpu_node("n1"), gpu_node("n2"), gpu_node("n3")])
    run.rounds(2)
    run.swarm.end("gang0", "failed", REFUSED, 125)
    (stops,) = run.swarm.tasks_of("idgang1")
    run.round()
    stops["Status"] = {"State": "running", "Timestamp": stops["Status"]["Timestamp"]}
    run.rounds(10)
    assert sorted(run.swarm.began) == ["idgang0", "idgang1"]
    run.swarm.end_task(stops, "shutdown")
    run.rounds(4)
    assert Counter(run.swarm.began) == {"idgang0": 2, "idgang1": 2}


def test_work_that_all_nodes_refused_is_tried_there_again_later():
    run = driver(queued("a"), nodes=[gpu_node("n1")])
    run.rounds(2)
    run.swarm.end("a", "failed", REFUSED, 125)
    run.rounds(38)
    assert run.swarm.began == ["ida"]
    run.rounds(6)
    assert run.swarm.began == ["ida", "ida"]
    assert run.swarm.state("a").startswith("admitted attempt=2 node=n1 ")


def test_waiting_work_that_a_person_scales_to_1_is_not_started_again():
    run = driver(queued("z", {GPU: 16}), queued("a"))
    run.swarm.scale("a", 1)
    run.rounds(10)
    assert run.swarm.began == ["ida"]
    assert run.swarm.state("a") == "waiting"
    assert "it was started outside of the queue" in run.waits("a")


def test_work_without_any_record_of_its_task_is_held_and_not_run_again():
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.tasks_now.clear()
    run.rounds(2)
    assert run.swarm.state("a").startswith("admitted")
    run.rounds(12, 60)
    assert run.swarm.state("a").startswith("held attempt=1 node=n1 result=swarm has no record of its task")
    assert run.swarm.began == ["ida"]


def test_if_somebody_changes_a_service_meanwhile_the_next_round_decides_again():
    run = driver(queued("a"))
    changes = iter([None, None])

    def change(_service_id):
        for _change in changes:
            run.swarm.change("a", lambda spec: spec["Labels"].update({"gpu-swarm.queue": "nightly"}))
            return

    run.swarm.before_update = change
    run.rounds(6)
    assert run.swarm.state("a") == "waiting"
    assert run.swarm.began == []
    assert run.admitter.last.decisions[0].reason.text == "there is no queue nightly; the queues are research"
    assert run.said == []


def test_if_somebody_removes_a_service_meanwhile_the_others_are_admitted():
    run = driver(queued("a"), queued("b"))
    run.swarm.before_update = lambda service_id: run.swarm.services_now.pop("ida", None)
    run.round()
    assert run.swarm.began == ["idb"]
    assert all("could not" not in line for line in run.said)


def test_a_round_that_takes_very_long_writes_nothing_more():
    run = driver(queued("a"), queued("b"))

    def pass_time(_service_id):
        run.swarm.clock += 200

    run.swarm.before_update = pass_time
    run.round()
    assert run.swarm.began == ["ida"]


def test_what_swarm_refuses_to_write_is_said_once_and_tried_again_later():
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.end("a")
    run.swarm.refuses = {"ida"}
    run.rounds(15)
    assert [line for line in run.said if "could not" in line] == [
        "queue: a could not be changed: The manager refused to update the service: invalid mount."
    ]
    run.swarm.refuses = set()
    run.rounds(10)
    assert run.swarm.state("a").endswith("result=complete")


def test_a_service_whose_admission_swarm_refuses_does_not_keep_others_waiting():
    run = driver(queued("a", {GPU: 8}), queued("b", {GPU: 8}), nodes=[gpu_node("n1")])
    run.swarm.refuses = {"ida"}
    run.rounds(6)
    assert run.swarm.began == ["idb"]
    assert "invalid mount" in run.waits("a")
    assert sum("could not be changed" in line for line in run.said) == 1


def test_a_service_whose_update_fails_does_not_keep_others_waiting():
    """An update may double what swarm stores of a service: its specification, and the former one. Swarm refuses more than 1.5 MiB with status 500."""
    run = driver(*[queued(name, {GPU: 1}) for name in "abc"])

    def fail(service_id):
        if service_id == "ida":
            raise SwarmError("The manager refused to update service a: raft: raft message is too large and can't be sent.")

    run.swarm.before_update = fail
    run.rounds(3)
    assert run.swarm.began == ["idb", "idc"]
    assert len([line for line in run.said if "too large" in line]) == 1
    assert "too large" in run.waits("a")
    run.rounds(25)
    assert len([line for line in run.said if "too large" in line]) == 2


def test_without_a_history_of_tasks_nothing_is_admitted():
    run = driver(queued("a"))
    run.swarm.history = 0
    run.rounds(6)
    assert run.swarm.writes == 0
    assert "docker swarm update --task-history-limit 5" in run.waits("a")


def test_unreadable_queues_are_said_once_and_admit_nothing():
    run = driver(queued("a"), queues="{")
    run.rounds(6)
    assert run.swarm.writes == 0
    assert [line.partition(" is unreadable")[0] for line in run.said] == ["the queues could not be served: The label gpu-swarm.queues of the swarm"]


def test_while_the_queues_are_unreadable_running_work_still_ends_at_its_time_limit():
    run = driver(queued("a", time_limit="1h"), queued("b", time_limit="1h"))
    run.rounds(3)
    run.swarm.labels["gpu-swarm.queues"] = "{"
    run.swarm.end("b")
    run.rounds(2)
    assert run.swarm.state("b").endswith("result=complete")
    run.rounds(2, 3600)
    assert run.swarm.state("a").endswith("result=stopped: it ran for longer than its time limit of 1h")


def test_an_idle_round_reads_only_the_list_of_services():
    run = driver(queued("a"))
    run.rounds(2)
    run.swarm.end("a")
    run.rounds(2)
    labels, run.swarm.calls = dict(run.swarm.labels), []
    run.admitter.services.listens = True
    run.rounds(10, 5)
    assert run.swarm.calls == []
    assert run.swarm.labels == labels


def test_with_events_a_round_reads_only_what_changed():
    run = driver(queued("a", {GPU: 8}), queued("b", {GPU: 8}), nodes=[gpu_node("n1")])
    run.admitter.services.listens = True
    run.rounds(3)
    run.swarm.calls = []
    run.rounds(4, 5)
    assert set(run.swarm.calls) == {"list tasks"}
    run.swarm.submit(queued("c"))
    run.admitter.services.changed("idc")
    run.round()
    assert run.swarm.calls[-5:] == ["list tasks", "read service", "list tasks", "all services", "all tasks"]


def test_the_next_round_begins_after_an_update_at_once_and_every_5_s_while_work_is_admitted():
    run = driver(queued("a", {GPU: 8}), nodes=[gpu_node("n1")])
    assert run.round() == 1  # admitted
    assert run.round(1) == 5
    run.swarm.end("a")
    assert run.round(5) == 1  # over
    assert run.round(1) is None
    assert run.round(leads=False) is None


def test_after_a_change_waiting_work_waits_at_most_10_s_for_a_decision():
    run = driver(queued("a", {GPU: 16}), nodes=[gpu_node("n1")])
    assert run.round() is None  # no node could hold it
    run.swarm.submit(queued("b", {GPU: 8}))
    run.admitter.services.changed("idb")
    assert run.round(4) == 6
    assert run.swarm.began == []
    assert run.round(6) == 1
    assert run.swarm.began == ["idb"]


def test_if_a_list_takes_long_it_is_read_at_most_a_twentieth_of_the_time():
    run = driver(queued("a", {GPU: 8}), nodes=[gpu_node("n1")])
    run.admitter.services.listens = True
    run.round()
    run.round()
    quick = run.swarm.tasks_labelled

    def slow(label):
        run.swarm.clock += 2
        return quick(label)

    run.swarm.tasks_labelled, run.swarm.calls = slow, []
    assert run.round() == 38
    assert run.round(30) == 8
    assert run.swarm.calls == ["list tasks"]
    assert run.round(8) == 38


def test_if_the_manager_does_not_answer_the_next_round_begins_soon():
    run = driver(queued("a"))
    run.swarm.cluster = lambda: failing("the manager does not answer")
    assert run.round() == 5
    assert run.said == ["the queues could not be served: the manager does not answer"]


def failing(text):
    raise SwarmError(text)


def test_only_the_leader_admits_and_a_former_leader_makes_way_at_once():
    run = driver(queued("a"), queued("b", queue="nightly"))
    run.round(leads=False)
    assert run.swarm.labels.keys() == {"gpu-swarm.queues"}
    run.round()
    assert run.swarm.labels["gpu-swarm.queue-round"] == "m1 1"
    run.round(leads=False)
    assert run.swarm.labels.keys() == {"gpu-swarm.queues"}


def test_a_manager_whose_service_was_restarted_makes_way_too():
    run = driver(queued("a"))
    run.round()
    run.restart()
    assert run.round(leads=False) is None
    assert run.swarm.labels.keys() == {"gpu-swarm.queues"}


def test_a_former_leader_makes_way_as_soon_as_the_swarm_has_a_leader():
    run = driver(queued("a"))
    run.round()
    working, run.swarm.update_cluster = run.swarm.update_cluster, lambda version, spec: failing("the swarm has no leader")
    assert run.round(leads=False) == 5
    run.swarm.update_cluster = working
    assert run.round(5, leads=False) is None
    assert run.swarm.labels.keys() == {"gpu-swarm.queues"}


def test_a_manager_that_leads_again_reads_all_services_again():
    run = driver(queued("a"))
    run.admitter.services.listens = True
    run.round()
    run.round(leads=False)
    run.swarm.submit(queued("b"))
    run.rounds(2)
    assert run.swarm.began == ["ida", "idb"]


@pytest.mark.parametrize("text", ["m2 7", "m2", "m2 seven", "rubbish of somebody else"])
def test_a_new_leader_waits_until_the_stamp_of_the_former_one_is_old(text):
    run = driver(queued("a"))
    run.swarm.labels["gpu-swarm.queue-round"] = text
    run.rounds(12)
    assert run.swarm.writes == 0
    assert run.swarm.labels["gpu-swarm.queue-round"] == text
    run.rounds(2)
    assert run.swarm.labels["gpu-swarm.queue-round"].startswith("m1 ")
    assert run.swarm.began == ["ida"]


def test_while_the_stamp_of_another_manager_changes_it_admits():
    run = driver(queued("a"))
    for number in range(10):
        run.swarm.labels["gpu-swarm.queue-round"] = "m2 %d" % number
        run.rounds(4)
    assert run.swarm.writes == 0


def test_the_stamp_is_written_once_a_minute():
    run = driver(queued("a", {GPU: 16}))
    run.rounds(24, 5)
    assert run.swarm.labels["gpu-swarm.queue-round"] == "m1 2"
    assert run.swarm.version == 12
