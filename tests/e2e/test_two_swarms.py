# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two swarms with one inventory each, as docs/operate/several-swarms.md shows. No run changes the other swarm, and none treats both as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .fleet import Fleet, of_its_own

pytestmark = pytest.mark.rare

NAME = "e2e-two-swarms"
FLEET = """
nodes:
  b1: {groups: [swarm_managers, gpu_nodes], gpus: t4x4, toolkit: 1.20.0}
  o1: {groups: [swarm_managers, gpu_nodes], gpus: a100, toolkit: 1.20.0, image: debian12}
"""
NODES = ["b1", "o1"]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("two-swarms"))


@pytest.fixture(scope="module")
def inventories(fleet: Fleet) -> dict[str, Path]:
    return {name: fleet.inventory(swarm_managers=[name], gpu_nodes=[name]) for name in NODES}


def state(fleet: Fleet, name: str) -> Any:
    node = fleet[name]
    return node.advertised(), node.started(), node.swarm()["Cluster"]["ID"], node.docker("node", "ls", "--format", "{{.Hostname}}").split()


def test_each_swarm_is_provisioned_and_the_other_stays_unchanged(fleet: Fleet, inventories: dict[str, Path]) -> None:
    was: dict[str, Any] = {}
    for name, inventory in inventories.items():
        run = fleet.playbook(inventory)
        assert run.rc == 0, run.output
        assert {other: state(fleet, other) for other in was} == was
        was[name] = state(fleet, name)
    assert [members for *_rest, members in was.values()] == [["b1"], ["o1"]]
    assert len({cluster for *_rest, cluster, _members in was.values()}) == 2
    for name, inventory in inventories.items():
        again = fleet.playbook(inventory)
        assert (again.rc, again.changed()) == (0, {name: 0}), again.output


def test_both_swarms_in_one_run_are_refused(fleet: Fleet, inventories: dict[str, Path]) -> None:
    """The run is refused even if ``--limit`` selects only one of the swarms."""
    was = {name: state(fleet, name) for name in NODES}
    for limit in ([], ["--limit", "b1"]):
        run = fleet.playbook(inventories["b1"], "--inventory", str(inventories["o1"]), *limit)
        assert run.rc == 2, run.output
        assert "The hosts of the group swarm_managers run different swarms: b1 swarm " in run.output, run.output
        assert {name: state(fleet, name) for name in NODES} == was
