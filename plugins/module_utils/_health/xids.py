# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors that NVIDIA's driver logs (XIDs), and what each says about its card (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Container, NamedTuple

from .label import FAULT, OK, WARNING
from .numbers import FAULTS, IGNORED

# "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
RECOVERY_ACTION = 154

_LINE = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(.*)")
_ACTION = re.compile(r"\bto 0x[0-9a-fA-F]+ \(([^)]*)\)")


class Event(NamedTuple):
    """One error as the driver logged it."""

    pci: str  # without the function: 0000:c1:00
    xid: int
    text: str


def event(line: str) -> Event | None:
    """The error that a line of the kernel's log reports; None for any other line."""
    found = _LINE.search(line)
    return Event(bus(found.group(1)), int(found.group(2)), found.group(3).strip(" ,")[:200]) if found else None


def bus(pci: str) -> str:
    """An address as both the kernel's log and NVML have it: 00000000:C1:00.0 and 0000:c1:00 are one."""
    domain, dummy_colon, rest = pci.lower().split(".")[0].partition(":")
    return "%s:%s" % (domain.lstrip("0").rjust(4, "0"), rest)


def severity(one: Event, faults: Container[int] = FAULTS, ignored: Container[int] = IGNORED) -> str:
    """ok | warning | fault. What is not in any list may be anything, and is a warning."""
    if one.xid == RECOVERY_ACTION and one.xid not in faults and one.xid not in ignored:
        action = _ACTION.search(one.text)
        return OK if action and action.group(1).strip().lower() == "none" else FAULT
    if one.xid in faults:
        return FAULT
    return OK if one.xid in ignored else WARNING
