# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the watcher of a node with eight GPUs in steady state: its processes' memory from systemd, and their CPU time from the kernel."""

from __future__ import annotations

import os
import subprocess
import time

from . import collection
from .fleets import BenchError, Fleet, Yard
from .runs import play
from .table import Row, row

NODE = "n1"
GPUS = "h100x8"
UNIT = "gpu-swarm-health.service"
SECONDS = 100  # duration of the CPU measurement: ten readings of the GPUs, and one or two of their processes
SETTLES_S = 60
MEMORY_LIMIT_MIB = 25.0
CPU_LIMIT = 0.1  # percent of a core


def measure(yard: Yard) -> list[Row]:
    with yard.fleet(1) as fleet:
        yard.machine(fleet, NODE, GPUS)
        play(fleet, "provision")
        _settle(fleet)
        began, before = time.monotonic(), _cpu_s(fleet)
        time.sleep(SECONDS)
        cpu = (_cpu_s(fleet) - before) / (time.monotonic() - began)
        memory = int(_run(fleet, "systemctl", "show", "--property", "MemoryCurrent", "--value", UNIT)) / 2**20
    what = "watcher of 8 GPUs, both processes"
    return [
        row(f"{what}: memory / {MEMORY_LIMIT_MIB:.0f} MiB (MiB)", memory, MEMORY_LIMIT_MIB, 1.0),
        row(f"{what}: CPU / {CPU_LIMIT} % of a core (%)", 100 * cpu, CPU_LIMIT, 1.0),
    ]


def _settle(fleet: Fleet) -> None:
    """Wait until two readings agree.

    Until then the watcher reads every few seconds, and later less often. The child sleeps between readings, and the kernel counts these sleeps.
    """
    confirm_s = collection.module("module_utils._health.pace").CONFIRM_S
    end, before, now = time.monotonic() + SETTLES_S, "", _sleeps(fleet)
    while not now or now != before:
        if time.monotonic() > end:
            raise BenchError(f"{UNIT} of {fleet.name} has not settled within {SETTLES_S} s: no two readings of its GPUs agree, or there are none")
        time.sleep(2 * confirm_s)
        before, now = now, _sleeps(fleet)


def _sleeps(fleet: Fleet) -> str:
    """Return how often the child has slept, or nothing if there is no child."""
    children = _processes(fleet)[1:]
    return _run(fleet, "grep", "^voluntary", f"/proc/{children[0]}/status") if children else ""


def _cpu_s(fleet: Fleet) -> float:
    """Return the CPU seconds of the service and its child, including ended processes."""
    both = _processes(fleet)
    if len(both) != 2:
        raise BenchError(f"{UNIT} of {fleet.name} has the processes {both}, and is to have two")
    ticks = [int(field) for pid in both for field in _run(fleet, "cat", f"/proc/{pid}/stat").rpartition(")")[2].split()[11:15]]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _processes(fleet: Fleet) -> list[str]:
    first = _run(fleet, "systemctl", "show", "--property", "MainPID", "--value", UNIT)
    return [first, *_run(fleet, "cat", f"/proc/{first}/task/{first}/children").split()]


def _run(fleet: Fleet, *words: str) -> str:
    command = ["docker", "exec", fleet.container(NODE), *words]
    return subprocess.run(command, env=fleet.environment, capture_output=True, text=True, check=True).stdout.strip()
