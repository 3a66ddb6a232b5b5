# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel reports about a machine's CPU and memory, as plain data.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import platform
import re
from typing import Any

from .. import _files

# What names an x86 CPU (vendor_id, flags), an ARM one (implementer, part, Features) and a POWER one (cpu).
_FIELDS = {
    "vendor_id": "vendor",
    "flags": "features",
    "CPU implementer": "implementer",
    "CPU part": "part",
    "Features": "features",
    "cpu": "model",
}


def cpu() -> dict[str, Any]:
    """The first processor: a node's processors are alike."""
    return parse_cpuinfo(_files.text("/proc/cpuinfo"), platform.machine())


def system_memory_mib() -> int | None:
    return parse_meminfo(_files.text("/proc/meminfo"))


def uptime_s() -> float:
    """Since the boot."""
    return float(_files.text("/proc/uptime").split()[0])


def parse_cpuinfo(text: str, machine: str) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": machine, "vendor": None, "implementer": None, "part": None, "model": None, "features": []}
    for line in text.strip().splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            break
        name = _FIELDS.get(key.strip())
        if name:
            found[name] = sorted(value.split()) if name == "features" else value.strip()
    return found


def parse_meminfo(text: str) -> int | None:
    """The total in MiB; None if the text has none."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found.group(1)) // 1024 if found else None
