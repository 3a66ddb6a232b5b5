# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parses the errors that NVIDIA's driver logs (XIDs), and rates their severity (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Container, NamedTuple

from .._printable import printable
from .label import FAULT, OK, WARNING
from .xid_defaults import FAULTS, IGNORED

# "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
RECOVERY_ACTION = 154

# A record of /dev/kmsg (Linux, Documentation/ABI/testing/dev-kmsg): "level and facility,number,time,flags;text". The kernel's facility is 0. If a
# process writes text to this file, the text gets another facility.
_RECORD = re.compile(r"(\d{1,9}),[^;\n]*;(.*)")
_FACILITY = 3  # the level is in the lowest 3 bits
# Only the driver's own messages begin like this (NVIDIA's kernel_rc.c). Users can make the kernel log this text, for example as the name of a mount
# option, but not at the beginning. A process can use the first fifteen characters as its name, and some messages of the kernel begin
# with the name of a process.
_ADDRESS = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?"
_LINE = re.compile(r"NVRM: Xid \(PCI:(%s)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): (\d{1,6})\b(.*)" % _ADDRESS)
# A process can choose any name of up to fifteen characters, with blanks and commas. The kernel's log escapes some characters.
_NAME = re.compile(r"\bname=((?:\\x[0-9a-f]{2}|.){1,15})(?=, |$)")
_NO_NAME = re.compile(r"[^\w .:/@+<>()\[\]\\-]")
# This text is too long to be the name of a process.
_ACTION = re.compile(r"\bchanged from 0x[0-9a-fA-F]+ \([^)]*\) to 0x[0-9a-fA-F]+ \(([^)]*)\)")
_MAX_TEXT = 200


class Event(NamedTuple):
    """One logged error."""

    pci: str  # the address without the function: 0000:c1:00
    xid: int
    text: str


def parse_event(record: str) -> Event | None:
    """Return the error in a record of the kernel's log; None for any other record."""
    head = _RECORD.match(record)
    if head is None or int(head.group(1)) >> _FACILITY:
        return None
    match = _LINE.match(head.group(2))
    return Event(bus_address(match.group(1)), int(match.group(2)), _printable_text(match.group(3))) if match else None


def _printable_text(text: str) -> str:
    """Return the driver's text in printable form. The name of a process gets quotes, so that the name cannot look like other text."""
    quoted = _NAME.sub(lambda name: "name='%s'" % _NO_NAME.sub("?", name.group(1)), text.strip(" ,"), count=1)
    return printable(quoted)[:_MAX_TEXT]


def bus_address(pci: str) -> str:
    """Return a PCI address in one form for both spellings: NVML's 00000000:C1:00.0 and the kernel's 0000:c1:00."""
    domain, dummy_colon, address = pci.lower().split(".")[0].partition(":")
    return "%s:%s" % (domain.lstrip("0").rjust(4, "0"), address)


def severity(event: Event, faults: Container[int] = FAULTS, ignored: Container[int] = IGNORED) -> str:
    """Return ok, warning or fault. An error that is in no list is a warning."""
    if event.xid == RECOVERY_ACTION and event.xid not in faults and event.xid not in ignored:
        action = _ACTION.search(event.text)
        return OK if action and action.group(1).strip().lower() == "none" else FAULT
    if event.xid in faults:
        return FAULT
    return OK if event.xid in ignored else WARNING
