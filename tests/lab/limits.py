# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One limit of the kernel that many systemds in one machine run into, raised while a lab is up."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SETTING = Path("/proc/sys/fs/inotify/max_user_instances")  # 128 by default; a node takes about six
WANTED = 4096
FORMER = Path("/run/gpu-swarm-lab.inotify")  # what it was, shared by all labs of the machine


@contextmanager
def _locked() -> Iterator[None]:
    with open(SETTING, encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lift() -> None:
    with _locked():
        now = SETTING.read_text().strip()
        if int(now) < WANTED:
            FORMER.write_text(now)
            SETTING.write_text(str(WANTED))


def restore(in_use: Callable[[], bool]) -> None:
    """The last lab puts back what was there."""
    with _locked():
        if FORMER.exists() and not in_use():
            SETTING.write_text(FORMER.read_text())
            FORMER.unlink()
