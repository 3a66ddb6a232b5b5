# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The most memory that a process of its own used, as the kernel reports it there at the end.

Not from its parent: what getrusage reports includes the parent's memory at the fork.
"""

from __future__ import annotations

import atexit
import subprocess
import sys

from tests.lab.lab import CHECKOUT


def peak_mib(module: str, *arguments: str) -> float:
    """Of ``python -m module arguments``, which calls print_peak_at_exit()."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    return int(done.stderr.split()[-1]) / 1024


def print_peak_at_exit() -> None:
    atexit.register(_print_peak)


def _print_peak() -> None:
    with open("/proc/self/status", encoding="ascii") as status:
        print(next(line for line in status if line.startswith("VmHWM")).split()[1], file=sys.stderr)
