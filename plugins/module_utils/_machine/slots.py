# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where cards are in a machine: the slots, by the names that its firmware has for them, and the addresses of the GPUs that the driver has.

The kernel lists slots where its driver for hot-plug slots, or pci_slot, is loaded. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
import re

from .. import _files

SLOTS, DRIVER = "sys/bus/pci/slots", "sys/bus/pci/drivers/nvidia"
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def by_address(root: str = "/") -> dict[str, str]:
    """``{"0000:c1:00": "12"}``; {} where the kernel lists none. ``root`` is where the machine's files lie."""
    folder = os.path.join(root, SLOTS)
    found = {_files.text(os.path.join(folder, name, "address")).strip(): name for name in _names(folder)}
    return {address: name for address, name in found.items() if address}


def of_driver(root: str = "/") -> list[str]:
    """The addresses of the GPUs that NVIDIA's driver has, as NVML writes them: also of one that fell off the bus and no longer answers."""
    return ["0000" + name.upper() for name in _names(os.path.join(root, DRIVER)) if _ADDRESS.fullmatch(name)]


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
