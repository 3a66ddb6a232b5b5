# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs and removes the command gpu-swarm for people who are logged in on a manager. It exists while the service exists.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys

from .. import _files
from .._errors import GpuSwarmError
from .._node.manager_state import COMMAND, COMMAND_HOME, COMMAND_MODE, is_open
from .._program.code import CURRENT, NEW, PREFIX, Code

CODE = Code("_command/command.py")
_MARK = b"# Written by the Ansible collection fleet.gpu_swarm"
_TEXT = """\
#!/bin/sh
%s, which overwrites changes. It is removed with gpu-swarm-manager.service.
exec %s -I %s "$@"
"""


class InstalledCommand:
    """The command on a machine with this ``root`` directory."""

    def __init__(self, root: str, move: _files.Move) -> None:
        self._path = os.path.join(root, COMMAND)
        self._home = os.path.join(root, COMMAND_HOME)
        self._move = move

    def require_free(self) -> None:
        """Raise GpuSwarmError if somebody else has a file in the place of the command."""
        taken = [self._path] if os.path.lexists(self._path) and not self._is_own() else []
        taken += [self._home] if os.path.lexists(self._home) and not self._has_own_home() else []
        if taken:
            raise GpuSwarmError(
                "%s is not from this collection, and the command gpu-swarm would overwrite it. Move it away, and run this again. Nothing was changed."
                % taken[0]
            )

    def is_current(self) -> bool:
        current = os.path.join(self._home, CURRENT)
        return CODE.is_current(self._home) and is_open(current) and self._is_own() and _files.Snapshot.take(self._path).data == self._text()

    def install(self) -> None:
        """Install the code, then the file that starts it. The code is compiled, because only root may write compiled files there later."""
        import compileall  # imported here: it is slow to load, and the plan only needs CODE

        _import_command()
        _files.make_directory(self._home)
        CODE.make_current(self._home)
        folder = os.path.join(self._home, CODE.name())
        compileall.compile_dir(folder, quiet=2)
        _open_all(folder)
        _files.remove_leftovers(self._path)
        _files.write(self._path, self._text(), self._move, COMMAND_MODE)

    def remove(self) -> None:
        """Remove the command. Files of somebody else stay."""
        _files.remove_leftovers(self._path)
        if self._is_own():
            os.unlink(self._path)
        if os.path.isdir(self._home) and not os.path.islink(self._home):
            self._remove_code()

    def _remove_code(self) -> None:
        for entry in list(os.scandir(self._home)):
            if not _is_code(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        if not os.listdir(self._home):
            os.rmdir(self._home)

    def _has_own_home(self) -> bool:
        """Return whether the directory of the code is no link, and all directories in it are from this collection. Other files stay there."""
        if os.path.islink(self._home) or not os.path.isdir(self._home):
            return False
        return all(_is_code(entry.name) or not entry.is_dir(follow_symlinks=False) for entry in os.scandir(self._home))

    def _is_own(self) -> bool:
        """Return whether this is a file, not a link, that this collection has written."""
        try:
            return stat.S_ISREG(os.lstat(self._path).st_mode) and _MARK in (_files.Snapshot.take(self._path).data or b"")
        except OSError:
            return False

    def _text(self) -> bytes:
        start = shlex.quote(sys.executable), shlex.quote(os.path.join(self._home, CURRENT))
        return (_TEXT % (_MARK.decode("ascii"), *start)).encode("utf-8")


def _import_command() -> object:
    from .._command import command

    return command


def _open_all(folder: str) -> None:
    """Let everybody read the code, whatever the umask is. ``folder`` itself comes last, because it shows that this is done."""
    for directory, _folders, names in os.walk(folder, topdown=False):
        for name in names:
            os.chmod(os.path.join(directory, name), _files.NEW_FILE_MODE)
        os.chmod(directory, COMMAND_MODE)


def _is_code(name: str) -> bool:
    return name.startswith((PREFIX, NEW, CURRENT))
