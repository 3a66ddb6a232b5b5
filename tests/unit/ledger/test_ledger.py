# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gc

import pytest
from queued import queued
from swarm_api import RECORDED_AT, A, B, discrete, named, node, pending, recorded, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.explain import ALL
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

PREFIX = "gpu-swarm."
SINCE = "2026-11-20T12:00:00.123456789Z"


def only(advertised, tasks, kind="NVIDIA-GPU", **options):
    result = ledger(Listed([node(resources=advertised, **options)], tasks, [service()]), PREFIX)
    return result["nodes"][0]["resources"][kind], result["kinds"][kind]


@pytest.mark.parametrize("state", ["assigned", "accepted", "preparing", "ready", "starting", "running"])
@pytest.mark.parametrize("desired", ["running", "shutdown", "remove"])
def test_a_task_holds_from_assignment_to_its_end(state, desired):
    entry, sums = only(named(A, B), [task("t1", given=named(B), state=state, desired=desired)])
    assert entry["free"] == [A]
    assert entry["held"] == [
        {
            "value": B,
            "task_id": "t1",
            "service": "train",
            "name": "train.1",
            "slot": 1,
            "state": state,
            "desired_state": desired,
            "since": SINCE,
        }
    ]
    assert sums == {"total": 2, "held": 1, "free": 1, "schedulable": 1}


@pytest.mark.parametrize("state", ["new", "pending", "complete", "shutdown", "failed", "rejected", "remove", "orphaned"])
def test_a_task_holds_nothing_before_and_after(state):
    entry, sums = only(named(A), [task("t1", given=named(A), state=state)])
    assert (entry["held"], entry["free"], sums["held"]) == ([], [A], 0)


@pytest.mark.parametrize(
    ("advertised", "tasks", "total", "free"),
    [
        (named(A, B), [], 2, [A, B]),
        (named(A, B), [task("t1", given=named(A, B))], 2, []),
        (named(A, A), [task("t1", given=named(A))], 2, [A]),
        (named(A), [task("t1", given=named(A)), task("t2", given=named(A))], 1, []),
        (named(B), [task("t1", given=named(A))], 1, [B]),
    ],
    ids=["idle", "one task with both", "advertised twice", "held twice", "held but gone from the node"],
)
def test_named_resources_are_counted(advertised, tasks, total, free):
    entry, _sums = only(advertised, tasks)
    assert (entry["type"], entry["total"], entry["free"]) == ("named", total, free)
    assert len(entry["held"]) == sum(len(item["GenericResources"]) for item in tasks)


@pytest.mark.parametrize(
    ("advertised", "given", "total", "free"),
    [(8000, [3000], 8000, 5000), (8000, [3000, 5000], 8000, 0), (2000, [3000], 2000, 0), (0, [], 0, 0)],
)
def test_discrete_resources_are_counted(advertised, given, total, free):
    tasks = [task("t%d" % count, given=discrete(count)) for count in given]
    entry, sums = only(discrete(advertised), tasks, kind="VRAM")
    assert (entry["type"], entry["values"], entry["total"], entry["free"]) == ("discrete", None, total, free)
    assert [item["amount"] for item in entry["held"]] == given
    assert sums == {"total": total, "held": sum(given), "free": free, "schedulable": free}


def test_a_kind_in_use_that_is_no_longer_advertised_is_listed():
    entry, sums = only([], [task("t1", given=named(A))])
    assert (entry["total"], entry["free"], len(entry["held"])) == (0, [], 1)
    assert sums == {"total": 0, "held": 1, "free": 0, "schedulable": 0}


def test_the_key_in_the_api_reference_is_read_too():
    documented = task("t1")
    documented["AssignedGenericResources"] = named(A)
    entry, _sums = only(named(A), [documented])
    assert entry["free"] == []


@pytest.mark.parametrize(
    ("options", "schedulable"),
    [
        ({}, 1),
        ({"availability": "drain"}, 0),
        ({"availability": "pause"}, 0),
        ({"State": "down"}, 0),
    ],
)
def test_only_free_on_ready_and_active_nodes_is_schedulable(options, schedulable):
    _entry, sums = only(named(A), [], **options)
    assert (sums["free"], sums["schedulable"]) == (1, schedulable)


@pytest.mark.parametrize(
    ("leader", "addr", "shown"),
    [
        (False, "192.0.2.1", "192.0.2.1"),
        (True, "192.0.2.1", "192.0.2.1"),
        (True, "0.0.0.0", "192.0.2.9"),
        (True, "127.0.0.1", "192.0.2.9"),
        (False, "127.0.0.1", "127.0.0.1"),
    ],
)
def test_the_address_is_reachable_for_others(leader, addr, shown):
    result = ledger(Listed([node(leader=leader, Addr=addr)], [], []), PREFIX)
    assert result["nodes"][0]["addr"] == shown


def test_a_node_is_listed_with_everything_a_run_needs():
    labels = {"gpu.model": "T4", "gpu-swarm.former-availability": "active", "gpu-swarm.paused-by": "provision"}
    paused = dict(node(labels=labels, availability="pause"), UpdatedAt="2026-11-20T12:00:00.5Z")
    result = ledger(Listed([node("n2", leader=True), paused], [], [], epoch("2026-11-20T12:01:30Z")), PREFIX)
    first, second = result["nodes"]
    assert first == {
        "id": "n1",
        "hostname": "host-n1",
        "addr": "192.0.2.1",
        "role": "worker",
        "leader": False,
        "reachability": None,
        "state": "ready",
        "availability": "pause",
        "engine_version": "26.1.5+dfsg1",
        "labels": labels,
        "former_availability": "active",
        "set_by_run": True,
        "set_at": None,
        "set_by": "provision",
        "paused_for": None,
        "unchanged_for": 90,
        "message": "",
        "health": None,
        "resources": {},
        "tasks": [],
    }
    assert (second["leader"], second["reachability"], second["role"]) == (True, "reachable", "manager")


@pytest.mark.parametrize(
    ("labels", "former"),
    [({}, None), ({"gpu-swarm.former-availability": "active"}, "active"), ({"gpu-swarm.former-availability": "pause/drain"}, "pause")],
)
def test_the_former_availability_is_listed_alone(labels, former):
    assert ledger(Listed([node(labels=labels)], [], []), PREFIX)["nodes"][0]["former_availability"] == former


def test_tasks_of_no_service_and_of_global_services():
    entry, _sums = only(named(A, B), [task("t1", given=named(A), service="gone"), task("t2", given=named(B), slot=None)])
    assert [(item["service"], item["slot"]) for item in entry["held"]] == [("gone", 1), ("train", None)]


def test_a_node_that_never_reported_is_listed():
    bare = {"ID": "n1", "Version": {"Index": 1}, "Spec": {"Role": "worker", "Availability": "active"}, "Status": {}}
    assert ledger(Listed([bare], [], []), PREFIX)["nodes"][0]["resources"] == {}


def test_the_leader_counts_free_what_it_gave_to_a_finished_task():
    for version in ("20.10.24", "26.1.5", "29.6.0"):
        manager = node("m1", leader=True, engine=version)
        ended = task("t1", given=named(A), state="complete", desired="complete", job=True)
        result = ledger(Listed([manager, node(resources=named(A))], [ended], [service(mode="ReplicatedJob")]), PREFIX)
        assert result["kinds"]["NVIDIA-GPU"] == {"total": 1, "held": 0, "free": 1, "schedulable": 1}


def tasks_of(tasks, services=None, now=SINCE):
    return ledger(Listed([node()], tasks, services or [service()], epoch(now)), PREFIX)["nodes"][0]["tasks"]


@pytest.mark.parametrize("state", ["assigned", "accepted", "preparing", "ready", "starting", "running"])
def test_all_live_tasks_of_a_node_are_listed(state):
    (found,) = tasks_of([task("t1", state=state)], now="2026-11-20T13:02:03.5+01:00")
    assert found == {
        "id": "t1",
        "service": "train",
        "name": "train.1",
        "state": state,
        "since": SINCE,
        "age": 123,
        "movable": True,
        "kept": None,
        "removed": False,
        "restarts_left": None,
        "elsewhere": False,
        "holding": {},
    }


@pytest.mark.parametrize("state", ["new", "pending", "complete", "shutdown", "failed", "rejected", "remove", "orphaned"])
def test_tasks_without_a_node_are_not_listed_on_one(state):
    assert tasks_of([task("t1", state=state)]) == []


def test_allocations_are_listed_with_their_task():
    given = named(A, B) + discrete(8000)
    assert [one["holding"] for one in tasks_of([task("t1", given=given)])] == [{"NVIDIA-GPU": [A, B], "VRAM": 8000}]


@pytest.mark.parametrize(
    ("options", "mode", "movable"),
    [
        ({}, "Replicated", True),
        ({}, "Global", True),
        ({"restart": None}, "Replicated", True),
        ({"restart": "on-failure"}, "Replicated", True),
        ({"restart": "none"}, "Replicated", False),
        ({"restart": "none"}, "Global", False),
        ({"restart": "on-failure", "job": True}, "ReplicatedJob", False),
        ({"job": True}, "GlobalJob", False),
        ({}, "ReplicatedJob", False),
    ],
)
def test_tasks_that_swarm_starts_again_are_movable(options, mode, movable):
    (found,) = tasks_of([task("t1", **options)], [service(mode=mode)])
    assert found["movable"] is movable


@pytest.mark.parametrize("job", [True, False])
def test_a_task_is_not_movable_after_its_service_is_gone(job):
    """The task is about to end, and Swarm does not replace it."""
    (found,) = tasks_of([task("t1", job=job, service="gone")])
    assert (found["movable"], found["name"]) == (False, "gone.1")


@pytest.mark.parametrize(("of", "removed"), [("gone", True), ("s1", False)])
def test_a_task_of_a_removed_service_is_recognised(of, removed):
    (found,) = tasks_of([task("t1", service=of)])
    assert found["removed"] is removed


@pytest.mark.parametrize(
    ("since", "now", "age"),
    [
        (SINCE, SINCE, 0),
        (SINCE, "2026-11-20T12:01:00Z", 60),
        (SINCE, "2026-11-20T07:00:10.5-05:00", 10),
        (SINCE, "2026-11-20T17:30:10+05:30", 10),
        (SINCE, "2026-11-20T11:59:00Z", 0),
        (SINCE, None, None),
        (SINCE, "soon", None),
        ("0001-01-01T00:00:00Z", SINCE, None),
        (None, SINCE, None),
    ],
)
def test_ages_are_counted_by_the_managers_clock(since, now, age):
    (found,) = tasks_of([task("t1", since=since)], now=now)
    assert (found["age"], found["since"]) == (age, since)


def test_pools_are_the_resources_that_the_scheduler_can_allocate():
    nodes = [
        node("n1", resources=named(A, B)),
        node("n2", resources=named("GPU-3")),
        node("n3", resources=named("GPU-4"), availability="pause"),
        node("n4", resources=named("GPU-5"), State="down"),
    ]
    result = ledger(Listed(nodes, [task("t1", given=named(A)), task("t2", "n3", given=named("GPU-4"))], [service()]), PREFIX)
    assert result["pools"] == {"NVIDIA-GPU": {"nodes": 2, "total": 3, "held": 1, "free": 2, "most_free": 1}}
    assert result["kinds"] == {"NVIDIA-GPU": {"total": 5, "held": 2, "free": 3, "schedulable": 2}}


def test_tasks_may_come_one_at_a_time():
    listed = [task("t%d" % i, "n%d" % (i % 3), named("GPU-%d" % i), slot=i) for i in range(30)]
    nodes = [node("n%d" % i, resources=named(*("GPU-%d" % one for one in range(i, 60, 3)))) for i in range(3)]
    result = ledger(Listed(nodes, (one for one in listed), [service()]), PREFIX)
    assert result == ledger(Listed(nodes, listed, [service()]), PREFIX)
    assert result["kinds"]["NVIDIA-GPU"] == {"total": 60, "held": 30, "free": 30, "schedulable": 30}


def test_answers_of_a_real_manager_are_read():
    result = ledger(Listed(recorded("nodes"), recorded("tasks"), recorded("services"), epoch(RECORDED_AT)), PREFIX)
    (one,) = result["nodes"]
    assert [(task["name"].split(".")[0], task["age"], task["movable"]) for task in one["tasks"]] == [
        ("agent", 101, True),
        ("peek", 20, True),
        ("train", 18, True),
        ("train", 18, True),
    ]
    assert [(job["service"], job["kind"], job["amount"], job["clash"]) for job in result["finished_jobs"]] == [
        ("check", "VRAM", 2000, False),
        ("sweep", "NVIDIA-GPU", 2, True),
    ]
    assert [(group["service"], group["said"], group["missing"]) for group in result["pending"]] == [
        (
            "big",
            "no suitable node (insufficient resources on 1 node)",
            ["wants 8 NVIDIA-GPU; the most that a node has: 4 (n1)"],
        )
    ]
    assert [(one["service"], one["variables"]) for one in result["unreserved"]] == [("peek", {"NVIDIA_VISIBLE_DEVICES": "all"})]
    assert result["pools"]["NVIDIA-GPU"] == {"nodes": 1, "total": 4, "held": 2, "free": 2, "most_free": 2}


@pytest.mark.parametrize("task_id", ["ID", "lacking"])
def test_garbage_collection_is_restored(task_id):
    """Garbage collection is off while the ledger is read. It is restored even if the reading ends early."""
    broken = {key: value for key, value in task("t1").items() if key != task_id}
    try:
        ledger(Listed([node()], [broken], [service()]), PREFIX)
    except KeyError:
        assert task_id == "ID"
    assert gc.isenabled()


# -- services of queues ------------------------------------------------------------------------------------------------


NOWHERE = "node.id==nowhere"
AT_REST = {
    "waits": (queued("waits"), []),
    "waits again after a refusal": (
        queued("waits", state="waiting attempt=1 node=n1 avoids=n1 result=refused", replicas=1),
        [task("t1", state="rejected", service="idwaits", restart="none", reserves={"NVIDIA-GPU": 2})],
    ),
    "stopped": (
        queued("stopped", state="over attempt=1 node=n1 result=stopped: its time limit of 1h ended", replicas=1, constraints=[NOWHERE]),
        [
            task("t1", state="shutdown", desired="shutdown", service="idstopped", restart="none"),
            pending("t2", {"NVIDIA-GPU": 2}, service="idstopped", constraints=[NOWHERE], restart="none"),
        ],
    ),
    "taken back before it had a node": (
        queued("back", state="waiting attempt=1 node=n1 admission=k result=taken back", replicas=1, constraints=["node.labels.a==b", NOWHERE]),
        [pending("t2", {"NVIDIA-GPU": 2}, service="idback", constraints=["node.labels.a==b", NOWHERE], restart="none")],
    ),
}


@pytest.mark.parametrize("situation", AT_REST)
def test_work_that_a_queue_holds_back_is_neither_pending_nor_unfinished(situation):
    held_back, tasks = AT_REST[situation]
    found = ledger(Listed([node(resources=named(A, B))], tasks, [held_back]), PREFIX, [ALL])
    assert (found["pending"], found["reservations"], found["explained"]) == ([], [], [])
    explained = ledger(Listed([node(resources=named(A, B))], tasks, [held_back]), PREFIX, [held_back["ID"]])["explained"]
    assert [(one["over"], one["needed"], one["waiting"], "pending" in one["text"]) for one in explained] == [(True, 0, 0, False)]
    assert "nowhere" not in explained[0]["text"]


def test_a_queue_stops_only_work_of_its_own():
    """Anybody may write the same constraint into a service without a queue. That service is pending."""
    found = ledger(Listed([node()], [pending("t1", constraints=[NOWHERE])], [service(constraints=[NOWHERE])]), PREFIX, [ALL])
    assert [(group["service"], group["missing"]) for group in found["pending"]] == [("train", ["no node meets node.id==nowhere"])]
    admitted = queued("new", state="admitted attempt=1 node=n1 admission=k", replicas=1, constraints=[NOWHERE, "node.id==n1"])
    tasks = [pending("t1", service="idnew", constraints=[NOWHERE, "node.id==n1"], restart="none")]
    assert [group["service"] for group in ledger(Listed([node()], tasks, [admitted]), PREFIX)["pending"]] == ["new"]


def test_admitted_work_that_waits_for_its_node_moves_to_no_other_node():
    """The queue takes it back if its node does not take it, so a run need not keep room for it."""
    admitted = queued("new", state="admitted attempt=1 node=n1 admission=k", replicas=1, constraints=["node.id==n1"])
    tasks = [pending("t1", {"NVIDIA-GPU": 2}, service="idnew", constraints=["node.id==n1"], restart="none")]
    found = ledger(Listed([node(resources=named(A, B))], tasks, [admitted]), PREFIX)
    assert ([group["service"] for group in found["pending"]], found["reservations"]) == (["new"], [])


def test_work_that_is_tried_again_after_it_was_stopped_is_pending():
    """The waiting successor of the stopped task stays in swarm's history, because no node ever had it."""
    again = queued("again", state="admitted attempt=2 node=n1 admission=k", replicas=1, constraints=["node.id==n1"])
    tasks = [
        task("t1", state="shutdown", desired="shutdown", service="idagain", restart="none"),
        {**pending("t2", {"NVIDIA-GPU": 2}, service="idagain", constraints=[NOWHERE], restart="none"), "DesiredState": "shutdown"},
        pending("t3", {"NVIDIA-GPU": 2}, service="idagain", constraints=["node.id==n1"], restart="none"),
    ]
    (explained,) = ledger(Listed([node(resources=named(A, B))], tasks, [again]), PREFIX, [ALL])["explained"]
    assert (explained["over"], explained["needed"], explained["waiting"]) == (False, 1, 1)


def test_waiting_work_of_a_queue_sees_no_gpus_yet():
    hungry = queued("hungry", {})
    hungry["Spec"]["TaskTemplate"]["ContainerSpec"]["Env"] = ["NVIDIA_VISIBLE_DEVICES=all"]
    runs = task("t1", service="idhungry", restart="none")
    nodes = [node(resources=named(A, B))]
    assert ledger(Listed(nodes, [], [hungry]), PREFIX)["unreserved"] == []
    assert [row["service"] for row in ledger(Listed(nodes, [runs], [hungry]), PREFIX)["unreserved"]] == ["hungry"]
