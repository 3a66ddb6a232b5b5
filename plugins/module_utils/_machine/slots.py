# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the places of GPUs in a machine: the firmware's names of slots, and the PCI addresses of the driver's GPUs.

The kernel lists slots only if its driver for hot-plug slots, or pci_slot, is loaded. Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import re

from .. import _files

SLOTS, DRIVER = "sys/bus/pci/slots", "sys/bus/pci/drivers/nvidia"
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def slots_by_address(root: str = "/") -> dict[str, str]:
    """Return the slot of each address: ``{"0000:c1:00": "12"}``. Empty if the kernel lists no slots. ``root`` is the machine's root directory."""
    folder = os.path.join(root, SLOTS)
    names = {_files.read_text(os.path.join(folder, name, "address")).strip(): name for name in _names(folder)}
    return {address: name for address, name in names.items() if address}


def driver_addresses(root: str = "/") -> list[str]:
    """Return the addresses of the driver's GPUs in the form of NVML. A GPU that fell off the bus is still listed."""
    return ["0000" + name.upper() for name in _names(os.path.join(root, DRIVER)) if _ADDRESS.fullmatch(name)]


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
