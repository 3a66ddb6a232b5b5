# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes and removes the file that node_exporter's textfile collector reads.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
import tempfile
import time

from .._errors import GpuSwarmError

NAME = "gpu-swarm.prom"
# The collector reads only files that end with .prom.
_TEMPORARY = ".gpu-swarm.metrics."
_ABANDONED_S = 60
MODE = 0o644  # node_exporter has a user of its own
# The value of the label ``source``: the program that wrote the file.
STATUS, REACTOR = "status", "reactor"
_OF_REACTOR = b',source="%s"} ' % REACTOR.encode("ascii")  # no label's value can contain this text, since its quotes are escaped
_HEAD = 16384  # that text is within these first bytes


def path_in(directory: str) -> str:
    return os.path.join(directory, NAME)


def write(directory: str, text: str) -> str:
    """Write the file and return its path. A reader sees either the old or the new file. Raises GpuSwarmError."""
    path = path_in(directory)
    try:
        _sweep(directory)
        handle, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=directory)
        try:
            with os.fdopen(handle, "wb") as stream:
                os.fchmod(stream.fileno(), MODE)
                stream.write(text.encode("utf-8"))
            # In place of whatever has the name. The directory may be node_exporter's own, and a link that it left there is not followed.
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as problem:
        raise _refused(directory, problem) from problem
    return path


def remove(directory: str) -> bool:
    """Remove the file if the service wrote it, and return whether it did. A file that a run of status wrote stays. Raises GpuSwarmError."""
    try:
        if not _is_of_reactor(path_in(directory)):
            return False
        os.unlink(path_in(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        raise _refused(directory, problem) from problem
    return True


def _is_of_reactor(path: str) -> bool:
    # If the directory is node_exporter's own, anything may have this name.
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        return _OF_REACTOR in stream.read(_HEAD)


def _sweep(directory: str) -> None:
    """Remove temporary files of killed processes, but none that another process is writing."""
    for left in glob.glob(os.path.join(glob.escape(directory), _TEMPORARY + "*")):
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(left).st_mtime > _ABANDONED_S:
                os.unlink(left)


def _refused(directory: str, problem: OSError) -> GpuSwarmError:
    remedy = ""
    if not os.path.isdir(directory):
        remedy = " Create it, or name the one that node_exporter has (--collector.textfile.directory)."
    elif problem.errno == errno.EROFS:
        remedy = " Where the service's unit has changed since the boot, 'systemctl daemon-reload' and a restart of the service put that in force."
    return GpuSwarmError("The metrics could not be written to %s: %s.%s" % (path_in(directory), problem.strerror or problem, remedy))
