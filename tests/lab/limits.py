# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Raises limits of the kernel while a lab is up, because many nodes on one machine reach them."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limit:
    setting: Path
    wanted: int
    former: Path  # the file with the former value; all labs of the machine share it

    def lift(self) -> None:
        if not self.setting.exists():
            return  # this machine is a container, whose network has no such limit
        now = self.setting.read_text().strip()
        if int(now) < self.wanted:
            if not self.former.exists():  # an existing file comes from another lab, or from a killed lab
                self.former.write_text(now)
            self.setting.write_text(str(self.wanted))

    def restore(self) -> None:
        if self.former.exists():
            self.setting.write_text(self.former.read_text())
            self.former.unlink()


NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default")
LIMITS = [
    # The systemd of each node uses about six instances. The default is 128.
    Limit(Path("/proc/sys/fs/inotify/max_user_instances"), 4096, Path("/run/gpu-swarm-lab.inotify")),
    # All members of a swarm talk with each other, and the kernel has one table for the neighbours of all network namespaces. The default of 1024 is
    # too small for 36 nodes: joins time out.
    Limit(NEIGHBOURS / "gc_thresh2", 16384, Path("/run/gpu-swarm-lab.gc_thresh2")),
    Limit(NEIGHBOURS / "gc_thresh3", 32768, Path("/run/gpu-swarm-lab.gc_thresh3")),
]


@contextmanager
def _locked() -> Iterator[None]:
    with open(LIMITS[0].setting, encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def lift() -> None:
    with _locked():
        for limit in LIMITS:
            limit.lift()


def restore(in_use: Callable[[], bool]) -> None:
    """Restore the former values, unless a lab is still in use."""
    with _locked():
        if not in_use():
            for limit in LIMITS:
                limit.restore()
