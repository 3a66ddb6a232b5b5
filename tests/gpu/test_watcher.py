# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's child with a real driver: its readings, and its treatment of application errors."""

from __future__ import annotations

import os
import select

import pytest

from tests.bench import collection

reader = collection.module("module_utils._watch.reader")
gpu_errors = collection.module("module_utils._watch.gpu_errors")
driver = collection.module("module_utils._machine.driver")
clock = collection.module("module_utils._program.clock")
xids = collection.module("module_utils._health.xids")
verdict = collection.module("module_utils._health.verdict")
label = collection.module("module_utils._health.label")

LIMIT_S = 30


@pytest.fixture
def child(tmp_path):
    home = tmp_path / "health"
    home.mkdir()
    made = reader.Reader(str(home), {"nvml_path": None, "nvml_timeout": LIMIT_S}, lambda: None, clock.Clock())
    yield made
    made.end()


def judged(reading, found):
    return verdict.assess_health(reading, [gpu["uuid"] for gpu in found["gpus"]])


def test_the_child_reads_the_same_as_gpu_info(child, found):
    reading = child.read()
    assert reading["error"] is None
    assert [gpu["uuid"] for gpu in reading["gpus"]] == [gpu["uuid"] for gpu in found["gpus"]]
    assert judged(reading, found) == label.Label(label.OK)


def test_work_on_a_gpu_disturbs_no_reading(child, found, cuda):
    cuda("hold")
    assert judged(child.read(), found) == label.Label(label.OK)


def test_what_the_cards_are_doing(child, found, cuda):
    child.read()
    cuda("hold")
    rows = {row["uuid"]: row for row in child.activity() if row["card"] is None}
    assert list(rows) == [gpu["uuid"] for gpu in found["gpus"]]
    assert all(10 <= row["temperature_c"] <= 110 and row["power_w"] > 0 and row["sm_clock_mhz"] > 0 for row in rows.values())
    assert all(row["memory_used_mib"] < row["memory_mib"] and row["throttle"] is not None for row in rows.values())
    assert sum(row["processes"] for row in rows.values()) >= 1


def test_an_error_of_an_application_is_no_fault_of_the_card(child, found, cuda):
    log = gpu_errors.Log()
    child.read()
    program = cuda("fault")
    child.events()
    log.lines()
    program.stdin.close()
    assert program.wait(LIMIT_S) == 0
    assert select.select(child.handles(), [], [], LIMIT_S)[0], "NVML reports no event"
    reported = child.events()
    logged = [one for one in map(xids.parse_event, log.lines()) if one]
    assert [one.xid for one in reported] == [31]
    assert [one.xid for one in logged] == [31]
    assert reported[0].pci == logged[0].pci
    assert reported[0].pci in {xids.bus_address(gpu["pci_bus_id"]) for gpu in found["gpus"]}
    assert xids.severity(logged[0]) == label.OK
    assert judged(child.read(), found) == label.Label(label.OK)


def test_library_and_kernel_module_are_compared_without_nvml(found):
    assert driver.read_module_version() == found["driver_version"]
    assert [path for path in driver.find_libraries(None) if os.path.exists(path)]
    assert driver.find_mismatch(None) is None
