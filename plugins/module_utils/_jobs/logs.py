# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Saves the logs of tasks to files on a manager before swarm or this collection removes the tasks.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import re
import tempfile
import time
from typing import Any, Iterable, Mapping, NamedTuple

from .._errors import GpuSwarmError
from .._files import TEMPORARY, make_directory, naming, sync_directory
from .._swarm import log_stream
from .._swarm.manager import Manager
from .._tasks.tasks import ENDED

DIRECTORY = "/var/lib/gpu-swarm/jobs"
LIMIT_MIB = 1024
# How much space must stay free on the file system: the smaller of the two values. A full disk would stop the manager's dockerd as well.
FREE_MIB, FREE_SHARE = 1024, 0.05
FRESH_S = 60  # the writer of a new file may not have locked the file yet


def path_of(directory: str, service: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """Return the path of a task's log. Unusual characters in the service's name, such as slashes, are replaced."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", service["Spec"]["Name"])[:100]
    return os.path.join(directory, "%s.%s.log" % (name, task["ID"]))


class LogFiles(NamedTuple):
    """Where logs are saved, and the largest size of each log."""

    directory: str
    limit_mib: int = LIMIT_MIB


def save(manager: Manager, service: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], files: LogFiles, ended: bool = True) -> list[str]:
    """Save the logs of all tasks that ran, and return the paths. By default, save only the logs of ended tasks. Existing files are not changed."""
    sweep(files.directory)
    framed = not service["Spec"]["TaskTemplate"].get("ContainerSpec", {}).get("TTY")
    saved = []
    for task in tasks:
        has_container = (task["Status"].get("ContainerStatus") or {}).get("ContainerID")
        is_over = task["Status"]["State"] in ENDED
        if not has_container or (ended and not is_over):
            continue
        path = path_of(files.directory, service, task)
        if not is_over or not os.path.exists(path):
            try:
                _write(path, log_stream.task_output(manager.task_log(task["ID"]), framed), files.limit_mib)
            except (OSError, ValueError, GpuSwarmError) as problem:
                raise GpuSwarmError("its log could not be saved to %s: %s" % (path, getattr(problem, "message", problem))) from problem
        saved.append(path)
    return saved


def _write(path: str, pieces: Iterable[bytes], limit_mib: int) -> None:
    """Write the whole file, or no file. Only this user can read the file."""
    folder = os.path.dirname(path)
    make_directory(folder, 0o700)
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)  # the lock keeps sweep() from removing the file
            size = 0
            for piece in pieces:
                size += len(piece)
                if limit_mib and size > limit_mib << 20:
                    raise ValueError("it has more than %d MiB. Save it yourself, or raise log_limit_mib (0: no limit)" % limit_mib)
                _require_room(folder)
                stream.write(piece)
            stream.flush()
            os.fsync(stream.fileno())
            os.rename(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    sync_directory(folder)


def _require_room(folder: str) -> None:
    disk = os.statvfs(folder)
    required = min(FREE_MIB << 20, int(disk.f_blocks * disk.f_frsize * FREE_SHARE))
    if disk.f_bavail * disk.f_frsize < required:
        raise ValueError("less than %d MiB are free on that disk. Make room there, or set log_directory to another one" % (required >> 20))


def sweep(folder: str) -> None:
    """Remove unfinished logs of killed writers. Such files are not locked."""
    for leftover in glob.glob(glob.escape(os.path.join(folder, TEMPORARY)) + "*"):
        with contextlib.suppress(OSError), open(leftover, "rb", opener=_open_file) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(stream.fileno()).st_mtime > FRESH_S:
                os.unlink(leftover)


def _open_file(path: str, flags: int) -> int:
    """Open the file, but do not block on a pipe and do not follow a link. Other users may be able to write to the directory."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
