# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, B, discrete, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed

ALL = "NVIDIA_VISIBLE_DEVICES=all"
BY_HAND = "DOCKER_RESOURCE_NVIDIA-GPU=all"
GPU_NODE = node("g1", {"gpu.model": "T4"}, resources=named(A) + discrete(1, "SSD"))


def unreserved(services, nodes=(GPU_NODE,), tasks=()):
    return ledger(Listed(list(nodes), list(tasks), services), "gpu-swarm.")["unreserved"]


@pytest.mark.parametrize(
    ("env", "variables"),
    [
        ([ALL], {"NVIDIA_VISIBLE_DEVICES": "all"}),
        (["NVIDIA_VISIBLE_DEVICES=0,1"], {"NVIDIA_VISIBLE_DEVICES": "0,1"}),
        (["NVIDIA_VISIBLE_DEVICES=" + A], {"NVIDIA_VISIBLE_DEVICES": A}),
        (["NVIDIA_VISIBLE_DEVICES=none"], {"NVIDIA_VISIBLE_DEVICES": "none"}),
        ([ALL, "NVIDIA_VISIBLE_DEVICES=0"], {"NVIDIA_VISIBLE_DEVICES": "0"}),
        ([BY_HAND, ALL, "X=1"], {"DOCKER_RESOURCE_NVIDIA-GPU": "all", "NVIDIA_VISIBLE_DEVICES": "all"}),
        (["DOCKER_RESOURCE_GPU=0"], {"DOCKER_RESOURCE_GPU": "0"}),
    ],
)
def test_variables_that_show_gpus(env, variables):
    assert unreserved([service(env=env)], tasks=[task("t1", "g1")]) == [
        {"service": "train", "variables": variables, "reserves": [], "nodes": ["host-g1"]}
    ]


def test_a_slot_is_a_reservation_of_a_gpu():
    nodes, own = [node("g1", resources=named(A + ".slot1", kind="NVIDIA-SLOT"))], service(env=[ALL], reserves={"NVIDIA-SLOT": 1})
    assert unreserved([own], nodes, [task("t1", "g1")]) == []
    assert unreserved([service(env=[ALL])], nodes, [task("t1", "g1")])


@pytest.mark.parametrize(
    "env",
    [
        [],
        ["X=1", "NVIDIA_DRIVER_CAPABILITIES=all"],
        ["NVIDIA_VISIBLE_DEVICES=void"],
        ["NVIDIA_VISIBLE_DEVICES="],
        [ALL, "NVIDIA_VISIBLE_DEVICES=void"],
        ["NVIDIA_VISIBLE_DEVICES"],
        ["DOCKER_RESOURCE_SSD=1"],
        ["DOCKER_RESOURCE_NVIDIA-GPU=void"],
    ],
)
def test_variables_that_show_no_gpus(env):
    assert unreserved([service(env=env)], tasks=[task("t1", "g1")]) == []


def test_a_task_with_a_reservation_gets_its_allocation():
    assert unreserved([service(env=[ALL, BY_HAND], reserves={"NVIDIA-GPU": 1})]) == []


def test_another_reservation_does_not_count_and_is_listed():
    (found,) = unreserved([service(env=[ALL], reserves={"VRAM": 4000})], [node("g1", resources=named(A) + discrete(8000))])
    assert found["reserves"] == ["VRAM"]


def test_a_service_that_may_run_there_is_listed_without_nodes():
    (found,) = unreserved([service(env=[ALL])], [GPU_NODE, node("w1")], [task("t1", "w1")])
    assert found["nodes"] == []


@pytest.mark.parametrize(
    "options",
    [
        {"constraints": ["node.role==manager"]},
        {"constraints": ["node.labels.gpu.model!=T4"]},
        {"platforms": [("linux", "arm64")]},
    ],
)
def test_a_service_that_cannot_run_on_a_gpu_node_is_not_listed(options):
    assert unreserved([service(env=[ALL], **options)]) == []


def test_a_running_service_is_listed_whatever_its_constraints_are_now():
    moved = service(env=[ALL], constraints=["node.role==manager"])
    assert [found["nodes"] for found in unreserved([moved], tasks=[task("t1", "g1")])] == [["host-g1"]]


@pytest.mark.parametrize(("tasks", "expected"), [([], 0), ([task("t1", "g1", job=True)], 1), ([pending("t1", job=True)], 1)])
def test_a_finished_job_is_placed_nowhere(tasks, expected):
    assert len(unreserved([service(mode="ReplicatedJob", env=[ALL])], tasks=tasks)) == expected


def test_a_node_whose_gpus_are_advertised_by_memory_has_gpus():
    shared = node("g1", {"gpu.count": "1"}, resources=discrete(8000))
    assert len(unreserved([service(env=[ALL])], [shared])) == 1
    assert unreserved([service(env=[ALL])], [node("g1", resources=discrete(8000, "SSD"))]) == []


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ({"site.count": "1", "site.healthy": "true", "gpu-swarm.labels": "site.count,site.healthy"}, 1),
        ({"gpucount": "1", "gpuhealthy": "false", "gpu-swarm.labels": "gpucount,gpuhealthy"}, 1),
        ({"site.count": "1", "site.healthy": "true"}, 0),  # labels that this collection did not write
        ({"rack.discount": "1", "gpu-swarm.labels": "rack.discount"}, 0),  # a label of this collection that is not about GPUs
        ({"gpu-swarm.labels": "site.count,site.healthy"}, 0),
    ],
)
def test_such_a_node_is_recognised_by_its_own_prefix(labels, count):
    assert len(unreserved([service(env=[ALL])], [node("g1", labels, resources=discrete(8000))])) == count


def test_nodes_are_named_once_and_in_order():
    nodes = [node("g2", resources=named(B)), GPU_NODE]
    tasks = [task("t1", "g2"), task("t2", "g1"), task("t3", "g1")]
    (found,) = unreserved([service(env=[ALL])], nodes, tasks)
    assert found["nodes"] == ["host-g1", "host-g2"]
