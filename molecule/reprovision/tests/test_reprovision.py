# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest
from nodes import docker, docker_json, gpus, labels_of, named, tasks_of
from testinfra.host import Host

testinfra_hosts = ["ansible://m1"]

GPU_NODES = ["r1", "r2", "r3", "r4"]


@pytest.fixture(scope="module")
def nodes(host: Host, pytestconfig: pytest.Config) -> dict[str, Host]:
    inventory = pytestconfig.getoption("ansible_inventory")
    return {node.backend.host: node for node in host.get_hosts(["ansible://all"], ansible_inventory=inventory)}


@pytest.fixture(scope="module")
def events(host: Host) -> list[dict[str, Any]]:
    """Return the swarm's events about its nodes, in order."""
    return [json.loads(line) for line in host.file("/run/watch/node-events").content_string.splitlines()]


def changes(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return a list of (node, availability before and after), in order."""
    text = [event["Actor"]["Attributes"] for event in events]
    return [(one["name"], one["availability.old"], one["availability.new"]) for one in text if "availability.new" in one]


def test_at_most_one_batch_of_nodes_was_out_of_service(events: list[dict[str, Any]]) -> None:
    out: set[str] = set()
    most, seen = 0, set()
    for node, _before, after in changes(events):
        out = out - {node} if after == "active" else out | {node}
        seen.add(node)
        most = max(most, len(out))
    assert (most, out, seen) == (1, set(), set(GPU_NODES))


def test_each_node_was_paused_before_it_was_drained(events: list[dict[str, Any]]) -> None:
    ways = defaultdict(list)
    for node, _before, after in changes(events):
        ways[node].append(after)
    assert {tuple(way) for way in ways.values()} <= {("pause", "drain", "active"), ("pause", "active")}


def test_replicas_on_other_nodes_kept_running(host: Host) -> None:
    samples: dict[str, int] = defaultdict(int)
    for line in host.file("/run/watch/samples").content_string.splitlines():
        now, _task, _node, state = line.split(" ", 3)
        samples[now] += state.startswith("Running")
    assert len(samples) > 20
    assert min(samples.values()) >= 4  # of six replicas, because each node has two GPUs
    # No replica moved twice: each replica ended at most once on each drained node, and on no other node.
    ended = docker_json(host, "inspect", "--type", "task", *docker(host, "service", "ps", "--quiet", "--no-trunc", "web").split())
    assert all(task["Status"]["State"] in ("running", "shutdown") for task in ended)


def test_all_replicas_run_again(host: Host) -> None:
    assert [task["Status"]["State"] for task in tasks_of(host, "web")] == ["running"] * 6


@pytest.mark.parametrize("service", ["oneshot", "sweep"])
def test_jobs_that_swarm_does_not_restart_ended_on_their_own(host: Host, service: str) -> None:
    tasks = docker_json(host, "inspect", "--type", "task", *docker(host, "service", "ps", "--quiet", "--no-trunc", service).split())
    assert [(task["Status"]["State"], task["Status"]["ContainerStatus"]["ExitCode"]) for task in tasks] == [("complete", 0)]


def test_a_container_without_a_service_ended_on_its_own(nodes: dict[str, Host]) -> None:
    state = docker_json(nodes["r4"], "inspect", "by-hand")[0]["State"]
    assert (state["Status"], state["ExitCode"]) == ("exited", 0)


def test_each_changed_node_was_restarted_once_and_no_other(nodes: dict[str, Host]) -> None:
    starts = {}
    for name, node in nodes.items():
        text = node.check_output("journalctl --output cat --no-pager -t roll -t systemd")
        starts[name] = len(re.findall(r"^Started docker\.service", text.rpartition("begins")[2], re.MULTILINE))
    assert starts == {**dict.fromkeys(["m1", "m2", "m3"], 0), **dict.fromkeys(GPU_NODES, 1)}


def test_the_manager_shows_the_decided_resources(host: Host, nodes: dict[str, Host]) -> None:
    for name in GPU_NODES:
        (node,) = docker_json(host, "node", "inspect", name)
        resources = node["Description"]["Resources"]["GenericResources"]
        assert sorted(named(resources, "NVIDIA-GPU")) == sorted(gpus(nodes[name]))
        assert {"DiscreteResourceSpec": {"Kind": "SSD", "Value": 1}} in resources
        assert node["Spec"]["Availability"] == "active"
        assert not [label for label in labels_of(host, name) if "former" in label]
