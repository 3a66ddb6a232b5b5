# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slots of a machine, by the names that its firmware has for them and that are often printed beside them.

The kernel lists them where its driver for hot-plug slots, or pci_slot, is loaded. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os

from .. import _files

SLOTS = "sys/bus/pci/slots"


def by_address(root: str = "/") -> dict[str, str]:
    """``{"0000:c1:00": "12"}``; {} where the kernel lists none. ``root`` is where the machine's files lie."""
    folder = os.path.join(root, SLOTS)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = {_files.text(os.path.join(folder, name, "address")).strip(): name for name in names}
    return {address: name for address, name in found.items() if address}
