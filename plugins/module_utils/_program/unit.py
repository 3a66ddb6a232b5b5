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
import stat
import sys
import tempfile
from typing import Any, Callable, Mapping

from .. import _files
from .._errors import GpuSwarmError

Run = Callable[..., Any]  # runs a command, and returns (rc, stdout, stderr)
# In the directory of a service: the link to the version of its code that runs.
CURRENT = "current"
SYSTEMD = "etc/systemd/system"
# On Debian the group staff can write here. It is in root's path, so members can replace what root runs anyway.
_OF_STAFF = "/usr/local"
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
        return os.path.lexists(self._path) or os.path.lexists(self._link) or bool(_files.leftovers(self._path))

    def is_current(self, text: bytes) -> bool:
        return os.path.islink(self._link) and _files.Snapshot.take(self._path).data == text

    def start(self, text: bytes) -> str | None:
        """Puts it there with this text, and starts it anew. Returns why it did not start, or None.

        systemd reads a unit that is new to it when it starts, and one whose text has changed where it may reload, else at the next boot.
        """
        _files.sweep(self._path)
        if _files.Snapshot.take(self._path).data != text:  # to systemd a file that is written anew is a unit that has changed
            _files.write(self._path, text, self._move, 0o644)
        if not os.path.islink(self._link):
            _files.make_directory(os.path.dirname(self._link))
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
        _files.sweep(self._path)
        for path in (self._link, self._path):
            if os.path.lexists(path):
                os.unlink(path)
        self._run(["systemctl", "reset-failed", self._name])


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


def keep_code(home: str, version: str, files: Mapping[str, bytes]) -> None:
    """Keeps these files in a directory of that name, makes it the current one with one rename of a link, and removes any other."""
    kept = os.path.join(home, version)
    unpacked = tempfile.mkdtemp(prefix=".new.", dir=home)
    try:
        for name, data in files.items():
            _files.put(os.path.join(unpacked, name), data)
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
