# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the processes on each card and MIG device from NVML.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

_OTHER_KINDS = ("GraphicsRunningProcesses", "MPSComputeRunningProcesses")
# Older drivers know only older functions. Older bindings have only the name without a version. Newer bindings refuse that name with an older driver.
_VERSIONS = ("_v3", "_v2", "")
_FUNCTION_NOT_FOUND = 13


def read_processes(nvml: Any) -> list[dict[str, Any]]:
    """Return ``uuid``, ``pids`` and the card's ``index`` of each card or MIG device. Unknown pids are None. ``nvml`` is the open binding."""
    result = []
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):  # other code reports the lost card
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            for handle in running_devices(nvml, card):
                result.append({"index": index, "uuid": text_of(nvml.nvmlDeviceGetUUID(handle)), "pids": pids_of(nvml, handle)})
    return result


def running_devices(nvml: Any, card: Any) -> list[Any]:
    """Return the handles of the devices that tasks use: the card's MIG devices, or else the card."""
    return _mig_devices(nvml, card) or [card]


def _mig_devices(nvml: Any, card: Any) -> list[Any]:
    """Return the handles of the card's MIG devices; [] if the card is not in MIG mode."""
    try:
        return list(_each_mig_device(nvml, card)) if nvml.nvmlDeviceGetMigMode(card)[0] == 1 else []
    except (nvml.NVMLError, AttributeError):  # a card, a driver or a binding without MIG
        return []


def _each_mig_device(nvml: Any, card: Any) -> Iterator[Any]:
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        with contextlib.suppress(nvml.NVMLError):  # this index has no device
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)


def pids_of(nvml: Any, handle: Any) -> list[int] | None:
    """Return the processes that compute, draw, or use MPS on the device. None if the driver does not report processes that compute."""
    pids = _pids_of_kind(nvml, "ComputeRunningProcesses", handle)
    if pids is None:
        return None
    for name in _OTHER_KINDS:
        pids += _pids_of_kind(nvml, name, handle) or []
    return sorted(set(pids))


def _pids_of_kind(nvml: Any, name: str, handle: Any) -> list[int] | None:
    for version in _VERSIONS:
        call: Callable[..., Any] | None = getattr(nvml, "nvmlDeviceGet" + name + version, None)
        if call is None:
            continue
        try:
            return [int(process.pid) for process in call(handle)]
        except nvml.NVMLError as problem:
            if problem.value != _FUNCTION_NOT_FOUND:
                return None
    return None


def text_of(value: str | bytes) -> str:
    """Return the text as str. Bindings before 11.515 return bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
