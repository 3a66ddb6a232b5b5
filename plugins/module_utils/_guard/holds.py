# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records which container holds which device. Each container has one file, which is written under a lock. No service has to run.

A file is valid as long as the process that wrote the file lives. This process becomes NVIDIA's runtime and then runc or crun, with the same process
id. Afterwards, the file is valid as long as the container's first process lives. The state files of runc and crun name this process. A process is
identified by its id and its start time. So no file blocks a device after a kill or a reboot.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections import namedtuple

from .._replace import replace_json

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

_POLL_S = 0.1
_RUNNING_TASK_S = 1.0  # how long to wait for a task that swarm does not stop (seconds)
_STARTED = 22 - 3  # index of the start in /proc/<pid>/stat, counted after the name in parentheses
# The state files of runc and crun (libcontainer/container_linux.go; src/libcrun/status.c), and their keys for the first process and its start.
_STATES = (("state.json", "init_process_pid", "init_process_start"), ("status", "pid", "process-start-time"))


# The devices that one container holds. pid: the process that creates it, or its first process if it started without the guard. started: when that
# process started, in the kernel's ticks. root: the directory of runc's or crun's state, empty if unknown.
Hold = namedtuple("Hold", ["container", "service", "task", "devices", "pid", "started", "root"])


def claim(
    folder: str,
    own_hold: Hold,
    patience_s: float,
    keeps_running: Callable[[Hold], bool] = lambda dummy: False,
    wait: Callable[[float], Any] = time.sleep,
) -> Hold | None:
    """Hold these devices. If another task still holds one of the devices after ``patience_s``, return the hold of that task. A task that is stopping
    may need this time.

    If swarm wants the holder to keep running (``keeps_running``), do not wait so long: swarm has assigned a device twice and can try another node.
    """
    start = time.monotonic()
    while True:
        with _locked(folder):
            holder = _holder(folder, own_hold)
            if holder is None:
                _write(folder, own_hold)
                return None
        waited = time.monotonic() - start
        if waited >= patience_s or (waited >= _RUNNING_TASK_S and keeps_running(holder)):
            return holder
        wait(_POLL_S)


def share(folder: str, own_hold: Hold) -> Hold | None:
    """Hold these devices even if another container already holds them. Return the hold of the other container."""
    with _locked(folder):
        holder = _holder(folder, own_hold)
        _write(folder, own_hold)
        return holder


def adopt(folder: str, new_holds: list[Hold]) -> None:
    """Write these holds for containers that have no hold yet."""
    with _locked(folder):
        holding = {hold.container for hold in _living_holds(folder)}
        for hold in new_holds:
            if hold.container not in holding:
                _write(folder, hold)


def _holder(folder: str, own_hold: Hold) -> Hold | None:
    others = [hold for hold in _living_holds(folder) if hold.container != own_hold.container]
    return next((hold for hold in others if set(hold.devices) & set(own_hold.devices)), None)


def started(pid: int) -> int | None:
    """Return when a process started; None if it has ended or is a zombie."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[_STARTED])


def _living_holds(folder: str) -> list[Hold]:
    """Return the holds of living containers, and remove the files of all others."""
    living = []
    for name in os.listdir(folder):
        if name.startswith("."):
            continue
        hold = _read(os.path.join(folder, name))
        if hold and _is_alive(hold):
            living.append(hold)
        else:
            os.unlink(os.path.join(folder, name))
    return living


def _is_alive(hold: Hold) -> bool:
    if started(hold.pid) == hold.started:
        return True
    return bool(hold.root) and any(_first_process_is_alive(os.path.join(hold.root, hold.container), *state) for state in _STATES)


def _first_process_is_alive(folder: str, name: str, process: str, start: str) -> bool:
    """Return whether the first process in this state file is alive."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as stream:
            state = json.load(stream)
        return started(int(state[process])) == int(state[start])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read(path: str) -> Hold | None:
    try:
        with open(path, encoding="utf-8") as stream:
            return Hold(**json.load(stream))
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: str, hold: Hold) -> None:
    replace_json(os.path.join(folder, hold.container), hold._asdict())


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    for directory in (os.path.dirname(folder), folder):  # one by one, because makedirs applies the mode only to the last directory
        os.makedirs(directory, 0o700, exist_ok=True)
    with open(os.path.join(folder, ".lock"), "w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
