# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of the benchmark that need no fleet still run, each with its smallest size.

A full benchmark takes an hour, so nobody would notice for weeks that a part calls a function with a former name, or that its simulated hosts lack
something that the collection checks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import ledger_read, many_hosts, nvml_read, queue_decision, record, roll, second_process
from tests.bench.table import Row

pytestmark = pytest.mark.long
SMALLEST = {
    nvml_read: {"ROUNDS": 1, "MEMORY_ROUNDS": 1},
    ledger_read: {"NODES": 20, "TASKS": 1000, "ROUNDS": 1, "MEMORY_ROUNDS": 1},
    record: {"NODES": 20, "TASKS": 1000, "CHANGES_PER_S": 1, "ROUNDS": 1},
    second_process: {},  # of the size of ``record``
    queue_decision: {"ROUNDS": 1},  # its checks need the full size
}


@pytest.fixture(autouse=True)
def smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, sizes in SMALLEST.items():
        for name, value in sizes.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("module", SMALLEST, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_part_measures_something(module) -> None:
    rows: list[Row] = module.measure()
    assert all(row["value"] > 0 for row in rows), rows


def test_hosts_that_are_all_this_machine_are_queried() -> None:
    """many_hosts.costs() raises an error if a host was not queried."""
    found = many_hosts.costs(2)
    assert all(value > 0 for (cost,) in found.values() for value in cost), found


def test_a_roll_changes_its_hosts_and_leaves_this_machine_alone() -> None:
    """roll.run() raises an error if a node was not paused once, restarted once, and returned to service with its GPUs."""
    units = Path("/etc/systemd/system")
    before = sorted(units.rglob("*"))
    few = roll.run(2)
    assert few.most_out == {True: 1, False: 1}
    assert sorted(units.rglob("*")) == before
