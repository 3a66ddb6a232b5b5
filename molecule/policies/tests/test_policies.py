# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from nodes import docker, docker_json, gpus, hostname, labels_of, mig_devices, named, pci_buses, tasks_of, wait_until
from testinfra.host import Host

testinfra_hosts = ["ansible://swarm_managers"]

# A T4's 15360 MiB, less the policy's 512.
SHARE = 14848
# Image lab/cuda requests all GPUs, like every CUDA image. lab/task requests none, like a task that only counts memory.
GPU_IMAGE, PLAIN_IMAGE = "lab/cuda", "lab/task"
READY = re.compile(r"^ready$", re.MULTILINE)
NOWHERE = "no suitable node (insufficient resources on 3 nodes)"
# Services, and the kind that each service reserves. Each reserves one unit.
NAMED = {"mig-large": "MIG-3g.40gb", "mig-small": "MIG-1g.10gb", "model": "NVIDIA-L40S", "whole": "NVIDIA-GPU"}


@pytest.fixture(scope="module")
def nodes(host: Host, pytestconfig: pytest.Config) -> dict[str, Host]:
    inventory = pytestconfig.getoption("ansible_inventory")
    return {node.backend.host: node for node in host.get_hosts(["ansible://gpu_nodes"], ansible_inventory=inventory)}


@pytest.fixture(scope="module")
def decided(nodes: dict[str, Host]) -> dict[str, dict[str, str]]:
    """Return for each node the kinds of its GPUs and their values, derived from the policy and the hardware's own tool."""
    _cut_up, whole = gpus(nodes["p1"])
    large_card, _small_card = gpus(nodes["p2"])
    return {
        "p1": {**{f"MIG-{profile}": uuid for profile, uuid in mig_devices(nodes["p1"]).items()}, "NVIDIA-GPU": whole},
        "p2": {"NVIDIA-L40S": large_card, "VRAM": str(SHARE)},
        "p3": {f"VRAM-{bus}": str(SHARE) for bus in pci_buses(nodes["p3"])},
    }


@pytest.fixture(scope="module")
def place(host: Host, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Create services, and remove them after the tests. This does not wait until their tasks run."""

    def create(name: str, reserve: str, image: str, replicas: int = 1) -> None:
        request.addfinalizer(lambda: docker(host, "service", "rm", name))
        reservation = ["--generic-resource", reserve, "--replicas", str(replicas)]
        docker(host, "service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", name, *reservation, image)

    return create


@pytest.fixture(scope="module", autouse=True)
def services(place: Callable[..., None], decided: dict[str, dict[str, str]]) -> None:
    """Create all services at once, so that the swarm starts their tasks while the first tests run."""
    for name, kind in NAMED.items():
        place(name, f"{kind}=1", GPU_IMAGE)
    # Each of the two tasks fits on the card, but both together do not.
    place("halves", "VRAM=8000", PLAIN_IMAGE, replicas=2)
    for kind in decided["p3"]:
        place(f"full-{kind}", f"{kind}={SHARE}", PLAIN_IMAGE)
    # Only both cards together have this much memory.
    place("too-large", f"{next(iter(decided['p3']))}={SHARE + 1}", PLAIN_IMAGE)


def log(host: Host, name: str) -> str:
    """Return the log of a service's task, once it is complete."""
    text = wait_until(f"service {name} to be ready", lambda: READY.search(docker(host, "service", "logs", "--raw", name)))
    return text.string


def settled(host: Host, name: str, expected: list[str]) -> list[dict[str, Any]]:
    """Return the tasks of a service, once the swarm reports the expected states, or the reasons of pending tasks."""

    def tasks() -> list[dict[str, Any]] | None:
        found = tasks_of(host, name)
        return found if sorted(task["Status"].get("Err") or task["Status"]["State"] for task in found) == expected else None

    return wait_until(f"tasks of {name} to be {expected}", tasks)


# -- advertised resources -----------------------------------------------------------------------------------------------


def test_daemon_json_has_exactly_the_decided_resources(nodes: dict[str, Host], decided: dict[str, dict[str, str]]) -> None:
    for name, node in nodes.items():
        written = json.loads(node.file("/etc/docker/daemon.json").content_string)["node-generic-resources"]
        assert sorted(written) == sorted([*(f"{kind}={value}" for kind, value in decided[name].items()), "SSD=1"])


def test_the_manager_shows_the_decided_resources(host: Host, decided: dict[str, dict[str, str]]) -> None:
    for name, kinds in decided.items():
        shown = docker_json(host, "node", "inspect", name, "--format", "{{json .Description.Resources.GenericResources}}")
        values = {spec["Kind"]: str(spec["Value"]) for entry in shown for spec in entry.values()}
        assert values == {**kinds, "SSD": "1"}


def test_a_divided_card_is_in_no_kind(nodes: dict[str, Host]) -> None:
    cut_up, _whole = gpus(nodes["p1"])
    assert cut_up not in nodes["p1"].file("/etc/docker/daemon.json").content_string


def test_swarm_resource_lists_the_kinds_that_name_gpus_and_no_amounts(nodes: dict[str, Host], decided: dict[str, dict[str, str]]) -> None:
    for name, node in nodes.items():
        config = tomllib.loads(node.file("/etc/nvidia-container-runtime/config.toml").content_string)
        listed = [kind for kind, value in decided[name].items() if not value.isdigit()]
        assert config.get("swarm-resource", "") == ",".join(f"DOCKER_RESOURCE_{kind.upper()}" for kind in listed)


def test_only_the_toolkit_that_needs_legacy_mode_uses_it(nodes: dict[str, Host]) -> None:
    modes = {
        name: tomllib.loads(node.file("/etc/nvidia-container-runtime/config.toml").content_string)["nvidia-container-runtime"]["mode"]
        for name, node in nodes.items()
    }
    assert modes == {"p1": "auto", "p2": "legacy", "p3": "auto"}


def test_labels_hold_for_all_gpus_of_a_node(host: Host) -> None:
    labels = {name: labels_of(host, name) for name in ("p1", "p2", "p3")}
    assert {name: one["gpu.model"] for name, one in labels.items()} == {"p1": "NVIDIA-A100-SXM4-80GB", "p2": "mixed", "p3": "Tesla-T4"}
    assert {name: one["gpu.mig"] for name, one in labels.items()} == {"p1": "mixed", "p2": "false", "p3": "false"}
    for threshold, reached in {"mem_ge_16": "p1 p2 p3", "mem_ge_24": "p1", "mem_ge_80": "p1", "cc_ge_8_0": "p1", "cuda_ge_13_0": "p3"}.items():
        assert [name for name, one in labels.items() if one.get(f"gpu.{threshold}") == "true"] == reached.split()


# -- GPUs of tasks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "node", "card"), [("mig-large", "p1", 0), ("mig-small", "p1", 0), ("whole", "p1", 1), ("model", "p2", 0)])
def test_a_task_gets_the_device_of_its_kind(host: Host, decided: dict[str, dict[str, str]], name: str, node: str, card: int) -> None:
    kind, text = NAMED[name], log(host, name)
    value = decided[node][kind]
    assert f"DOCKER_RESOURCE_{kind.upper()}={value}" in text.splitlines()
    assert re.findall(r"^devices: (.*)$", text, re.MULTILINE) == [f"/dev/nvidia{card}"]
    assert [named(task["GenericResources"], kind) for task in tasks_of(host, name)] == [[value]]


def test_memory_of_one_card_is_allocated_until_nothing_more_fits(host: Host) -> None:
    (placed,) = [task["NodeID"] for task in settled(host, "halves", [NOWHERE, "running"]) if "NodeID" in task]
    assert hostname(host, placed) == "p2"


def test_each_of_several_cards_is_allocated_alone(host: Host, decided: dict[str, dict[str, str]]) -> None:
    for kind in decided["p3"]:
        (task,) = settled(host, f"full-{kind}", ["running"])
        assert hostname(host, task["NodeID"]) == "p3"


def test_more_memory_than_one_card_has_fits_nowhere(host: Host) -> None:
    (task,) = settled(host, "too-large", [NOWHERE])
    assert "NodeID" not in task
