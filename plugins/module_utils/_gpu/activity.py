# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads from NVML what each card and MIG device is doing: temperature, power, utilisation, memory, clock and processes.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Dict, Sequence

from .processes import pids_of, running_devices, text_of

# What one card or MIG device is doing. A value that NVML does not report is None.
Activity = Dict[str, Any]

# NVML_TEMPERATURE_GPU, NVML_CLOCK_SM
_SENSOR, _SM_CLOCK = 0, 1
# NVML's bits for reasons of a low clock. Bit 1 is left out, because it only says that the card has no work.
_THROTTLE = {
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}
# NVML's marks for a value that is not available: all bits are set.
_UNAVAILABLE = ((1 << 32) - 1, (1 << 64) - 1)


def read_activity(nvml: Any) -> list[Activity]:
    """Return what each card and MIG device is doing. Cards that do not answer are left out. ``nvml`` is the open binding.

    A card in MIG mode has a row for the card and a row for each MIG device. ``card`` is the UUID of the card of a MIG device, otherwise None.
    """
    result = []
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):  # other code reports the lost card
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = text_of(nvml.nvmlDeviceGetUUID(handle))
            devices = [device for device in running_devices(nvml, handle) if device is not handle]
            parts = [_of_device(nvml, device, uuid) for device in devices]
            card = _of_card(nvml, handle, uuid)
            if parts:
                card["processes"] = _sum([part["processes"] for part in parts])
            result += [card, *parts]
    return result


def _of_card(nvml: Any, handle: Any, uuid: str) -> Activity:
    query = partial(_answer, nvml, handle)
    # If there are two names, newer drivers have the first, and may lack the second.
    temperature = query(["TemperatureV", "Temperature"], _SENSOR)
    power, limit = query(["PowerUsage"]), query(["PowerManagementLimit"])
    rates = query(["UtilizationRates"])
    reasons = query(["CurrentClocksEventReasons", "CurrentClocksThrottleReasons"])
    return {
        "uuid": uuid,
        "card": None,
        "temperature_c": temperature,
        "power_w": None if power is None else power / 1000,
        "power_limit_w": None if limit is None else limit / 1000,
        "utilisation_percent": None if rates is None else rates.gpu,
        **_memory(nvml, handle),
        "sm_clock_mhz": query(["ClockInfo"], _SM_CLOCK),
        "throttle": None if reasons is None else [name for bit, name in _THROTTLE.items() if reasons & bit],
        "processes": _count(pids_of(nvml, handle)),
    }


def _of_device(nvml: Any, device: Any, card: str) -> Activity:
    """Return what a MIG device is doing. NVML reports temperature, power, clock and utilisation only for the whole card."""
    unknown = dict.fromkeys(("temperature_c", "power_w", "power_limit_w", "utilisation_percent", "sm_clock_mhz", "throttle"))
    uuid = text_of(nvml.nvmlDeviceGetUUID(device))
    return {"uuid": uuid, "card": card, **unknown, **_memory(nvml, device), "processes": _count(pids_of(nvml, device))}


def _answer(nvml: Any, handle: Any, names: Sequence[str], *more: Any) -> Any:
    """Return the answer of the first function that has one, by the rest of its name. None if the driver or the binding knows no such function."""
    for name in names:
        function = getattr(nvml, "nvmlDeviceGet" + name, None)
        if function is not None:
            with contextlib.suppress(nvml.NVMLError):
                value = function(handle, *more)
                return None if value in _UNAVAILABLE else value
    return None


def _memory(nvml: Any, handle: Any) -> dict[str, int | None]:
    """Return the memory in MiB. Newer drivers report the used memory without the driver's own reserve, as nvidia-smi does."""
    query = partial(_answer, nvml, handle, ["MemoryInfo"])
    memory = (query(nvml.nvmlMemory_v2) if hasattr(nvml, "nvmlMemory_v2") else None) or query()
    if not memory or memory.used > memory.total:
        return {"memory_used_mib": None, "memory_mib": None}
    return {"memory_used_mib": memory.used >> 20, "memory_mib": memory.total >> 20}


def _count(pids: Sequence[int] | None) -> int | None:
    return None if pids is None else len(pids)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
