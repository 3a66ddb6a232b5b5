# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time

import pytest
from swarm_api import A, B, discrete, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm_ledger import ledger

PREFIX = "gpu-swarm."


def only(advertised, tasks, kind="NVIDIA-GPU", **options):
    result = ledger([node(resources=advertised, **options)], tasks, [service()], PREFIX)
    return result["nodes"][0]["resources"][kind], result["kinds"][kind]


@pytest.mark.parametrize("state", ["assigned", "accepted", "preparing", "ready", "starting", "running"])
@pytest.mark.parametrize("desired", ["running", "shutdown", "remove"])
def test_a_task_holds_from_assignment_to_its_end(state, desired):
    entry, sums = only(named(A, B), [task("t1", given=named(B), state=state, desired=desired)])
    assert entry["free"] == [A]
    assert entry["held"] == [{"value": B, "task_id": "t1", "service": "train", "slot": 1, "state": state, "desired_state": desired}]
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
def test_named(advertised, tasks, total, free):
    entry, _sums = only(advertised, tasks)
    assert (entry["type"], entry["total"], entry["free"]) == ("named", total, free)
    assert len(entry["held"]) == sum(len(item["GenericResources"]) for item in tasks)


@pytest.mark.parametrize(
    ("advertised", "given", "total", "free"),
    [(8000, [3000], 8000, 5000), (8000, [3000, 5000], 8000, 0), (2000, [3000], 2000, 0), (0, [], 0, 0)],
)
def test_discrete(advertised, given, total, free):
    tasks = [task("t%d" % count, given=discrete(count)) for count in given]
    entry, sums = only(discrete(advertised), tasks, kind="VRAM")
    assert (entry["type"], entry["values"], entry["total"], entry["free"]) == ("discrete", None, total, free)
    assert [item["amount"] for item in entry["held"]] == given
    assert sums == {"total": total, "held": sum(given), "free": free, "schedulable": free}


def test_a_kind_that_is_held_but_no_longer_advertised_is_listed():
    entry, sums = only([], [task("t1", given=named(A))])
    assert (entry["total"], entry["free"], len(entry["held"])) == (0, [], 1)
    assert sums == {"total": 0, "held": 1, "free": 0, "schedulable": 0}


def test_the_key_of_the_api_reference_is_read_too():
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
def test_the_address_is_one_that_others_can_use(leader, addr, shown):
    result = ledger([node(leader=leader, Addr=addr)], [], [], PREFIX)
    assert result["nodes"][0]["addr"] == shown


def test_a_node_is_told_with_all_that_a_run_needs():
    labels = {"gpu.model": "T4", "gpu-swarm.former-availability": "active"}
    result = ledger([node("n2", leader=True), node(labels=labels, availability="pause")], [], [], PREFIX)
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
        "resources": {},
    }
    assert (second["leader"], second["reachability"], second["role"]) == (True, "reachable", "manager")


@pytest.mark.parametrize(
    ("labels", "former"),
    [({}, None), ({"gpu-swarm.former-availability": "active"}, "active"), ({"gpu-swarm.former-availability": "pause/drain"}, "pause")],
)
def test_the_former_availability_is_told_without_what_it_became(labels, former):
    assert ledger([node(labels=labels)], [], [], PREFIX)["nodes"][0]["former_availability"] == former


def test_tasks_of_no_service_and_of_global_services():
    entry, _sums = only(named(A, B), [task("t1", given=named(A), service="gone"), task("t2", given=named(B), slot=None)])
    assert [(item["service"], item["slot"]) for item in entry["held"]] == [("gone", 1), ("train", None)]


def test_a_node_that_never_reported_is_listed():
    bare = {"ID": "n1", "Version": {"Index": 1}, "Spec": {"Role": "worker", "Availability": "active"}, "Status": {}}
    assert ledger([bare], [], [], PREFIX)["nodes"][0]["resources"] == {}


def test_a_big_swarm_is_read_in_one_pass():
    nodes = [node("n%d" % i, resources=named(*("GPU-%d-%d" % (i, g) for g in range(8)))) for i in range(1000)]
    tasks = [
        task("t%d" % i, "n%d" % (i % 1000), named("GPU-%d-%d" % (i % 1000, i // 1000)), slot=i)
        if i < 6000
        else task("t%d" % i, "n%d" % (i % 1000), state="shutdown", desired="shutdown")
        for i in range(20000)
    ]
    start = time.process_time()
    result = ledger(nodes, tasks, [service()], PREFIX)
    assert time.process_time() - start < 2
    assert result["kinds"]["NVIDIA-GPU"] == {"total": 8000, "held": 6000, "free": 2000, "schedulable": 2000}
