# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A unit of systemd: put there, compared, started, stopped and removed.

Every step is a rename or can be done twice, so that the next run finishes what a killed one began.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Callable

from .. import _files

Run = Callable[..., Any]  # runs a command, and returns (rc, stdout, stderr)
_NVIDIA = "dev/nvidiactl"  # of a machine with GPUs
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

    def is_installed(self) -> bool:
        return os.path.lexists(self._path) or os.path.lexists(self._link) or bool(_files.leftovers(self._path))

    def is_current(self, text: bytes) -> bool:
        return os.path.islink(self._link) and _files.Snapshot.take(self._path).data == text

    def start(self, text: bytes) -> str | None:
        """Puts it there with this text, and starts it anew. Returns why it did not start, or None.

        systemd reads a unit that is new to it when it starts, and one whose text has changed where it may reload, else at the next boot.
        """
        _files.remove_leftovers(self._path)
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

    def is_active(self) -> bool:
        """Whether systemd runs it."""
        return self._shows("ActiveState") == "active"

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
        _files.remove_leftovers(self._path)
        for path in (self._link, self._path):
            if os.path.lexists(path):
                os.unlink(path)
        self._run(["systemctl", "reset-failed", self._name])


def has_gpus(root: str) -> bool:
    """Whether containers here may have GPUs, which they could lose when systemd reads its units anew."""
    return os.path.exists(os.path.join(root, _NVIDIA))
