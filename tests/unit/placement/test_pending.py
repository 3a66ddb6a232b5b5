# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, B, discrete, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement import pending as module
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch

GPU = "NVIDIA-GPU"
GIB = 2**30


def gpus(count, start=0):
    return named(*("GPU-%d" % number for number in range(start, start + count)))


def groups(nodes, tasks, services=None, now=None):
    return ledger(Listed(nodes, tasks, services or [service()], now), "gpu-swarm.")["pending"]


def missing(nodes, *tasks):
    (group,) = groups(nodes, tasks)
    return group["missing"]


def test_a_group_shows_the_waiting_tasks_and_their_reason_and_time():
    tasks = [pending("t2", {GPU: 2}, since="2026-11-20T12:00:05Z"), pending("t1", {GPU: 2}, since="2026-11-20T12:00:00.5Z", slot=2)]
    assert groups([node(resources=gpus(1))], tasks, now=epoch("2026-11-20T12:01:00.5Z")) == [
        {
            "service": "train",
            "count": 2,
            "tasks": ["t1", "t2"],
            "node": None,
            "hostname": None,
            "state": "pending",
            "since": "2026-11-20T12:00:00.5Z",
            "age": 60,
            "said": "no suitable node (insufficient resources on 1 node)",
            "wants": {GPU: 2},
            "missing": ["wants 2 NVIDIA-GPU; the most that a node has: 1 (host-n1)"],
        }
    ]


def test_the_scheduler_may_have_given_no_reason_yet():
    (group,) = groups([node()], [pending("t1", error=None, state="new", said="created")])
    assert (group["state"], group["said"], group["missing"]) == ("new", "created", [])


def test_different_groups_are_separate_and_the_largest_comes_first():
    tasks = [pending("t1", {GPU: 9}), pending("t2", {GPU: 8}), pending("t3", {GPU: 8}), pending("t4", {GPU: 8}, service="s2")]
    found = groups([node()], tasks, [service(), service("s2", "other")])
    assert [(group["service"], group["count"], group["wants"]) for group in found] == [
        ("train", 2, {GPU: 8}),
        ("other", 1, {GPU: 8}),
        ("train", 1, {GPU: 9}),
    ]


NO_DEVICE = "(no node has such a device: add the paths of rdma to gpu_swarm_devices, and run provision)"


@pytest.mark.parametrize("desired", ["shutdown", "remove"])
def test_unwanted_tasks_do_not_wait(desired):
    assert groups([node()], [pending("t1", desired=desired)]) == []


def test_there_may_be_enough_in_total_and_too_little_on_each_node():
    nodes = [node("g1", resources=gpus(4)), node("g2", resources=gpus(4, 4)), node("g3", resources=gpus(2, 8), availability="pause")]
    held = [task("h1", "g1", gpus(3)), task("h2", "g2", gpus(2, 4))]
    assert missing(nodes, pending("t1", {GPU: 3}), *held) == ["wants 3 NVIDIA-GPU; most free on one node: 2 (host-g2); 3 in all"]


def test_everything_may_be_in_use():
    assert missing([node(resources=named(A))], pending("t1", {GPU: 1}), task("h1", given=named(A))) == [
        "wants 1 NVIDIA-GPU; most free on one node: 0; 0 in all"
    ]


@pytest.mark.parametrize(
    ("nodes", "tasks", "words"),
    [
        ([node(resources=gpus(1))], [task("t1", given=gpus(1))], "most free on one node: 0; 0 in all"),
        ([node(resources=discrete(9, GPU))], [task("t1", given=discrete(9, GPU))], "most free on one node: 0; 0 in all"),
        ([node()], [], "the most that a node has: 0"),
        ([node(resources=gpus(2))], [task("t1", given=gpus(1))], None),
        ([node(resources=gpus(2), availability="pause")], [], "no node with room for it takes new tasks: host-n1"),
    ],
)
def test_a_task_that_reserves_0_needs_a_free_gpu(nodes, tasks, words):
    found = missing(nodes, *tasks, pending("t2", {GPU: 0}, slot=2))
    assert found == [] if words is None else words in found[0]
    if words and "most" in words:
        assert found[0].startswith("wants 1 or more NVIDIA-GPU (value: 0 means all free ones); ")


def test_a_kind_that_no_node_has_is_reported():
    assert missing([node(resources=named(A))], pending("t1", {"NVIDIA-H100": 1})) == [
        "wants 1 NVIDIA-H100; the most that a node has: 0"
    ]


def test_amounts_are_compared():
    nodes = [node(resources=discrete(16000))]
    assert missing(nodes, pending("t1", {"VRAM": 9000}), task("h1", given=discrete(8000))) == [
        "wants 9000 VRAM; most free on one node: 8000 (host-n1); 8000 in all"
    ]


def test_cpus_and_memory_count_too():
    small = node()  # two CPUs and 23.5 GiB
    assert missing([small], pending("t1", {"NanoCPUs": 4 * 10**9})) == ["wants 4 CPUs; the most that a node has: 2 (host-n1)"]
    held = task("h1", reserves={"MemoryBytes": 20 * GIB, "NanoCPUs": 10**8})
    assert missing([small], pending("t1", {"MemoryBytes": 4 * GIB, "NanoCPUs": 10**9}), held) == [
        "wants 4 GiB of memory; most free on one node: 3.54 (host-n1); 3.54 in all"
    ]


def test_needs_that_no_single_node_meets_are_reported():
    nodes = [node("g1", resources=named(A)), node("g2", resources=named(B))]
    tasks = [task("h1", "g1", reserves={"NanoCPUs": 2 * 10**9}), task("h2", "g2", given=named(B))]
    assert missing(nodes, pending("t1", {GPU: 1, "NanoCPUs": 10**9}), *tasks) == [
        "no node has all of these free at the same time: 1 NVIDIA-GPU, 1 CPUs"
    ]


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        (["node.labels.gpu.model==B200"], "no node meets node.labels.gpu.model==B200"),
        (["node.labels.gpu-swarm.device.rdma == true"], f"no node meets node.labels.gpu-swarm.device.rdma == true {NO_DEVICE}"),
        (["node.labels.gpu.model==B200", "node.role==manager"], "no node meets node.labels.gpu.model==B200 or node.role==manager"),
        (
            ["node.labels.gpu.model==T4", "node.id==g2"],
            "no node meets all of node.labels.gpu.model==T4, node.id==g2",
        ),
    ],
)
def test_constraints_that_no_node_meets_are_reported(constraints, expected):
    nodes = [node("g1", {"gpu.model": "T4"}, resources=named(A)), node("g2", resources=named(B))]
    assert missing(nodes, pending("t1", {GPU: 1}, constraints=constraints)) == [expected]


def test_only_nodes_that_meet_the_constraints_count():
    nodes = [node("g1", {"gpu.model": "T4"}, resources=named(A)), node("g2", resources=gpus(8))]
    assert missing(nodes, pending("t1", {GPU: 2}, constraints=["node.labels.gpu.model==t4"])) == [
        "wants 2 NVIDIA-GPU; the most that a node has: 1 (host-g1)"
    ]


def test_an_image_may_be_for_another_machine():
    assert missing([node()], pending("t1", platforms=[("linux", "arm64")])) == [
        "no node has the image's platform, linux/arm64"
    ]
    assert missing([node()], pending("t1", platforms=[("linux", "amd64")])) == []


def test_nodes_with_room_may_be_out_of_service():
    nodes = [
        node("g1", resources=gpus(1)),
        node("g2", resources=gpus(2, 1), availability="pause"),
        node("g3", resources=gpus(2, 3), availability="drain"),
        node("g4", resources=gpus(2, 5), State="down"),
        node("g5", resources=gpus(1, 7), State="down"),
    ]
    assert missing(nodes, pending("t1", {GPU: 2})) == [
        "no node with room for it takes new tasks: host-g2 (pause), host-g3 (drain), host-g4 (down)"
    ]


def test_a_full_node_may_be_out_of_service():
    nodes = [node("g1", resources=named(A), availability="pause")]
    assert missing(nodes, pending("t1", {GPU: 1}), task("h1", "g1", named(A))) == [
        "no node that could run it takes new tasks: host-g1 (pause)"
    ]


def test_not_all_of_many_nodes_are_named():
    nodes = [node("g%d" % number, resources=gpus(1, number), availability="drain") for number in range(8)]
    (text,) = missing(nodes, pending("t1", {GPU: 1}))
    assert text.endswith("host-g4 (drain), and 3 more")


def test_a_task_of_a_global_service_counts_only_its_node():
    nodes = [node("g1", resources=named(A)), node("g2", resources=named(B))]
    waiting = pending("t1", {GPU: 1}, node_id="g1", desired="ready", error="insufficient resources on 1 node", slot=None)
    (group,) = groups(nodes, [waiting, task("h1", "g1", named(A))], [service(mode="Global")])
    assert (group["node"], group["hostname"]) == ("g1", "host-g1")
    assert group["missing"] == ["wants 1 NVIDIA-GPU; most free on one node: 0; 0 in all"]


def test_the_node_of_a_global_service_may_be_removed():
    (group,) = groups([node()], [pending("t1", node_id="gone", slot=None)], [service(mode="Global")])
    assert (group["node"], group["hostname"], group["missing"]) == ("gone", None, ["its node is no longer in the swarm"])


def test_equal_needs_are_compared_once(monkeypatch):
    # Each comparison reads every node.
    found, real = [], module._reasons
    monkeypatch.setattr(module, "_reasons", lambda *args: found.append(args) or real(*args))
    tasks = [pending(f"t{number}", {GPU: 1 + number % 2}, service=f"s{number}") for number in range(20)]
    answer = groups([node()], tasks)
    assert (len(answer), len(found)) == (20, 2)
    assert {tuple(group["missing"]) for group in answer} == {tuple(missing([node()], pending("t", {GPU: count}))) for count in (1, 2)}


def test_there_may_be_room_now():
    assert missing([node(resources=named(A))], pending("t1", {GPU: 1})) == []
