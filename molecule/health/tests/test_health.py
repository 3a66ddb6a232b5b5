# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from nodes import docker, docker_json
from testinfra.host import Host

testinfra_hosts = ["ansible://m1"]


@pytest.fixture(scope="module")
def specs(host: Host) -> dict[str, dict[str, Any]]:
    return {node["Description"]["Hostname"]: node["Spec"] for node in docker_json(host, "node", "inspect", "h1", "h2")}


def test_the_nodes_are_in_service_without_a_mark(specs: dict[str, dict[str, Any]]) -> None:
    assert {name: spec["Availability"] for name, spec in specs.items()} == {"h1": "active", "h2": "active"}
    # Under an old leader, a node with running tasks keeps reporting its fault, so the record of that fault stays.
    marks = ("gpu-swarm.paused-since", "gpu-swarm.former-availability")
    assert [(name, key) for name, spec in specs.items() for key in spec["Labels"] if key in marks] == []


def test_the_service_paused_each_of_them_once(host: Host) -> None:
    """The nodes are not paused again after their return, although a node may still report a fault shortly after its end."""
    said = host.check_output("journalctl --unit gpu-swarm-manager --output cat --no-pager")
    paused = [line for line in said.splitlines() if " is paused: " in line]
    assert [sum(f"node {name} (" in line for line in paused) for name in ("h1", "h2")] == [1, 1]
    assert "ALARM" not in said


def test_tasks_kept_running_and_the_pending_one_has_a_node(host: Host) -> None:
    states = docker(host, "service", "ps", "train", "--format", "{{.CurrentState}}").splitlines()
    assert [state.split()[0] for state in states] == ["Running"] * 6
