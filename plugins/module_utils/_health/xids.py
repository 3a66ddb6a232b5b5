# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The errors that NVIDIA's driver logs (XIDs), and what each says about its card (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Container, NamedTuple

from .._printable import printable
from .label import FAULT, OK, WARNING
from .numbers import FAULTS, IGNORED

# "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
RECOVERY_ACTION = 154

# A record of /dev/kmsg (Linux, Documentation/ABI/testing/dev-kmsg): "level and facility,number,time,flags;text". The kernel's facility is 0; what a
# process writes to this file gets another one.
_RECORD = re.compile(r"(\d{1,9}),[^;\n]*;(.*)")
_FACILITY = 3  # bits that are the level
# Only the driver's own text begins so, as NVIDIA's sources have it (kernel_rc.c). Users can have the kernel log a text in which this stands further
# behind, such as the name of a mount option. A process can have the first fifteen characters as its name, with which other texts begin.
_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?"
_LINE = re.compile(r"NVRM: Xid \(PCI:(%s)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (\d{1,6})\b(.*)" % _ADDRESS)
# The name of a process is up to fifteen characters of its own choice, blanks and commas among them; the kernel's log escapes some.
_NAME = re.compile(r"\bname=((?:\\x[0-9a-f]{2}|.){1,15})(?=, |$)")
_NO_NAME = re.compile(r"[^\w .:/@+<>()\[\]\\-]")
# Longer than the name of a process can be.
_ACTION = re.compile(r"\bchanged from 0x[0-9a-fA-F]+ \([^)]*\) to 0x[0-9a-fA-F]+ \(([^)]*)\)")
_LONGEST = 200


class Event(NamedTuple):
    """One error as the driver logged it."""

    pci: str  # without the function: 0000:c1:00
    xid: int
    text: str


def event(record: str) -> Event | None:
    """The error that a record of the kernel's log reports; None for any other record."""
    head = _RECORD.match(record)
    if head is None or int(head.group(1)) >> _FACILITY:
        return None
    found = _LINE.match(head.group(2))
    return Event(bus(found.group(1)), int(found.group(2)), _words(found.group(3))) if found else None


def _words(text: str) -> str:
    """The driver's words as they may be shown: the name of a process stands in quotes, so that it passes for nothing else."""
    quoted = _NAME.sub(lambda name: "name='%s'" % _NO_NAME.sub("?", name.group(1)), text.strip(" ,"), count=1)
    return printable(quoted)[:_LONGEST]


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
