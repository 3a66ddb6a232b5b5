# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""swarm_member alone: three managers and a worker, on nodes that no other test uses in a swarm."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Loud
from .fleet import Fleet, Node, Run, wait_until

PLAYBOOK = str(Path(__file__).with_name("member.yml"))
NODES = ["x1", "x2", "x4", "x5"]
MANAGERS, WORKERS = NODES[:3], NODES[3:]


def state(node: Node) -> str:
    return node.swarm()["LocalNodeState"]


def members(fleet: Fleet, manager: str) -> dict[str, tuple[str, str]]:
    """Return the host name, role and status of each node, as the manager shows them."""
    ids = fleet[manager].docker("node", "ls", "--quiet").split()
    found = fleet[manager].docker_json("node", "inspect", *ids)
    return {
        node["Description"]["Hostname"]: (node["Spec"]["Role"], node.get("ManagerStatus", {}).get("Reachability") or node["Status"]["State"])
        for node in found
    }


def run_role(fleet: Fleet, managers: list[str], workers: list[str], *arguments: str, **hosts: dict[str, Any]) -> Run:
    return fleet.playbook(fleet.inventory(hosts, swarm_managers=managers, swarm_workers=workers), *arguments, playbook=PLAYBOOK)


@pytest.fixture(scope="module", autouse=True)
def nodes_of_no_swarm(fleet: Fleet) -> Iterator[None]:
    for name in MANAGERS:
        fleet[name].leave()
    yield
    for name in NODES:
        fleet[name].leave()


def test_no_swarm_is_created_while_a_manager_is_silent(fleet: Fleet) -> None:
    ghost = {"ansible_host": f"{fleet.name}.ghost"}
    run = run_role(fleet, ["ghost", *MANAGERS], [], ghost=ghost)
    assert run.rc != 0
    for name in MANAGERS:
        assert "No working swarm manager was found" in run.failures(name)[-1]
        assert "ghost" in run.failures(name)[-1]
        assert state(fleet[name]) == "inactive"


@pytest.fixture(scope="module")
def formed(fleet: Fleet) -> Run:
    wait_until("the join that leads nowhere to fail", lambda: state(fleet["x5"]) == "error")
    return run_role(fleet, MANAGERS, WORKERS)


def test_one_swarm_of_three_managers_and_a_worker_that_was_half_joined(fleet: Fleet, formed: Run) -> None:
    assert formed.rc == 0, formed.output
    assert members(fleet, "x1") == {**dict.fromkeys(MANAGERS, ("manager", "reachable")), "x5": ("worker", "ready")}


def test_a_host_that_changes_its_group_changes_its_role(fleet: Fleet, formed: Run) -> None:
    """A new manager gets the managers' service, and a former manager loses it."""
    run = run_role(fleet, ["x1", "x2", "x5"], ["x4"])
    assert run.rc == 0, run.output
    assert run.changed() == {"x1": 0, "x2": 0, "x4": 2, "x5": 2}
    roles = {name: role for name, (role, _seen) in members(fleet, "x1").items()}
    assert roles == {"x1": "manager", "x2": "manager", "x4": "worker", "x5": "manager"}


@pytest.mark.rare
def test_a_worker_of_another_swarm_is_only_moved_with_consent(fleet: Fleet, formed: Run, first: Loud) -> None:
    """The other swarm is the swarm of m1."""
    guest, other = fleet["x4"], fleet["m1"]
    guest.leave()
    guest.docker("swarm", "join", "--token", other.docker("swarm", "join-token", "--quiet", "worker"), f"{other.address}:2377")
    node_id = guest.swarm()["NodeID"]
    try:
        run = run_role(fleet, ["x1", "x2", "x5"], ["x4"])
        assert run.rc != 0
        assert "swarm_member_move: true" in run.failures("x4")[-1]
        assert guest.swarm()["NodeID"] == node_id
        assert not run.failures("x1")
        (before,) = fleet.module("x4", "fleet.gpu_swarm.gpu_node", {"state": "gathered"}, "--check").results("x4")
        assert before["containers"] == []

        there = ("--constraint", f"node.id=={node_id}")
        other.docker("service", "create", "--detach", "--quiet", "--no-resolve-image", "--name", "web", *there, "lab/task")
        wait_until("its task", lambda: guest.docker("ps", "--quiet"))
        # The assessment is from the start of the run. The node's task started after that.
        run = run_role(fleet, ["x1", "x2", "x5"], ["x4"], "--extra-vars", "swarm_member_move=true", x4={"gpu_node_assessed": before})
        assert run.rc != 0
        assert "x4 does not leave its swarm, because leaving would stop or disconnect this work: task web.1" in run.failures("x4")[-1]
        assert guest.swarm()["NodeID"] == node_id

        run = run_role(fleet, ["x1", "x2", "x5"], ["x4"], "--extra-vars", "swarm_member_move=true swarm_member_move_busy=true")
        assert run.rc == 0, run.output
        assert guest.swarm()["NodeID"] in fleet["x1"].docker("node", "ls", "--quiet").split()
        assert not guest.docker("ps", "--quiet")
    finally:
        other.run("docker", "service", "rm", "web", check=False)
        other.docker("node", "rm", "--force", node_id)


def test_a_wrong_join_token_is_reported(fleet: Fleet, formed: Run, first: Loud) -> None:
    """The address belongs to a manager of another swarm, so this manager refuses the token."""
    guest = fleet["x4"]
    guest.leave()
    run = run_role(fleet, ["x1", "x2", "x5"], ["x4"], x4={"swarm_member_remote_addrs": [f"{fleet['m1'].address}:2377"]})
    assert run.rc != 0
    assert "could not join the swarm of x1 as worker" in run.failures("x4")[-1]
    assert "belongs to another swarm" in run.failures("x4")[-1]
    assert state(guest) == "inactive"
