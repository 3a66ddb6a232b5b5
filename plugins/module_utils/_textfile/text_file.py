# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes and removes a file that node_exporter's textfile collector reads.

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

# The collector reads only files that end with .prom.
_TEMPORARY = ".gpu-swarm.metrics."
_ABANDONED_S = 60
MODE = 0o644  # node_exporter runs as another user
_HEAD_BYTES = 16384  # a mark is within these first bytes


def write(directory: str, name: str, text: str) -> str:
    """Write the file and return its path. A reader sees either the old or the new file. Raises GpuSwarmError."""
    path = os.path.join(directory, name)
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
        raise _write_error(path, problem) from problem
    return path


def remove(directory: str, name: str, mark: bytes) -> bool:
    """Remove the file if it contains the mark near its beginning. Return whether the file was removed. Raises GpuSwarmError."""
    path = os.path.join(directory, name)
    try:
        if not _contains(path, mark):
            return False
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        raise _write_error(path, problem) from problem
    return True


def _contains(path: str, mark: bytes) -> bool:
    # If node_exporter owns the directory, anything may have this name.
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        return mark in stream.read(_HEAD_BYTES)


def _sweep(directory: str) -> None:
    """Remove temporary files of killed processes, but no file that another process is writing."""
    for leftover in glob.glob(os.path.join(glob.escape(directory), _TEMPORARY + "*")):
        with contextlib.suppress(OSError):
            if time.time() - os.lstat(leftover).st_mtime > _ABANDONED_S:
                os.unlink(leftover)


def _write_error(path: str, problem: OSError) -> GpuSwarmError:
    remedy = ""
    if not os.path.isdir(os.path.dirname(path)):
        remedy = " Create it, or set the directory that node_exporter reads (--collector.textfile.directory)."
    elif problem.errno == errno.EROFS:
        remedy = (
            " Restart the service. If its unit has changed since the boot, first run 'systemctl daemon-reload', on a node with GPUs only in a "
            "maintenance window, or reboot."
        )
    return GpuSwarmError("The metrics could not be written to %s: %s.%s" % (path, problem.strerror or problem, remedy))
