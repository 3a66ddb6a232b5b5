# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that only root can change the Python of a service that runs as root. Private to this collection; it may change without notice."""

from __future__ import annotations

import os
import stat
import sys

from .._errors import GpuSwarmError

# On Debian, the group staff can write here. root's PATH contains this directory, so members of staff can replace root's programs anyway.
_OF_GROUP_STAFF = "/usr/local"


def require_own_python(program: str | None = None, environment: str | None = None) -> None:
    """Raise GpuSwarmError if a user other than root can replace the Python of this process, or its environment. Units that run as root use this
    Python."""
    for path in (program or sys.executable, environment or sys.prefix):
        reason = _replaceable(path)
        if reason:
            raise GpuSwarmError(
                "A service that runs as root would use the Python %s, but users other than root can replace it: %s. Nothing was changed. Set "
                "ansible_python_interpreter to a Python that only root can change, such as /usr/bin/python3." % (program or sys.executable, reason)
            )


def _replaceable(path: str) -> str | None:
    """Return the first part of a path that a user other than root can replace, and how they can replace it; None if only root can. Links are
    followed."""
    current, parts, links = "/", os.path.abspath(path).split("/"), 0
    while parts and links < 40:
        current = os.path.normpath(os.path.join(current, parts.pop(0)))
        reason = _write_access_of_others(current)
        if reason:
            return "%s %s" % (current, reason)
        if os.path.islink(current):
            links += 1
            parts = [*os.readlink(current).split("/"), *parts]
            current = "/" if parts[0] == "" else os.path.dirname(current)
    return None


def _write_access_of_others(path: str) -> str | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None  # nothing can start from a path that does not exist
    if status.st_uid not in (0, os.geteuid()):
        return "belongs to user id %d" % status.st_uid
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid()) and os.path.commonpath([path, _OF_GROUP_STAFF]) != _OF_GROUP_STAFF:
        return "can be written by group id %d" % status.st_gid
    return None
