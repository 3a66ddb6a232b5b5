# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what the cards are doing, with the lab's library and with drivers that support fewer functions."""

from __future__ import annotations

import os
from types import SimpleNamespace

import nvml_lab
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu.activity import read_activity

READ = """
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import activity
held = reader.open_nvml(sys.argv[1])
print(json.dumps(activity.read_activity(held)))
"""
H100 = "[gpu 0]\nname = NVIDIA H100\nuuid = GPU-1\nmemory = 81559\ncompute = 9.0\npower-limit = 700\n"
BUSY = "temperature = 71\npower = 650\nutilisation = 98\nmemory-used = 70000\nsm-clock = 1755\nthrottle = sw-power-cap\nthrottle = hw-thermal\n"
UNKNOWN = dict.fromkeys(
    ("temperature_c", "power_w", "power_limit_w", "utilisation_percent", "memory_used_mib", "memory_mib", "sm_clock_mhz", "throttle")
)


def read(tmp_path, text, *processes):
    path = tmp_path / "nvml.conf"
    path.write_text(text)
    (tmp_path / "nvml.conf.processes").write_text("".join(f"{line}\n" for line in processes))
    return nvml_lab.python(READ, nvml_lab.library(), GPU_LAB_NVML=str(path))


def test_a_busy_card(tmp_path):
    assert read(tmp_path, H100 + BUSY, f"GPU-1 compute {os.getpid()}") == [
        {
            "uuid": "GPU-1",
            "card": None,
            "temperature_c": 71,
            "power_w": 650.0,
            "power_limit_w": 700.0,
            "utilisation_percent": 98,
            "memory_used_mib": 70000,
            "memory_mib": 81559,
            "sm_clock_mhz": 1755,
            "throttle": ["sw_power_cap", "hw_thermal"],
            "processes": 1,
        }
    ]


def test_an_idle_card_is_not_throttled(tmp_path):
    (card,) = read(tmp_path, H100 + "power = 70\n")
    assert (card["utilisation_percent"], card["throttle"], card["processes"], card["temperature_c"]) == (0, [], 0, 34)


def test_a_value_that_the_card_does_not_report_is_none(tmp_path):
    lines = "".join(f"{name} = unsupported\n" for name in ("temperature", "power", "utilisation", "sm-clock", "throttle"))
    (card,) = read(tmp_path, "[gpu 0]\nuuid = GPU-1\n" + lines)
    assert card == {"uuid": "GPU-1", "card": None, **UNKNOWN, "processes": 0}


def test_a_mig_device_has_a_row_of_its_own_and_no_temperature(tmp_path):
    devices = "mig = on\nmig-device = 3g.40gb uuid=MIG-1\nmig-device = 3g.40gb uuid=MIG-2\n"
    card, first, second = read(tmp_path, H100 + devices, f"MIG-2 compute {os.getpid()}")
    assert (card["uuid"], card["temperature_c"], card["utilisation_percent"], card["processes"]) == ("GPU-1", 34, None, 1)
    assert first == {"uuid": "MIG-1", "card": "GPU-1", **UNKNOWN, "memory_used_mib": 0, "memory_mib": 39872, "processes": 0}
    assert (second["uuid"], second["processes"]) == ("MIG-2", 1)


def test_a_lost_card_hides_no_other(tmp_path):
    found = read(tmp_path, H100 + "[gpu 1]\nuuid = GPU-2\nfault = lost\n[gpu 2]\nuuid = GPU-3\n")
    assert [card["uuid"] for card in found] == ["GPU-1", "GPU-3"]


@pytest.mark.parametrize("conf", ["nogpu", "gb10", "a100-mig", "k80x2", "h100x8-one-lost"])
def test_each_machine_of_the_lab_can_be_read(conf):
    found = nvml_lab.python(READ, nvml_lab.library(), GPU_LAB_NVML=nvml_lab.fleet(conf))
    assert all(card["uuid"] and card["processes"] == 0 for card in found)


# -- older and newer drivers -------------------------------------------------------------------------------------------


class Failure(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


def failing(value):
    def call(*_args):
        raise Failure(value)

    return call


class Driver:
    """A binding of NVML with one card. It has only the given functions, named by the end of their names."""

    NVMLError = Failure

    def __init__(self, **calls):
        for name, call in {"HandleByIndex": lambda index: index, "UUID": lambda _handle: b"GPU-1", **calls}.items():
            setattr(self, f"nvmlDeviceGet{name}", call)

    @staticmethod
    def nvmlDeviceGetCount():
        return 1


def one(**calls):
    (card,) = read_activity(Driver(**calls))
    return card


def test_a_driver_without_any_of_these_functions():
    assert one() == {"uuid": "GPU-1", "card": None, **UNKNOWN, "processes": None}


@pytest.mark.parametrize("newer", [failing(13), failing(25), None])
def test_an_older_driver_has_the_older_functions(newer):
    added = {"TemperatureV": newer, "CurrentClocksEventReasons": newer} if newer else {}
    card = one(Temperature=lambda _handle, _sensor: 50, CurrentClocksThrottleReasons=lambda _handle: 0x20, **added)
    assert (card["temperature_c"], card["throttle"]) == (50, ["sw_thermal"])


def test_a_newer_driver_lacks_the_older_functions():
    card = one(TemperatureV=lambda _handle, _sensor: 50, CurrentClocksEventReasons=lambda _handle: 0x1F000)
    assert (card["temperature_c"], card["throttle"]) == (50, [])


@pytest.mark.parametrize(
    ("used", "total", "found"),
    [(5 << 20, 9 << 20, (5, 9)), ((1 << 64) - 1, 9 << 20, (None, None)), (0, 0, (0, 0))],
)
def test_used_memory_above_the_total_is_unknown(used, total, found):
    card = one(MemoryInfo=lambda _handle: SimpleNamespace(used=used, total=total))
    assert (card["memory_used_mib"], card["memory_mib"]) == found


@pytest.mark.parametrize("value", [(1 << 32) - 1, (1 << 64) - 1])
def test_all_bits_set_means_that_a_value_is_not_available(value):
    card = one(PowerUsage=lambda _handle: value, Temperature=lambda *_args: value, ClockInfo=lambda *_args: value)
    assert (card["power_w"], card["temperature_c"], card["sm_clock_mhz"]) == (None, None, None)
