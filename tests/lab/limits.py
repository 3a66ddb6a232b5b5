# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of the kernel that many machines in one run into, raised while a lab is up."""

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
    former: Path  # what it was, shared by all labs of the machine

    def lift(self) -> None:
        if not self.setting.exists():
            return  # this machine is itself a container, whose network has no such limit of its own
        now = self.setting.read_text().strip()
        if int(now) < self.wanted:
            if not self.former.exists():  # else of a lab that was killed
                self.former.write_text(now)
            self.setting.write_text(str(self.wanted))

    def restore(self) -> None:
        if self.former.exists():
            self.setting.write_text(self.former.read_text())
            self.former.unlink()


NEIGHBOURS = Path("/proc/sys/net/ipv4/neigh/default")
LIMITS = [
    # A node's systemd takes about six; 128 by default.
    Limit(Path("/proc/sys/fs/inotify/max_user_instances"), 4096, Path("/run/gpu-swarm-lab.inotify")),
    # Members of a swarm all talk with each other, and one table has the neighbours of all network namespaces: 1024 by default are
    # too few for 36 nodes, and joins time out.
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
    """The last lab restores what was there."""
    with _locked():
        if not in_use():
            for limit in LIMITS:
                limit.restore()
