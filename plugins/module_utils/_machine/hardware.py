# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads CPU, memory and uptime from the kernel.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import platform
import re
from typing import Any

from .. import _files

# Fields of /proc/cpuinfo that identify a CPU: x86 (vendor_id, flags), ARM (implementer, part, Features), POWER (cpu).
_FIELDS = {
    "vendor_id": "vendor",
    "flags": "features",
    "CPU implementer": "implementer",
    "CPU part": "part",
    "Features": "features",
    "cpu": "model",
}


def cpu() -> dict[str, Any]:
    """Describe the first processor. All processors of a node are the same model."""
    return parse_cpuinfo(_files.read_text("/proc/cpuinfo"), platform.machine())


def system_memory_mib() -> int | None:
    return parse_meminfo(_files.read_text("/proc/meminfo"))


def uptime_s() -> float:
    """Return the seconds since the boot."""
    return float(_files.read_text("/proc/uptime").split()[0])


def parse_cpuinfo(text: str, machine: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"machine": machine, "vendor": None, "implementer": None, "part": None, "model": None, "features": []}
    for line in text.strip().splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            break
        name = _FIELDS.get(key.strip())
        if name:
            fields[name] = sorted(value.split()) if name == "features" else value.strip()
    return fields


def parse_meminfo(text: str) -> int | None:
    """Return the total memory in MiB; None if the text does not contain it."""
    match = re.search(r"^MemTotal:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match.group(1)) // 1024 if match else None
