# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tasks have printed, kept in files on a manager before swarm or this collection removes them.

Private to this collection: no stability is promised to others.
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
# How much of the file system stays free. A full disk would stop the manager's dockerd as well.
FREE_MIB, FREE_SHARE = 1024, 0.05  # the smaller of the two counts
FRESH_S = 60  # a file that was made just now may not be locked yet


def path_of(directory: str, service: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """Whoever makes a service may name it as he likes, but for a slash; the id is swarm's."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", service["Spec"]["Name"])[:100]
    return os.path.join(directory, "%s.%s.log" % (name, task["ID"]))


class Kept(NamedTuple):
    """Where logs are kept, and how much of each."""

    directory: str
    limit_mib: int = LIMIT_MIB


def save(manager: Manager, service: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], kept: Kept, ended: bool = True) -> list[str]:
    """The files with the logs of all tasks that ever ran and, unless ``ended`` is False, are over. What is there already is left as it is."""
    sweep(kept.directory)
    framed = not service["Spec"]["TaskTemplate"].get("ContainerSpec", {}).get("TTY")
    saved = []
    for task in tasks:
        ran = (task["Status"].get("ContainerStatus") or {}).get("ContainerID")
        over = task["Status"]["State"] in ENDED
        if not ran or (ended and not over):
            continue
        path = path_of(kept.directory, service, task)
        if not over or not os.path.exists(path):
            try:
                _write(path, log_stream.printed(manager.task_log(task["ID"]), framed), kept.limit_mib)
            except (OSError, ValueError, GpuSwarmError) as problem:
                raise GpuSwarmError("its log could not be saved to %s: %s" % (path, getattr(problem, "message", problem))) from problem
        saved.append(path)
    return saved


def _write(path: str, pieces: Iterable[bytes], limit_mib: int) -> None:
    """All of it or nothing, for nobody else to read."""
    folder = os.path.dirname(path)
    make_directory(folder, 0o700)
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
    try:
        with naming(path), os.fdopen(handle, "wb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)  # for sweep
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
    now = os.statvfs(folder)
    floor = min(FREE_MIB << 20, int(now.f_blocks * now.f_frsize * FREE_SHARE))
    if now.f_bavail * now.f_frsize < floor:
        raise ValueError("less than %d MiB are free on that disk. Make room there, or set log_directory to another one" % (floor >> 20))


def sweep(folder: str) -> None:
    """Remove unfinished logs whose writer was killed: nobody has them locked."""
    for left in glob.glob(glob.escape(os.path.join(folder, TEMPORARY)) + "*"):
        with contextlib.suppress(OSError), open(left, "rb", opener=_open_file) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(stream.fileno()).st_mtime > FRESH_S:
                os.unlink(left)


def _open_file(path: str, flags: int) -> int:
    """Others may write to a directory of your choice: a pipe holds nothing up, and no link is followed."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
