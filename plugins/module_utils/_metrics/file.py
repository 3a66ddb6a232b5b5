# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes and removes the file that node_exporter's textfile collector reads.

Private to this collection; it may change without notice.
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
MODE = 0o644  # node_exporter runs as another user
# The value of the label ``source``: the program that wrote the file.
STATUS, REACTOR = "status", "reactor"
_REACTOR_MARK = b',source="%s"} ' % REACTOR.encode("ascii")  # no value of a label can contain this text, since its quotes are escaped
_HEAD_BYTES = 16384  # the mark is within these first bytes


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
            # The rename replaces any file with that name and follows no link. node_exporter may own the directory and may put a link in it.
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as problem:
        raise _write_error(directory, problem) from problem
    return path


def remove(directory: str) -> bool:
    """Remove the file if the service wrote it.

    Return whether the file was removed. A file from a run of the status playbook is kept. Raises GpuSwarmError.
    """
    try:
        if not _is_written_by_service(path_in(directory)):
            return False
        os.unlink(path_in(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        raise _write_error(directory, problem) from problem
    return True


def _is_written_by_service(path: str) -> bool:
    # If node_exporter owns the directory, anything may have this name.
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        return _REACTOR_MARK in stream.read(_HEAD_BYTES)


def _sweep(directory: str) -> None:
    """Remove temporary files of killed processes, but no file that another process is writing."""
    for leftover in glob.glob(os.path.join(glob.escape(directory), _TEMPORARY + "*")):
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(leftover).st_mtime > _ABANDONED_S:
                os.unlink(leftover)


def _write_error(directory: str, problem: OSError) -> GpuSwarmError:
    remedy = ""
    if not os.path.isdir(directory):
        remedy = " Create it, or set the directory that node_exporter reads (--collector.textfile.directory)."
    elif problem.errno == errno.EROFS:
        remedy = " If the service's unit has changed since the boot, run 'systemctl daemon-reload' and restart the service."
    return GpuSwarmError("The metrics could not be written to %s: %s.%s" % (path_in(directory), problem.strerror or problem, remedy))
