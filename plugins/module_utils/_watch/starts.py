# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records which daemon.json dockerd has loaded, if someone other than this collection has started dockerd. A label is only written into a loaded
file.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any, Callable, Mapping, NamedTuple

from .. import _bounded
from .._errors import GpuSwarmError
from .._files import Snapshot
from .._node.loaded import STARTS, process_identity
from .._replace import replace_json
from .written import stamp

LIMIT_S = 5  # how long systemd may take to name dockerd's process (seconds)
# How far the clock may drift between two looks (seconds). If someone has set the clock, times are not compared.
CLOCK_S = 0.05
# The resolution of a file's time and of a process's start: the kernel's tick.
TICKS_S = 0.1


class Look(NamedTuple):
    """The state at one moment."""

    process: Mapping[str, Any] | None  # the running dockerd
    sha256: str | None  # the digest of daemon.json
    untouched: bool  # whether the file looks unchanged since the last look
    before_start: bool  # whether the file was written before the process started
    noted: Mapping[str, Any]  # this collection's own note of the last load


def next_record(earlier: Mapping[str, Any], look: Look) -> dict[str, Any]:
    """Return the process, the digest of the file that the process has loaded, and the digest of the present file (pure). The first digest may be
    None."""
    loaded = earlier.get("sha256")
    if look.process and look.noted.get("process") == look.process and look.noted.get("sha256") == look.sha256:
        loaded = look.sha256
    elif look.process != earlier.get("process"):
        is_same_file = look.untouched and look.sha256 is not None and earlier.get("seen") == look.sha256
        loaded = look.sha256 if look.process and (is_same_file or look.before_start) else None
    return {"process": look.process, "sha256": loaded, "seen": look.sha256}


def time_of_boot() -> float:
    """Return the time of the boot, by the node's present clock."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


class Starts:
    """The starts of dockerd on one node. ``home`` is the watcher's directory."""

    def __init__(self, home: str, settings: Mapping[str, Any], boot: Callable[[], float] = time_of_boot) -> None:
        self._boot = boot
        self._path = os.path.join(os.path.dirname(home), STARTS)
        self._settings = settings
        self._known: Mapping[str, Any] = _read(self._path)
        self._kept = self._known
        self._pid = 0
        self._file: object = None
        self._sha256: str | None = None
        self._clock: float | None = None

    def look(self, noted: Mapping[str, Any]) -> None:
        """Look once. If a file cannot be read, the next look tries again."""
        with contextlib.suppress(OSError, ValueError, GpuSwarmError):
            self._known = next_record(self._known, self._look(noted))
            if self._known != self._kept:
                replace_json(self._path, self._known)
                self._kept = self._known

    def _look(self, noted: Mapping[str, Any]) -> Look:
        process, path = self._process(), self._settings["daemon_config"]
        now, clock = stamp(path), self._boot()
        same_clock = self._clock is not None and abs(clock - self._clock) < CLOCK_S
        untouched, self._clock = self._file is None or now == self._file, clock
        if now != self._file:
            self._file, self._sha256 = now, Snapshot.take(path).sha256
        return Look(process, self._sha256, untouched, bool(process and same_clock and _is_before(path, process, clock)), noted)

    def _process(self) -> dict[str, Any] | None:
        """Return the running dockerd's process. systemd is only queried if the last known process is gone."""
        process = process_identity(self._pid)
        if process is None or process != self._known.get("process"):
            argv = ["systemctl", "show", "--property", "MainPID", self._settings["docker_unit"]]
            number = _bounded.run(argv, LIMIT_S)[1].strip().partition("=")[2]
            self._pid = int(number) if number.isdigit() else 0
            process = process_identity(self._pid)
        return process


def _is_before(path: str, process: Mapping[str, Any], clock: float) -> bool:
    """Return whether the file last changed before the process started. Use the time of the inode's last change, because a copy can keep the file's
    modification time."""
    return os.stat(path).st_ctime + TICKS_S < clock + process["tick"] / os.sysconf("SC_CLK_TCK")


def _read(path: str) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as stream:
        record = json.load(stream)
        return record if isinstance(record, dict) else {}
    return {}
