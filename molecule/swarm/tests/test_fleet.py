# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nodes import docker, docker_json, gpus, named, tasks_of
from testinfra.host import Host

testinfra_hosts = ["ansible://swarm_managers"]

KIND = "NVIDIA-GPU"
SERVICE = "molecule-probe"
UNRESERVED = "molecule-unreserved"
CONVERGE_S = 120


@pytest.fixture(scope="module")
def nodes(host: Host, pytestconfig: pytest.Config) -> dict[str, Host]:
    """Return the GPU nodes of the inventory by node id, as the manager knows them."""
    inventory = pytestconfig.getoption("ansible_inventory")
    found = host.get_hosts(["ansible://gpu_nodes"], ansible_inventory=inventory)
    return {docker_json(node, "info", "--format", "{{json .Swarm.NodeID}}"): node for node in found}


@pytest.fixture(scope="module")
def tasks(host: Host, nodes: dict[str, Host]) -> Iterator[list[dict[str, Any]]]:
    """Start one replica for each GPU of the fleet. Its image requests all GPUs, like every CUDA image."""
    replicas = sum(len(gpus(node)) for node in nodes.values())
    create = f"timeout {CONVERGE_S} docker service create --detach=false --quiet --no-resolve-image --name %s --replicas %s --generic-resource %s %s"
    host.check_output(create, SERVICE, str(replicas), f"{KIND}=1", "lab/cuda")
    ids = docker(host, "service", "ps", "--quiet", "--no-trunc", "--filter", "desired-state=running", SERVICE).split()
    yield docker_json(host, "inspect", "--type", "task", *ids)
    docker(host, "service", "rm", SERVICE)


@pytest.fixture
def log(nodes: dict[str, Host]) -> Callable[[dict[str, Any]], str]:
    def read(task: dict[str, Any]) -> str:
        return docker(nodes[task["NodeID"]], "logs", task["Status"]["ContainerStatus"]["ContainerID"])

    return read


def given(task: dict[str, Any]) -> list[str]:
    return named(task["GenericResources"], KIND)


def test_manager_shows_each_gpu_with_its_full_uuid(host: Host, nodes: dict[str, Host]) -> None:
    for node_id, node in nodes.items():
        shown = docker_json(host, "node", "inspect", node_id, "--format", "{{json .Description.Resources.GenericResources}}")
        assert gpus(node)
        assert sorted(named(shown, KIND)) == sorted(gpus(node))


def test_both_releases_of_the_engine_are_in_the_swarm(host: Host, nodes: dict[str, Host]) -> None:
    versions = {docker(host, "node", "inspect", node_id, "--format", "{{.Description.Engine.EngineVersion}}") for node_id in nodes}
    assert {version.partition(".")[0] for version in versions} == {"20", "26"}


def test_every_gpu_of_the_fleet_is_allocated_to_one_task(nodes: dict[str, Host], tasks: list[dict[str, Any]]) -> None:
    assert all(len(given(task)) == 1 for task in tasks)
    assert sorted(uuid for task in tasks for uuid in given(task)) == sorted(uuid for node in nodes.values() for uuid in gpus(node))


def test_tasks_run_where_their_gpu_is(nodes: dict[str, Host], tasks: list[dict[str, Any]]) -> None:
    assert all(given(task)[0] in gpus(nodes[task["NodeID"]]) for task in tasks)


def test_a_task_sees_its_gpu_and_no_other(nodes: dict[str, Host], tasks: list[dict[str, Any]], log: Callable[[dict[str, Any]], str]) -> None:
    for task in tasks:
        device = gpus(nodes[task["NodeID"]]).index(given(task)[0])
        seen = re.search(r"^devices: (.*)$", log(task), re.MULTILINE)
        assert seen, log(task)
        assert seen[1].split() == [f"/dev/nvidia{device}"]


def test_nvidia_smi_in_a_task_lists_its_gpu_and_no_other(tasks: list[dict[str, Any]], log: Callable[[dict[str, Any]], str]) -> None:
    for task in tasks:
        assert re.findall(r"\(UUID: (GPU-[0-9a-f-]+)\)", log(task)) == given(task)


def test_a_swarm_that_provision_creates_isolates_tasks(host: Host, nodes: dict[str, Host], tasks: list[dict[str, Any]]) -> None:
    labels = docker_json(host, "info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}")
    shown = json.loads(labels["gpu-swarm.isolation"])
    assert (shown["level"], {level: sorted(ids) for level, ids in shown["nodes"].items()}) == ("reserved", {"reserved": sorted(nodes)})


def test_without_a_reservation_a_task_sees_no_gpu(host: Host, nodes: dict[str, Host], log: Callable[[dict[str, Any]], str]) -> None:
    options = f"--detach=false --quiet --no-resolve-image --name {UNRESERVED} --mode global --constraint node.role==worker"
    host.check_output(f"timeout {CONVERGE_S} docker service create {options} lab/cuda")
    try:
        logs = [log(task) for task in tasks_of(host, UNRESERVED)]
    finally:
        docker(host, "service", "rm", UNRESERVED)
    assert len(logs) == len(nodes)
    for text in logs:
        assert "devices:" in text
        assert not re.findall(r"/dev/nvidia\d+|GPU-[0-9a-f-]+", text), text
