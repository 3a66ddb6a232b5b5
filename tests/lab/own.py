# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate lab for one run of tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .lab import CHECKOUT, Lab


@contextmanager
def own_lab(use: str) -> Iterator[None]:
    """Start a separate lab. The fleets of the user's lab stay up. Remove the separate lab at the end, also after a failed or stopped test."""
    root = Lab.from_environment().root
    os.environ["GPU_SWARM_LAB_ROOT"] = str(root.with_name(f"{root.name}-{use}"))
    signal.signal(signal.SIGTERM, lambda *_signal: sys.exit(1))
    try:
        yield
    finally:
        subprocess.run([sys.executable, "-m", "tests.lab", "down", "--all"], cwd=CHECKOUT, check=True)
