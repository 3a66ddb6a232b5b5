# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Python of a service that runs as root. Private to this collection: no stability is promised to others."""

from __future__ import annotations

import os
import stat
import sys

from .._errors import GpuSwarmError

# On Debian the group staff can write here. It is in root's path, so members can replace what root runs anyway.
_OF_STAFF = "/usr/local"


def require_own_python(program: str | None = None, environment: str | None = None) -> None:
    """Raise GpuSwarmError if anybody but root can replace the Python of this process, or its environment. Units that run as root use it."""
    for path in (program or sys.executable, environment or sys.prefix):
        why = _replaceable(path)
        if why:
            raise GpuSwarmError(
                "A service of root would be started with the Python %s, which users other than root can replace: %s. Nothing was changed. Set "
                "ansible_python_interpreter to a Python that only root can change, such as /usr/bin/python3." % (program or sys.executable, why)
            )


def _replaceable(path: str) -> str | None:
    """The first part of a path that somebody else can replace, and how. Links are followed."""
    at, parts, links = "/", os.path.abspath(path).split("/"), 0
    while parts and links < 40:
        at = os.path.normpath(os.path.join(at, parts.pop(0)))
        why = _who_else(at)
        if why:
            return "%s %s" % (at, why)
        if os.path.islink(at):
            links += 1
            parts = [*os.readlink(at).split("/"), *parts]
            at = "/" if parts[0] == "" else os.path.dirname(at)
    return None


def _who_else(path: str) -> str | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None  # then nothing is started with it either
    if status.st_uid not in (0, os.geteuid()):
        return "belongs to user id %d" % status.st_uid
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return None
    if status.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid()) and os.path.commonpath([path, _OF_STAFF]) != _OF_STAFF:
        return "can be written by group id %d" % status.st_gid
    return None
