# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Receives errors of cards (XIDs) from NVML as they happen, while NVML is open.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

_XID_CRITICAL_ERROR = 8  # nvmlEventTypeXidCriticalError
_TIMEOUT = 10


class XidEvent(NamedTuple):
    """One error of the card at this PCI address."""

    pci: str
    xid: int


class XidEvents:
    """Errors of all cards that support events. ``nvml`` is the binding with NVML open."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._event_set = nvml.nvmlEventSetCreate()
        self._cards: dict[int | None, str] = {}
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                if nvml.nvmlDeviceGetSupportedEventTypes(handle) & _XID_CRITICAL_ERROR:
                    nvml.nvmlDeviceRegisterEvents(handle, _XID_CRITICAL_ERROR, self._event_set)
                    pci = nvml.nvmlDeviceGetPciInfo(handle).busId
                    self._cards[_address(handle)] = pci.decode("ascii") if isinstance(pci, bytes) else pci
            except nvml.NVMLError:
                continue  # the card is lost or does not support events

    def __len__(self) -> int:
        return len(self._cards)

    def wait(self, limit_ms: int) -> XidEvent | None:
        """Return the next error. None if no error occurs in time. Raises NVML's error if a card is lost."""
        try:
            event = self._nvml.nvmlEventSetWait_v2(self._event_set, limit_ms)
        except self._nvml.NVMLError as problem:
            if problem.value == _TIMEOUT:
                return None
            raise
        pci = self._cards.get(_address(event.device))
        if event.eventType != _XID_CRITICAL_ERROR or pci is None:
            return None
        return XidEvent(pci, int(event.eventData))


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
