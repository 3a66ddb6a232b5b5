# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes directories below the state directory that people without root may enter.

The record is for those of group docker, who may use Docker's socket anyway. The page is for everybody, because a web server of any user may serve it.

Everything else in the state directory stays closed, because it contains the originals of configuration files with passwords.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import grp
import os
import stat
from typing import Mapping, NamedTuple

from .. import _files

GROUP = "docker"


class _Access(NamedTuple):
    """The permissions of a directory, and of the files in it."""

    directory: int
    files: int
    has_group: bool = False


# New files in a directory with the setgid bit get its group. The service may not change the group of a file by itself.
_OF_GROUP, _OF_ROOT, _OF_ALL = _Access(0o2750, 0o640, True), _Access(0o700, 0o600), _Access(0o755, 0o644)
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
    """``directories`` are {name: whether it is for everybody}. The others are for the group, or for root if there is no group."""

    def __init__(self, state_dir: str, directories: Mapping[str, bool], group: int | None) -> None:
        self._state_dir = state_dir
        of_group = _OF_ROOT if group is None else _OF_GROUP
        self._directories = {name: _OF_ALL if for_everybody else of_group for name, for_everybody in sorted(directories.items())}
        self._group = group

    def are_current(self) -> bool:
        """Return whether the directories exist with these permissions, and everything else is closed."""
        mode = _mode(self._state_dir)
        if mode is None:
            return not self._directories
        return mode == self._wanted_mode() and all(map(self._is_current, self._directories)) and not self._open_entries()

    def converge(self) -> None:
        """Make the directories. First close everything else, then let people pass through the state directory."""
        if not self._directories and _mode(self._state_dir) is None:
            return
        _files.make_directory(self._state_dir, _CLOSED)
        for path in self._open_entries():
            os.chmod(path, stat.S_IMODE(os.lstat(path).st_mode) & ~_OF_OTHERS)
        for name in self._directories:
            self._make(name)
        os.chmod(self._state_dir, self._wanted_mode())

    def _wanted_mode(self) -> int:
        return _CLOSED if all(access == _OF_ROOT for access in self._directories.values()) else _PASSABLE

    def _is_current(self, name: str) -> bool:
        path, access = os.path.join(self._state_dir, name), self._directories[name]
        return _mode(path) == access.directory and (not access.has_group or os.lstat(path).st_gid == self._group)

    def _make(self, name: str) -> None:
        """Make the directory, and set the permissions of its files. They may be from a time when this machine had no group docker."""
        path, access = os.path.join(self._state_dir, name), self._directories[name]
        _files.make_directory(path, _CLOSED)
        files = [entry.path for entry in os.scandir(path) if entry.is_file(follow_symlinks=False)]
        if access.has_group and self._group is not None:
            for entry in (path, *files):
                os.chown(entry, -1, self._group)
        for entry in files:
            os.chmod(entry, access.files)
        os.chmod(path, access.directory)

    def _open_entries(self) -> list[str]:
        """Return the other entries of the state directory that are not closed. A link has no permissions of its own."""
        entries = (entry for entry in os.scandir(self._state_dir) if entry.name not in self._directories and not entry.is_symlink())
        return [entry.path for entry in entries if entry.stat(follow_symlinks=False).st_mode & _OF_OTHERS]


def _mode(path: str) -> int | None:
    """Return the permissions of a directory; None if it does not exist."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode)
