# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A service of this collection on a machine: its unit and its code, put there, compared and removed.

Every step is a rename or can be done twice, so that a run that is killed is finished by the next one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from typing import Any, Callable, Mapping

from . import _files

Run = Callable[..., Any]  # runs a command, and returns (rc, stdout, stderr)
# In the directory of a service: the link to the version of its code that runs.
CURRENT = "current"
SYSTEMD = "etc/systemd/system"
_STOPPED = ("inactive", "failed", "")  # nothing: where there is no systemd, it has started nothing


class Unit:
    """A unit of systemd. ``root`` is where the machine's files lie. ``may_reload``: whether systemd may read changed units anew, by which
    containers that run can lose their GPUs (NVIDIA/nvidia-container-toolkit#48)."""

    def __init__(self, name: str, run: Run, move: _files.Move, root: str = "/", may_reload: bool = False) -> None:
        self._name = name
        self._may_reload = may_reload
        self._run = run
        self._move = move
        self._path = os.path.join(root, SYSTEMD, name)
        self._link = os.path.join(root, SYSTEMD, "multi-user.target.wants", name)

    def is_there(self) -> bool:
        return os.path.lexists(self._path) or os.path.lexists(self._link)

    def is_current(self, text: bytes) -> bool:
        return os.path.islink(self._link) and _files.Snapshot.take(self._path).data == text

    def start(self, text: bytes) -> str | None:
        """Puts it there with this text, and starts it anew. Returns why it did not start, or None.

        systemd reads a unit that is new to it when it starts, and one whose text has changed where it may reload, else at the next boot.
        """
        if _files.Snapshot.take(self._path).data != text:  # to systemd a file that is written anew is a unit that has changed
            _files.write(self._path, text, self._move, 0o644)
        if not os.path.islink(self._link):
            os.makedirs(os.path.dirname(self._link), exist_ok=True)
            os.symlink(os.path.join("..", self._name), self._link)
        if self._may_reload and self._shows("NeedDaemonReload") == "yes":
            self._run(["systemctl", "daemon-reload"])
        self._run(["systemctl", "reset-failed", self._name])
        rc, out, err = self._run(["systemctl", "restart", self._name])
        return None if rc == 0 else (err or out).strip().rstrip(".")

    def stop(self) -> str | None:
        """Returns why it still runs, or None. One that systemd does not know, as after a run that was killed, is stopped."""
        rc, out, err = self._run(["systemctl", "stop", self._name])
        if rc == 0 or self._shows("ActiveState") in _STOPPED:
            return None
        return (err or out).strip().rstrip(".")

    def _shows(self, name: str) -> str:
        return str(self._run(["systemctl", "show", "--property", name, "--value", self._name])[1]).strip()

    def remove(self) -> None:
        """Nothing of it is left, also not in systemd's memory; it has been stopped before."""
        for path in (self._link, self._path):
            if os.path.lexists(path):
                os.unlink(path)
        self._run(["systemctl", "reset-failed", self._name])


def keep_code(home: str, version: str, files: Mapping[str, bytes]) -> None:
    """Keeps these files in a directory of that name, makes it the current one with one rename of a link, and removes any other."""
    kept = os.path.join(home, version)
    unpacked = tempfile.mkdtemp(prefix=".new.", dir=home)
    try:
        for name, data in files.items():
            path = os.path.join(unpacked, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(data)
        shutil.rmtree(kept, ignore_errors=True)
        os.rename(unpacked, kept)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    point(os.path.join(home, CURRENT), version)
    for name in os.listdir(home):
        path = os.path.join(home, name)
        if path != kept and os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)


def read(path: str) -> dict[str, Any] | None:
    """What a file of JSON has, if that is a mapping."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def point(link: str, target: str) -> None:
    """Has the link lead there."""
    temporary = "%s.%d" % (link, os.getpid())
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.replace(temporary, link)
