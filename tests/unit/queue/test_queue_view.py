# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from queue_swarm import Driver, QueueSwarm
from queued import GPU, gpu_node, held, queued
from swarm_api import task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_view import queue_view, view_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queues import check_queues
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch, stamp

UPDATED = "2026-11-20T12:00:00Z"
THEN = epoch(UPDATED)
QUEUES = check_queues({"research": {"weight": 2, "max": {GPU: 12}, "time_limit": "1h"}, "nightly": {"priority": -10}})
ADMITTED = "admitted attempt=1 node=n1 admission=k"


def at(seconds):
    return stamp(THEN + seconds)


def view(*services, tasks=(), nodes=None, queues=QUEUES, problem="", now=THEN + 60):
    known = [{**service, "UpdatedAt": UPDATED} for service in services]
    return queue_view(Listed(nodes or [gpu_node("n1"), gpu_node("n2")], iter(tasks), known, now), queues, now, problem)


def the(found, name):
    return next(row for row in found["work"] if row["service"] == name)


def ran(service, state="running", node_id="n1", gpus=2, since=10, **options):
    made = held(node_id, gpus, "id" + service, state)
    made["CreatedAt"] = at(since)
    made["Status"].update(Timestamp=at(since), ContainerStatus={"ContainerID": "c"}, **options)
    return made


def test_the_reasons_and_the_order_are_those_of_the_service():
    services = [queued("a%02d" % number, {GPU: 3 + number % 6}, owner="alice" if number % 2 else "bob") for number in range(12)]
    services += [queued("x", queue="none"), queued("g0", gang="g:0/2"), queued("h", state="held attempt=1", replicas=1)]
    run = Driver(QueueSwarm(services, queues='{"research":{"time_limit":"1h","max":{"NVIDIA-GPU":14}}}'))
    run.rounds(4)
    swarm = run.swarm
    read = Listed(swarm.nodes_now, swarm.tasks(), swarm.services(), swarm.clock)
    found = view_of(read, swarm.cluster()[0]["Spec"], swarm.clock)
    expected = [(one.work.name, one.position or None, one.reason.text) for one in run.admitter.last.decisions if one.reason]
    waits = [(row["service"], row["position"], row["text"]) for row in found["work"] if row["state"] == "waiting"]
    assert sorted(waits) == sorted(expected)
    assert [name for name, position, _text in waits if position] == [name for name, position, _text in expected if position]
    assert {row["service"] for row in found["work"] if row["state"] == "running"} == {name[2:] for name in swarm.began}
    assert the(found, "h")["text"] == run.waits("h")


def test_waiting_work_has_its_position_and_the_head_its_nodes():
    tasks = [held("n1", 2), held("n2", 2)]
    found = view(queued("a", {GPU: 8}), queued("b", {GPU: 7}), queued("c", {GPU: 1}, time_limit="5m", owner="bob"), tasks=tasks)
    head = the(found, "a")
    assert (head["position"], head["kept"], head["reason"], head["since"]) == (1, ["host-n1"], "next", "2026-11-20T12:00:00Z")
    assert head["amounts"] == {GPU: 8}
    assert (the(found, "b")["position"], the(found, "b")["reason"]) == (2, "cap")
    assert the(found, "c")["reason"] == "may-start"
    assert [row["service"] for row in found["work"]] == ["c", "a", "b"]
    assert (found["queues"][1]["queue"], found["queues"][1]["waiting"]) == ("research", 3)


def test_the_head_knows_when_it_starts_at_the_latest():
    running = queued("r", {GPU: 8}, state=ADMITTED, replicas=1)
    found = view(running, queued("a", {GPU: 4}), tasks=[ran("r", gpus=8)], nodes=[gpu_node("n1")])
    assert the(found, "a")["starts_by"] == at(10 + 3600)
    assert (the(found, "r")["since"], the(found, "r")["ends"], the(found, "r")["time_limit_s"]) == (at(10), at(10 + 3600), 3600)


@pytest.mark.parametrize(
    ("service", "tasks", "state", "reason", "words"),
    [
        (queued("a", state=ADMITTED, replicas=1), [], "starting", "", "swarm has not created its task yet"),
        (queued("a", state=ADMITTED, replicas=1), [ran("a", "preparing")], "starting", "", "swarm shows its task as preparing"),
        (queued("a", state=ADMITTED, replicas=1), [ran("a")], "running", "", ""),
        (queued("a", state=ADMITTED, replicas=1, time_limit="30s"), [ran("a")], "running", "", "it is about to be stopped"),
        (queued("a", state=ADMITTED, replicas=1), [ran("a", "complete")], "over", "", "complete"),
        (queued("a", state=ADMITTED, replicas=1), [ran("a", "failed", Err="task: non-zero exit (3)")], "over", "", "task: non-zero exit (3)"),
        (queued("a", state="over attempt=1 node=n1 result=complete", replicas=1), [ran("a", "complete")], "over", "", "complete"),
        (queued("a", state="over attempt=1 node=n1 result=stopped: x", replicas=1), [ran("a")], "over", "", "its container is about to stop"),
        (queued("a", state="over attempt=1 node=n1"), [], "held", "held", "gpu-swarm release a"),
        (queued("a", condition="any"), [], "refused", "cannot-be-queued", "--restart-condition none"),
        (queued("a", time_limit="2d"), [], "refused", "cannot-be-queued", "the queue research allows 1h"),
        (queued("a", queue="none"), [], "waiting", "no-queue", "the queues are nightly, research"),
        (queued("a", gang="train:0/2"), [], "waiting", "gang", "it lacks rank 1"),
        (queued("a", state="waiting attempt=1 node=n1 admission=k result=taken back: x", replicas=1), [], "waiting", "taken-back", "is being"),
        (queued("a", state="waiting attempt=3 node=n1 result=taken back: x", replicas=1), [], "waiting", "taken-back", "not tried before"),
    ],
)
def test_people_see_one_word_and_a_sentence(service, tasks, state, reason, words):
    row = the(view(service, tasks=tasks), "a")
    assert (row["state"], row["reason"]) == (state, reason)
    assert words in row["text"]


def test_work_on_a_node_that_does_not_answer_is_lost():
    found = view(queued("a", state=ADMITTED, replicas=1), tasks=[ran("a")], nodes=[gpu_node("n1", State="down"), gpu_node("n2")])
    row = the(found, "a")
    assert (row["state"], row["node"]) == ("lost", "host-n1")
    assert "'gpu-swarm retry a' runs it elsewhere" in row["text"]
    assert found["queues"][1]["running"] == 1


def test_work_in_no_queue_that_took_the_place_of_the_head_is_named():
    services = [queued("a", {GPU: 8}, state="waiting keeps=n1"), {**queued("web", queue=None, replicas=1), "ID": "web"}]
    tasks = [held("n1", 1, "old"), held("n1", 2, "web"), held("n2", 3, "web")]
    for number, seconds in enumerate((-50, 20, 20)):
        tasks[number]["Status"]["Timestamp"] = at(seconds)
    row = the(view(*services, tasks=tasks), "a")
    assert row["taken"] == [{"service": "web", "node": "host-n1", "kind": GPU, "amount": 2, "since": at(20)}]
    assert row["text"].endswith("; work in no queue took room there meanwhile: web (2 NVIDIA-GPU on host-n1 since %s)" % at(20))


def test_queues_say_what_they_use_and_their_share():
    services = [queued("a", {GPU: 4}, state=ADMITTED, replicas=1), queued("b", {GPU: 1}, queue="nightly")]
    nightly, research = view(*services, tasks=[ran("a", gpus=4)])["queues"]
    assert nightly == {
        "queue": "nightly", "weight": 1, "priority": -10, "time_limit_s": 86400, "max": {}, "per_owner": {}, "used": {}, "share": 0.0,
        "waiting": 1, "running": 0,
    }  # fmt: skip
    assert (research["used"], research["share"], research["running"], research["max"]) == ({GPU: 4}, 0.125, 1, {GPU: 12})


def test_members_of_a_gang_and_the_priority_are_shown():
    found = view(*[queued("g%d" % rank, {GPU: 8}, queue="nightly", gang="train:%d/2 any" % rank) for rank in range(2)], queued("p", priority="7"))
    assert the(found, "g1")["gang"] == {"name": "train", "rank": 1, "size": 2}
    assert the(found, "g1")["priority"] == -10
    assert (the(found, "p")["gang"], the(found, "p")["priority"]) == (None, 7)


def test_without_queues_and_services_nothing_is_computed():
    assert view(queues={}) == {"queues": [], "work": [], "problem": ""}


@pytest.mark.parametrize(
    ("swarm", "words"),
    [
        ({"Labels": {"gpu-swarm.queues": "{"}}, "The label gpu-swarm.queues of the swarm is unreadable"),
        ({"Labels": {"gpu-swarm.queues": '{"research":{}}'}, "Orchestration": {"TaskHistoryRetentionLimit": 0}}, "keeps no ended tasks"),
    ],
)
def test_what_keeps_all_work_from_starting_is_the_problem_and_the_reason(swarm, words):
    found = view_of(Listed([gpu_node("n1")], [], [{**queued("a"), "UpdatedAt": UPDATED}], THEN), swarm, THEN)
    assert words in found["problem"]
    assert (the(found, "a")["reason"], the(found, "a")["text"]) == ("not-served", found["problem"])


def test_hostile_names_are_one_printable_line():
    service = queued("a", owner="al\x1b[2Kice\n", state=ADMITTED, replicas=1)
    service["Spec"]["Name"] = "x\ny"
    nodes = [gpu_node("n1")]
    nodes[0]["Description"]["Hostname"] = "ev\x1bil"
    found = view(service, tasks=[task("t", "n1", service="ida")], nodes=nodes)
    (row,) = found["work"]
    assert (row["service"], row["owner"], row["node"]) == ("x\\ny", "al\\x1b[2Kice\\n", "ev\\x1bil")
    assert json.loads(json.dumps(found)) == found
