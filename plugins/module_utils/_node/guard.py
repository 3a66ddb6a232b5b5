# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard's files on a node: its front, its code and its settings, put there, compared and removed.

Every step is a rename or can be done twice. A container that starts at that moment finds the files of before or those of after.
Private to this collection: no stability is promised to others.
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
from .guard_seen import FRONT, HOME, GuardSeen

CODE = code.Code("_guard/check_container.py", compiled=True)
_SETTINGS = "settings.json"
_RUN = "run/gpu-swarm-guard"
_MADE = "made"  # among the settings: the directories that were made for it
_PROGRAM = 0o755
_UNTIL = "Until they end, isolation exclusive does not know that they have a GPU"


class Guard:
    """That of one node; ``root`` is where its files lie."""

    def __init__(self, move: Move, root: str) -> None:
        self._move = move
        self._root = root
        self.home = os.path.join(root, HOME)
        self._front = os.path.join(self.home, FRONT)

    def inspect(self) -> GuardSeen:
        if not os.path.lexists(self.home):
            return GuardSeen(self.home, sys.executable, self._code())
        return GuardSeen(
            self.home,
            sys.executable,
            self._code(),
            there=True,
            link=os.path.islink(self._front),
            front=None if os.path.islink(self._front) else _files.Snapshot.take(self._front).data,
            settings=_files.read_mapping(os.path.join(self.home, _SETTINGS)),
            code_is_current=CODE.is_kept(self.home),
            turned_off=os.path.exists(os.path.join(self.home, PASS_THROUGH)),
            found=finding_counts.read(os.path.join(self._root, _RUN, finding_counts.FILE)),
        )

    def install(self, wanted: GuardWanted) -> None:
        """The front comes last: what it calls is there by then."""
        _load()
        made = self._make_home()
        if not CODE.is_kept(self.home):
            CODE.keep(self.home)
        self.adopt(wanted)  # what runs holds its own before the first task is judged by these settings
        self._write(_SETTINGS, (json.dumps({**wanted.settings, _MADE: made}, indent=1, sort_keys=True) + "\n").encode("utf-8"), _files.NEW_FILE_MODE)
        self._put_front(wanted.front)
        # A container that is starting may still need that of before.
        for old in [*code.versions(self.home, CODE.name())[2:], *code.unfinished(self.home)]:
            _remove(old)

    def adopt(self, wanted: GuardWanted) -> list[str]:
        """Tasks that began without the guard hold what they have; returns why that is not so of some, as warnings."""
        if wanted.settings["level"] == OFF:  # it does not read what is held
            return []
        from .._guard import adopted  # only where a guard is installed

        try:
            unread = [one[:12] for one in adopted.adopt(wanted.settings, os.path.join(self._root, _RUN, "holds"))]
        except (OSError, ValueError) as problem:
            return ["which GPUs tasks have that ran before the guard cannot be read: %s. %s" % (problem, _UNTIL)]
        what = "what swarm gave to the tasks of these containers, which ran before the guard of the GPUs, cannot be read: %s. %s"
        return [what % (", ".join(unread), _UNTIL)] if unread else []

    @contextlib.contextmanager
    def restored_on_failure(self) -> Iterator[None]:
        """Where what is done meanwhile fails, its settings and its front are again those of before. One that was not there stays, uncalled."""
        settings = _files.Snapshot.take(os.path.join(self.home, _SETTINGS))
        link = os.readlink(self._front) if os.path.islink(self._front) else None
        front = None if link else _files.Snapshot.take(self._front).data
        try:
            yield
        except BaseException:  # atomic_move of ansible-core before 2.19 leaves by SystemExit
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
        """All of it; what is still called stays as a link to the program of before, or, where that is not found, as it is, until nothing calls it."""
        made = (_files.read_mapping(os.path.join(self.home, _SETTINGS)) or {}).get(_MADE) or []
        if in_use:
            found = shutil.which(program, path=SBIN)
            if found is None:
                return
            self._link(found)
            for name in os.listdir(self.home):
                if name not in (FRONT, _SETTINGS):
                    _remove(os.path.join(self.home, name))
            return
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(os.path.join(self._root, _RUN), ignore_errors=True)
        for folder in reversed(made):
            if os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)

    def _code(self) -> str:
        return os.path.join(self.home, CODE.name())

    # -- parts -------------------------------------------------------------------------------------------------

    def _make_home(self) -> list[str]:
        """The directories above it that were not there before it came."""
        noted = (_files.read_mapping(os.path.join(self.home, _SETTINGS)) or {}).get(_MADE)
        parent = os.path.dirname(self.home)
        made = [parent] if not os.path.isdir(parent) else []
        _files.make_directory(self.home, _PROGRAM)
        made = noted if isinstance(noted, list) else made
        for folder in [*filter(os.path.isdir, made), self.home]:  # made under another umask by a release before
            _files.remove_others_write(folder)
        return made

    def _write(self, name: str, data: bytes, mode: int) -> None:
        _files.write(os.path.join(self.home, name), data, self._move, mode)

    def _put_front(self, data: bytes) -> None:
        """At no moment is there no program: containers that run call it."""
        new = self._front + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        _files.write(new, data, self._move, _PROGRAM)
        os.chmod(new, _PROGRAM)
        os.replace(new, self._front)
        _files.sync_directory(self.home)

    def _link(self, program: str) -> None:
        new = self._front + ".new"
        if os.path.lexists(new):
            os.unlink(new)
        os.symlink(program, new)
        os.replace(new, self._front)


def _load() -> object:
    from .._guard import check_container

    return check_container


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)
