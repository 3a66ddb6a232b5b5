# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the container, the user and the name of a process.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
import time
from typing import Callable, NamedTuple, Sequence

from .. import _bounded
from .._errors import GpuSwarmError
from .._health.allocation_findings import short_text

# The names of Docker's cgroups: docker-<id>.scope if systemd creates them, <id> if dockerd creates them. Other runtimes use other names (libpod-…,
# cri-containerd-…).
_CONTAINER = re.compile(r"(?:docker-)?([0-9a-f]{64})(?:\.scope)?")
_UID = re.compile(rb"^Uid:\s+(\d+)", re.MULTILINE)
_STARTED = 22 - 3  # index of the start in /proc/<pid>/stat, counted after the name in parentheses
_SHORT = 1 << 14
_GETENT_S = 5
_USERS = 200
# A look-up is slow if it queries a remote directory. Look-ups may take at most this share of the time.
_FAST_S, _SHARE = 0.1, 0.05


class Process(NamedTuple):
    """A process."""

    started: bytes  # in the kernel's ticks since the boot
    containers: Sequence[str]  # the containers in the process's cgroup, the outermost first
    uid: int
    name: str


def containers(cgroup: str) -> list[str]:
    """Return the ids of containers in a file /proc/<pid>/cgroup, the outermost first. Works for both versions of cgroups and both drivers (pure)."""
    ids: dict[str, None] = {}
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        ids.update(dict.fromkeys(match.group(1) for match in map(_CONTAINER.fullmatch, path.split("/")) if match))
    return list(ids)


def read(pid: int, root: str = "/proc") -> Process | None:
    """Return a process. None if it has ended, or if another process has its id now."""
    try:
        before = _stat(pid, root)
        cgroup = _file("%s/%d/cgroup" % (root, pid)).decode("utf-8", "replace")
        owner = _UID.search(_file("%s/%d/status" % (root, pid)))
        after = _stat(pid, root)
    except OSError:
        return None
    if before is None or owner is None or after is None or before[1] != after[1]:
        return None
    return Process(after[1], containers(cgroup), int(owner.group(1)), short_text(after[0].decode("utf-8", "replace")))


def _stat(pid: int, root: str) -> tuple[bytes, bytes] | None:
    """Return (name, start). The name may contain parentheses."""
    head, parenthesis, after_name = _file("%s/%d/stat" % (root, pid)).rpartition(b")")
    fields = after_name.split()
    return (head.partition(b"(")[2], fields[_STARTED]) if parenthesis and len(fields) > _STARTED else None


def _file(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(_SHORT)


class Users:
    """Looks up each user's name once. The look-up runs in another process, because a user directory that does not answer would block this process."""

    def __init__(self, run: Callable[..., tuple[int, str, str]] = _bounded.run, clock: Callable[[], float] = time.monotonic) -> None:
        self._run = run
        self._clock = clock
        self._known: dict[int, str] = {}
        self._next = 0.0  # no look-up before this time

    def name(self, uid: int) -> str:
        """Return the user's name, or the number while the directory is slow: systemd ends a watcher that is silent for three minutes."""
        number = "user %d" % uid
        if uid in self._known:
            return self._known[uid]
        began = self._clock()
        if began < self._next:
            return number
        try:
            name = self._look_up(uid) or number
        except GpuSwarmError:  # the look-up took too long
            return number
        finally:
            took = self._clock() - began
            self._next = began + took / _SHARE if took > _FAST_S else 0.0
        if len(self._known) >= _USERS:
            self._known.clear()
        self._known[uid] = short_text(name)
        return self._known[uid]

    def _look_up(self, uid: int) -> str:
        rc, out, dummy = self._run(["getent", "passwd", str(uid)], _GETENT_S)
        return out.partition(":")[0] if rc == 0 else ""
