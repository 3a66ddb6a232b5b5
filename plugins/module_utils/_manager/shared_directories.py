# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes directories below the state directory that people of group docker may enter. They may use Docker's socket anyway.

Everything else in the state directory stays closed, because it contains the originals of configuration files with passwords.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import stat
from typing import Iterable, NamedTuple

from .. import _files
from .._errors import GpuSwarmError
from .._replace import replace_text

GROUP = "docker"


class _Access(NamedTuple):
    """The permissions of a directory, and of the files in it."""

    directory: int
    files: int


# New files in a directory with the setgid bit get its group. The service may not change the group of a file by itself.
_OF_GROUP, _OF_ROOT = _Access(0o2750, 0o640), _Access(0o700, 0o600)
# Others may pass through the state directory, and may not list it.
_PASSABLE, _CLOSED = 0o711, 0o700
_OF_OTHERS = 0o077
_REMEDIES = {
    errno.ENOENT: " Run fleet.gpu_swarm.provision, which makes the directory.",
    errno.ENOSPC: " Free space on the disk.",
    errno.EROFS: " If the service's unit has changed since the boot, run 'systemctl daemon-reload' and restart the service, on a node with GPUs only "
    "in a maintenance window. Or reboot.",
}


def group_id() -> int | None:
    """Return the id of the group docker; None if this machine has no such group."""
    with contextlib.suppress(KeyError):
        return grp.getgrnam(GROUP).gr_gid
    return None


def is_shared(directory: str) -> bool:
    """Return whether people without root may enter this directory."""
    return bool(os.stat(directory).st_mode & stat.S_IXGRP)


def write_file(directory: str, name: str, text: str) -> None:
    """Write a file into such a directory. A reader sees the old or the new file. Raises GpuSwarmError."""
    path = os.path.join(directory, name)
    try:
        replace_text(path, text, _OF_GROUP.files)
    except OSError as problem:
        raise GpuSwarmError("%s could not be written: %s.%s" % (path, problem.strerror, _REMEDIES.get(problem.errno, ""))) from problem


class SharedDirectories:
    """The directories ``names`` in ``state_dir``. Without a group, only root may enter them."""

    def __init__(self, state_dir: str, names: Iterable[str], group: int | None) -> None:
        self._state_dir = state_dir
        self._names = sorted(names)
        self._group = group
        self._access = _OF_ROOT if group is None else _OF_GROUP

    def are_current(self) -> bool:
        """Return whether the directories exist with these permissions, and everything else is closed."""
        mode = _mode(self._state_dir)
        if mode is None:
            return not self._names
        return mode == self._wanted_mode() and all(map(self._is_current, self._names)) and not self._open_entries()

    def converge(self) -> None:
        """Make the directories. First close everything else, then let people pass through the state directory."""
        if not self._names and _mode(self._state_dir) is None:
            return
        _files.make_directory(self._state_dir, _CLOSED)
        for path in self._open_entries():
            os.chmod(path, stat.S_IMODE(os.lstat(path).st_mode) & ~_OF_OTHERS)
        for name in self._names:
            self._make(os.path.join(self._state_dir, name))
        os.chmod(self._state_dir, self._wanted_mode())

    def _wanted_mode(self) -> int:
        return _PASSABLE if self._names and self._group is not None else _CLOSED

    def _is_current(self, name: str) -> bool:
        path = os.path.join(self._state_dir, name)
        return _mode(path) == self._access.directory and (self._group is None or os.stat(path).st_gid == self._group)

    def _make(self, path: str) -> None:
        """Make the directory, and set the permissions of its files. They may be from a time when this machine had no group docker."""
        _files.make_directory(path, _CLOSED)
        files = [entry.path for entry in os.scandir(path) if entry.is_file(follow_symlinks=False)]
        if self._group is not None:
            for entry in (path, *files):
                os.chown(entry, -1, self._group)
        for entry in files:
            os.chmod(entry, self._access.files)
        os.chmod(path, self._access.directory)

    def _open_entries(self) -> list[str]:
        """Return the other entries of the state directory that are not closed. A link has no permissions of its own."""
        entries = (entry for entry in os.scandir(self._state_dir) if entry.name not in self._names and not entry.is_symlink())
        return [entry.path for entry in entries if entry.stat(follow_symlinks=False).st_mode & _OF_OTHERS]


def _mode(path: str) -> int | None:
    """Return the permissions of a directory; None if it does not exist. Links are followed, because the directory may be on another disk."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode)
