# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which processes NVML shows on each card and MIG device.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

_MORE = ("GraphicsRunningProcesses", "MPSComputeRunningProcesses")
# Older drivers know only older calls, and older bindings have only the plain name, which newer ones refuse where a driver is older.
_VERSIONS = ("_v3", "_v2", "")
_FUNCTION_NOT_FOUND = 13


def read(nvml: Any) -> list[dict[str, Any]]:
    """``uuid`` and ``pids`` of each, and the ``index`` of its card; the pids are None where they are not known. ``nvml`` is the binding, with NVML
    open."""
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):  # one that is lost is reported by other means
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            for handle in _divided(nvml, card) or [card]:
                found.append({"index": index, "uuid": _text(nvml.nvmlDeviceGetUUID(handle)), "pids": _pids(nvml, handle)})
    return found


def _divided(nvml: Any, card: Any) -> list[Any]:
    """Its MIG devices, of each of which NVML knows the processes."""
    try:
        return list(_mig(nvml, card)) if nvml.nvmlDeviceGetMigMode(card)[0] == 1 else []
    except (nvml.NVMLError, AttributeError):  # a card, a driver or a binding without MIG
        return []


def _mig(nvml: Any, card: Any) -> Iterator[Any]:
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card)):
        with contextlib.suppress(nvml.NVMLError):  # there is none in this place
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index)


def _pids(nvml: Any, handle: Any) -> list[int] | None:
    """None where this card or this driver does not say who computes on it; who draws, or shares it by MPS, comes on top."""
    found = _pids_of_kind(nvml, "ComputeRunningProcesses", handle)
    if found is None:
        return None
    for what in _MORE:
        found += _pids_of_kind(nvml, what, handle) or []
    return sorted(set(found))


def _pids_of_kind(nvml: Any, what: str, handle: Any) -> list[int] | None:
    for version in _VERSIONS:
        call: Callable[..., Any] | None = getattr(nvml, "nvmlDeviceGet" + what + version, None)
        if call is None:
            continue
        try:
            return [int(one.pid) for one in call(handle)]
        except nvml.NVMLError as problem:
            if problem.value != _FUNCTION_NOT_FOUND:
                return None
    return None


def _text(value: str | bytes) -> str:
    """Bindings before 11.515 answer bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
