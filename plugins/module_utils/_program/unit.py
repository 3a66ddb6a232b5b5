# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, checks, starts, stops and removes a unit of systemd.

Every step is a rename or can be done twice, so that the next run finishes the work of a killed run.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Callable

from .. import _files

Run = Callable[..., Any]  # runs a command and returns (rc, stdout, stderr)
_NVIDIA = "dev/nvidiactl"  # this device exists on a machine with GPUs
SYSTEMD = "etc/systemd/system"
_STOPPED = ("inactive", "failed", "")  # '' if systemd does not run; in this case, systemd has started no service


class Unit:
    """A unit of systemd. ``root`` is the root of the machine's files. ``may_reload``: whether systemd may reload changed units. A reload can
    make running containers lose their GPUs (NVIDIA/nvidia-container-toolkit#48)."""

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
        """Install the unit with this text and restart it. Return why it did not start, or None.

        systemd reads a new unit when it starts the unit. systemd reads a changed unit after a reload. If a reload is not allowed, systemd reads the
        changed unit at the next boot.
        """
        _files.remove_leftovers(self._path)
        if _files.Snapshot.take(self._path).data != text:  # systemd treats a rewritten file as a changed unit
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
        """Return whether systemd runs the unit."""
        return self._shows("ActiveState") == "active"

    def stop(self) -> str | None:
        """Stop the unit. Return why the unit still runs, or None.

        If systemd does not know the unit, for example after a killed run, the unit counts as stopped.
        """
        rc, out, err = self._run(["systemctl", "stop", self._name])
        if rc == 0 or self._shows("ActiveState") in _STOPPED:
            return None
        return (err or out).strip().rstrip(".")

    def _shows(self, name: str) -> str:
        return str(self._run(["systemctl", "show", "--property", name, "--value", self._name])[1]).strip()

    def remove(self) -> None:
        """Remove the unit's files, and reset its failures in systemd. The caller must stop the unit first."""
        _files.remove_leftovers(self._path)
        for path in (self._link, self._path):
            if os.path.lexists(path):
                os.unlink(path)
        self._run(["systemctl", "reset-failed", self._name])


def has_gpus(root: str) -> bool:
    """Return whether containers of this machine may have GPUs. When systemd reloads its units, containers can lose their GPUs."""
    return os.path.exists(os.path.join(root, _NVIDIA))
