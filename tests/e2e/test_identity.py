# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which node of the swarm a host is. A second name for g1 shows g1's node id, as a clone of g1 or an attacker's host would."""

from __future__ import annotations

from pathlib import Path

from .conftest import MAIN, Loud
from .fleet import Fleet, advertised_as
from .swarm import member

TWIN = "twin"


def with_twin(fleet: Fleet) -> Path:
    return fleet.inventory({TWIN: {"ansible_host": f"{fleet.name}.g1"}}, **MAIN, swarm_workers=[TWIN])


def test_two_hosts_with_one_node_id_are_both_in_error(fleet: Fleet, first: Loud) -> None:
    node_id = fleet["g1"].swarm()["NodeID"]
    run = fleet.playbook(with_twin(fleet), "--check")
    assert run.rc == 2, run.output
    assert sorted(run.failed()) == ["g1", TWIN]
    for name, other in (("g1", TWIN), (TWIN, "g1")):
        assert f"{name} and {other} report the same node id {node_id}" in run.failures(name)[-1]


def test_a_host_that_shows_another_host_s_node_id_changes_nothing_there(fleet: Fleet, first: Loud) -> None:
    before = member(fleet, "g1")
    assert before["Spec"]["Labels"]["gpu-swarm.host"] == "g1"
    run = fleet.playbook(with_twin(fleet), "--limit", TWIN, *advertised_as("OTHER"))
    assert run.rc == 2, run.output
    assert f"docker node update --label-add gpu-swarm.host={TWIN} {before['ID']}" in run.failures(TWIN)[-1]
    assert member(fleet, "g1")["Version"] == before["Version"]
