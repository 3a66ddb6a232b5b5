# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes directories below the state directory that people without root may enter: those of group docker, who may use Docker's socket anyway.

Everything else in the state directory stays closed, because it contains the originals of configuration files with passwords.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
from typing import Iterable

from .. import _files

GROUP = "docker"
# New files in a directory with the setgid bit get its group. The service may not change the group of a file by itself.
OF_GROUP, OF_ROOT = 0o2750, 0o700
_FILES_OF_GROUP, _FILES_OF_ROOT = 0o640, 0o600
# Others may pass through the state directory, and may not list it.
_PASSABLE, _CLOSED = 0o711, 0o700
_OF_OTHERS = 0o077


def group_id() -> int | None:
    """Return the id of the group docker; None if this machine has no such group."""
    with contextlib.suppress(KeyError):
        return grp.getgrnam(GROUP).gr_gid
    return None


def is_shared(directory: str) -> bool:
    """Return whether people without root may enter this directory."""
    return bool(os.stat(directory).st_mode & stat.S_IXGRP)


class SharedDirectories:
    """The directories ``names`` in ``state_dir``. Without a group, only root may enter them."""

    def __init__(self, state_dir: str, names: Iterable[str], group: int | None) -> None:
        self._state_dir = state_dir
        self._names = sorted(names)
        self._group = group

    def are_current(self) -> bool:
        """Return whether the directories exist with these permissions, and everything else is closed."""
        if _mode(self._state_dir) != self._wanted_mode() and (self._names or _mode(self._state_dir) is not None):
            return False
        return all(self._is_current(name) for name in self._names) and not any(self._open_entries())

    def converge(self) -> None:
        """Make the directories. First close everything else, then let people pass through the state directory."""
        if not self._names and _mode(self._state_dir) is None:
            return
        _files.make_directory(self._state_dir, _CLOSED)
        for path in self._open_entries():
            os.chmod(path, _mode(path) & ~_OF_OTHERS)
        for name in self._names:
            self._make(os.path.join(self._state_dir, name))
        os.chmod(self._state_dir, self._wanted_mode())

    def _wanted_mode(self) -> int:
        return _CLOSED if self._group is None or not self._names else _PASSABLE

    def _is_current(self, name: str) -> bool:
        path = os.path.join(self._state_dir, name)
        if _mode(path) != (OF_ROOT if self._group is None else OF_GROUP):
            return False
        return self._group is None or os.lstat(path).st_gid == self._group

    def _make(self, path: str) -> None:
        """Give the directory and its files to the group. They may be from a time when this machine had no such group."""
        _files.make_directory(path, OF_ROOT)
        for entry in [path, *(item.path for item in os.scandir(path) if item.is_file(follow_symlinks=False))]:
            if self._group is not None and os.lstat(entry).st_gid != self._group:
                os.chown(entry, -1, self._group)
            if entry != path:
                os.chmod(entry, _FILES_OF_ROOT if self._group is None else _FILES_OF_GROUP)
        os.chmod(path, OF_ROOT if self._group is None else OF_GROUP)

    def _open_entries(self) -> list[str]:
        """Return the other entries of the state directory that are not closed. A link has no permissions of its own."""
        if not os.path.isdir(self._state_dir):
            return []
        entries = (item for item in os.scandir(self._state_dir) if item.name not in self._names and not item.is_symlink())
        return [item.path for item in entries if item.stat(follow_symlinks=False).st_mode & _OF_OTHERS]


def _mode(path: str) -> int | None:
    """Return the permissions of a directory; None if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode)
