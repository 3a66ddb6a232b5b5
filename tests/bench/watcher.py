# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher of a node's GPUs takes while nothing happens: both of its processes, as systemd accounts them, with eight GPUs."""

from __future__ import annotations

import subprocess
import time

from .fleets import BenchError, Fleet, Yard
from .runs import play
from .table import Row, row

NODE = "n1"
GPUS = "h100x8"
UNIT = "gpu-swarm-health.service"
SETTLED_S = 20  # two reads have agreed, and what they say is written
SECONDS = 100
MEMORY_LIMIT_MIB = 25.0
CPU_LIMIT = 0.1  # percent of a core


def measure(yard: Yard) -> list[Row]:
    with yard.fleet(1) as fleet:
        yard.machine(fleet, NODE, GPUS)
        play(fleet, "provision")
        time.sleep(SETTLED_S)
        began, before = time.monotonic(), _accounted(fleet)
        time.sleep(SECONDS)
        after, seconds = _accounted(fleet), time.monotonic() - began
    cpu = (after["CPUUsageNSec"] - before["CPUUsageNSec"]) / 1e9 / seconds
    what = "watcher of 8 GPUs, both processes"
    return [
        row(f"{what}: memory / {MEMORY_LIMIT_MIB:.0f} MiB (MiB)", after["MemoryCurrent"] / 2**20, MEMORY_LIMIT_MIB, 1.0),
        row(f"{what}: CPU / {CPU_LIMIT} % of a core (%)", 100 * cpu, CPU_LIMIT, 1.0),
    ]


def _accounted(fleet: Fleet) -> dict[str, int]:
    command = ["docker", "exec", fleet.container(NODE), "systemctl", "show", "--property", "ActiveState,MemoryCurrent,CPUUsageNSec", UNIT]
    shown = subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=True).stdout
    found = dict(line.split("=", 1) for line in shown.splitlines())
    if found.pop("ActiveState") != "active" or not all(value.isdigit() for value in found.values()):
        raise BenchError(f"{UNIT} of {fleet.name} does not run, or systemd does not account for it: {shown}")
    return {name: int(value) for name, value in found.items()}
