# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, compares and removes the guard's files on a node: its front, its code and its settings.

Every step is a rename or can be repeated. A container that starts meanwhile finds the old files or the new files.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from typing import Iterator

from .. import _files
from .._dockerd.engine import SBIN
from .._files import Move
from .._guard import finding_counts
from .._guard.call import PASS_THROUGH
from .._isolation_levels import OFF
from .._program import code
from .guard_decision import GuardWanted
from .guard_state import FRONT, HOME, GuardState

CODE = code.Code("_guard/check_container.py", compiled=True)
_SETTINGS = "settings.json"
_RUN = "run/gpu-swarm-guard"
_CREATED = "made"  # key in the settings: the directories that were created for the guard
_PROGRAM_MODE = 0o755
_UNTIL_THEY_END = "Until these tasks end, isolation exclusive does not know which GPUs they have"


class Guard:
    """The guard of one node. ``root`` is the root of the machine's files."""

    def __init__(self, move: Move, root: str) -> None:
        self._move = move
        self._root = root
        self.home = os.path.join(root, HOME)
        self._front = os.path.join(self.home, FRONT)

    def inspect(self) -> GuardState:
        if not os.path.lexists(self.home):
            return GuardState(self.home, sys.executable, self._code())
        return GuardState(
            self.home,
            sys.executable,
            self._code(),
            exists=True,
            link=os.path.islink(self._front),
            front=None if os.path.islink(self._front) else _files.Snapshot.take(self._front).data,
            settings=_files.read_mapping(os.path.join(self.home, _SETTINGS)),
            code_is_current=CODE.is_installed(self.home),
            turned_off=os.path.exists(os.path.join(self.home, PASS_THROUGH)),
            findings=finding_counts.read(os.path.join(self._root, _RUN, finding_counts.FILE)),
        )

    def install(self, wanted: GuardWanted) -> None:
        """Install the guard. The front is written last, because it calls all other files."""
        _import_guard()  # this raises an error if the node's Python cannot run the guard
        created = self._make_home()
        if not CODE.is_installed(self.home):
            CODE.install(self.home)
        self.adopt(wanted)  # write the holds first, because these settings apply to the next new task
        text = json.dumps({**wanted.settings, _CREATED: created}, indent=1, sort_keys=True) + "\n"
        self._write(_SETTINGS, text.encode("utf-8"), _files.NEW_FILE_MODE)
        self._put_front(wanted.front)
        # A container that is starting may still need the previous version.
        for old in [*code.versions(self.home, CODE.name())[2:], *code.unfinished_versions(self.home)]:
            _remove(old)

    def adopt(self, wanted: GuardWanted) -> list[str]:
        """Write a hold for each task that started without the guard. Return a warning if some holds cannot be written."""
        if wanted.settings["level"] == OFF:  # OFF reads no holds
            return []
        from .._guard import adopted  # most nodes have no guard

        try:
            unreadable = [container_id[:12] for container_id in adopted.adopt(wanted.settings, os.path.join(self._root, _RUN, "holds"))]
        except (OSError, ValueError) as problem:
            return ["the GPUs of tasks that started before the guard was installed cannot be read: %s. %s" % (problem, _UNTIL_THEY_END)]
        text = "these containers started before the guard of the GPUs was installed, and their GPUs cannot be read: %s. %s"
        return [text % (", ".join(unreadable), _UNTIL_THEY_END)] if unreadable else []

    @contextlib.contextmanager
    def restored_on_failure(self) -> Iterator[None]:
        """Restore the guard's settings and front if the block fails. A new guard remains installed, but no container calls it."""
        settings = _files.Snapshot.take(os.path.join(self.home, _SETTINGS))
        link = os.readlink(self._front) if os.path.islink(self._front) else None
        front = None if link else _files.Snapshot.take(self._front).data
        try:
            yield
        except BaseException:  # atomic_move of ansible-core before 2.19 raises SystemExit
            with contextlib.suppress(OSError):
                self._restore(settings, link, front)
            raise

    def _restore(self, settings: _files.Snapshot, link: str | None, front: bytes | None) -> None:
        if settings.existed:
            _files.restore(settings, self._move)
        if link:
            self._link(link)
        elif front is not None:
            self._put_front(front)

    def remove(self, program: str, in_use: bool) -> None:
        """Remove the guard. While containers still call its path, make the path a link to ``program``. If ``program`` is not installed, keep the
        guard."""
        created = (_files.read_mapping(os.path.join(self.home, _SETTINGS)) or {}).get(_CREATED) or []
        if in_use:
            executable = shutil.which(program, path=SBIN)
            if executable is None:
                return
            self._link(executable)
            for name in os.listdir(self.home):
                if name not in (FRONT, _SETTINGS):
                    _remove(os.path.join(self.home, name))
            return
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(os.path.join(self._root, _RUN), ignore_errors=True)
        for folder in reversed(created):
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)

    def _code(self) -> str:
        return os.path.join(self.home, CODE.name())

    # -- parts -------------------------------------------------------------------------------------------------

    def _make_home(self) -> list[str]:
        """Create the guard's directory. Return the parent directories that this run or an earlier run created."""
        recorded = (_files.read_mapping(os.path.join(self.home, _SETTINGS)) or {}).get(_CREATED)
        parent = os.path.dirname(self.home)
        created = [parent] if not os.path.isdir(parent) else []
        _files.make_directory(self.home, _PROGRAM_MODE)
        created = recorded if isinstance(recorded, list) else created
        for folder in [*filter(os.path.isdir, created), self.home]:  # an earlier release created directories where other users may write
            _files.remove_others_write(folder)
        return created

    def _write(self, name: str, data: bytes, mode: int) -> None:
        _files.write(os.path.join(self.home, name), data, self._move, mode)

    def _put_front(self, data: bytes) -> None:
        """Replace the front atomically, because running containers may call it at any time."""
        new = self._front + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        _files.write(new, data, self._move, _PROGRAM_MODE)
        os.chmod(new, _PROGRAM_MODE)
        os.replace(new, self._front)
        _files.sync_directory(self.home)

    def _link(self, program: str) -> None:
        new = self._front + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        os.symlink(program, new)
        os.replace(new, self._front)


def _import_guard() -> object:
    from .._guard import check_container

    return check_container


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)
