# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, named, node, placement, reserving, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed

KEEPS_OFF = "docker service update --constraint-add 'node.labels.gpu.dedicated!=true' web"
GPU, PLAIN = node("gpu", resources=named(A)), node("plain")


def service(constraints=(), mode="Replicated", name="web", **wants):
    template = {"Placement": placement(constraints), "Resources": reserving(wants)}
    return {"ID": "s1", "Spec": {"Name": name, "Mode": {mode: {}}, "TaskTemplate": template}}


def found(services, tasks, nodes=(GPU, PLAIN)):
    return ledger(Listed(list(nodes), tasks, services), "gpu-swarm.")["on_gpu_nodes"]


def owned(prefix, **others):
    """Return the labels of a node that this collection has labelled."""
    labels = {prefix + "count": "1", prefix + "healthy": "true", **others}
    return {**labels, "gpu-swarm.labels": ",".join(labels)}


def test_a_service_with_tasks_on_gpu_nodes_is_listed():
    tasks = [task("t1", "gpu"), task("t2", "gpu"), task("t3", "plain")]
    assert found([service()], tasks) == [
        {"service": "web", "mode": "replicated", "tasks": 2, "nodes": ["host-gpu"], "dedicated": False, "command": KEEPS_OFF}
    ]


@pytest.mark.parametrize(
    ("one", "tasks"),
    [
        (service(), [task("t1", "plain")]),
        (service(), [task("t1", "gpu", state="complete")]),
        (service(), []),
        (service(**{"NVIDIA-GPU": 1}), [task("t1", "gpu", given=named(A))]),
        (service(SSD=1), [task("t1", "gpu")]),  # its task predates the reservation
    ],
    ids=["on a node without GPUs", "ended", "no task", "reserves", "a reservation that is newer than the task"],
)
def test_other_services_are_not_listed(one, tasks):
    assert found([one], tasks) == []


def test_tasks_of_removed_services_are_skipped():
    assert found([], [task("t1", "gpu")]) == []


@pytest.mark.parametrize(
    ("one", "command"),
    [
        (service(["node.role==worker"]), KEEPS_OFF),
        (service(["node.labels.gpu.dedicated != true"]), None),
        (service(["node.labels.gpu.dedicated==true"]), KEEPS_OFF),
        (service(mode="Global"), None),
        (service(mode="ReplicatedJob"), None),
        (service(mode="GlobalJob"), None),
    ],
)
def test_the_command_is_shown_if_it_is_harmless(one, command):
    (row,) = found([one], [task("t1", "gpu")])
    assert row["command"] == command


@pytest.mark.parametrize(("mode", "shown"), [("Global", "global"), ("ReplicatedJob", "replicated-job"), ("GlobalJob", "global-job")])
def test_the_mode_of_a_service_is_named(mode, shown):
    (row,) = found([service(mode=mode)], [task("t1", "gpu")])
    assert row["mode"] == shown


def test_the_label_has_the_prefix_of_the_nodes():
    nodes = [node("gpu", labels=owned("accel."), resources=named(A)), node("n2", labels=owned("gpu."), resources=named(A))]
    (row,) = found([service()], [task("t1", "gpu")], nodes)
    assert row["command"] == (
        "docker service update --constraint-add 'node.labels.accel.dedicated!=true' --constraint-add 'node.labels.gpu.dedicated!=true' web"
    )


@pytest.mark.parametrize(("labels", "dedicated"), [({"gpu.dedicated": "true"}, True), ({"gpu.dedicated": "false"}, False), ({}, False)])
def test_services_on_dedicated_nodes_are_marked(labels, dedicated):
    (row,) = found([service()], [task("t1", "gpu")], [node("gpu", labels=owned("gpu.", **labels), resources=named(A))])
    assert row["dedicated"] is dedicated


def test_nodes_whose_gpus_are_advertised_by_memory_alone_count():
    (row,) = found([service()], [task("t1", "n1")], [node("n1", labels=owned("gpu."))])
    assert row["nodes"] == ["host-n1"]
