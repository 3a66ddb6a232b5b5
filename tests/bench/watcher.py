# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the watcher of a node's GPUs takes while nothing happens, with eight GPUs: the memory of both processes as systemd accounts it, and their CPU
time as the kernel counts it."""

from __future__ import annotations

import os
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
        began, before = time.monotonic(), _cpu_s(fleet)
        time.sleep(SECONDS)
        cpu = (_cpu_s(fleet) - before) / (time.monotonic() - began)
        memory = int(_run(fleet, "systemctl", "show", "--property", "MemoryCurrent", "--value", UNIT)) / 2**20
    what = "watcher of 8 GPUs, both processes"
    return [
        row(f"{what}: memory / {MEMORY_LIMIT_MIB:.0f} MiB (MiB)", memory, MEMORY_LIMIT_MIB, 1.0),
        row(f"{what}: CPU / {CPU_LIMIT} % of a core (%)", 100 * cpu, CPU_LIMIT, 1.0),
    ]


def _cpu_s(fleet: Fleet) -> float:
    """Of the service and the child that reads NVML, with what the processes took that have ended."""
    first = _run(fleet, "systemctl", "show", "--property", "MainPID", "--value", UNIT)
    both = [first, *_run(fleet, "cat", f"/proc/{first}/task/{first}/children").split()]
    if len(both) != 2:
        raise BenchError(f"{UNIT} of {fleet.name} has the processes {both}, and is to have two")
    ticks = [int(field) for pid in both for field in _run(fleet, "cat", f"/proc/{pid}/stat").rpartition(")")[2].split()[11:15]]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _run(fleet: Fleet, *words: str) -> str:
    command = ["docker", "exec", fleet.container(NODE), *words]
    return subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=True).stdout.strip()
