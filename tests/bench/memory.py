# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the peak memory and the CPU of a separate process, from the kernel.

A small process starts the measured one, because getrusage includes the parent's memory at the fork.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.lab.lab import CHECKOUT

# The small parent of a command.
PARENT = """
import os, subprocess, sys
with open(sys.argv[1], "wb") as log:
    process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    _pid, status, used = os.wait4(process.pid, 0)
    print(os.waitstatus_to_exitcode(status), used.ru_maxrss, used.ru_utime + used.ru_stime, flush=True)
    os._exit(0)  # it has been waited for
"""


class Used(NamedTuple):
    """CPU of a command and all of its children, and the largest memory of one of these processes."""

    status: int
    peak_mib: float
    cpu: float  # seconds


def used_by(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Used:
    words = [sys.executable, "-IS", "-c", PARENT, str(log), *command]
    done = subprocess.run(words, cwd=CHECKOUT, env=dict(environment), check=True, capture_output=True, text=True)
    status, peak, cpu = done.stdout.split()
    return Used(int(status), int(peak) / 1024, float(cpu))


def peak_mib(module: str, *arguments: str) -> float:
    """Return the peak memory of ``python -m module arguments``, which calls print_peak_at_exit()."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return int(done.stderr.split()[-1]) / 1024


def print_peak_at_exit() -> None:
    atexit.register(_print_peak)


def _print_peak() -> None:
    with open("/proc/self/status", encoding="ascii") as status:
        print(next(line for line in status if line.startswith("VmHWM")).split()[1], file=sys.stderr)
