# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu-swarm-react.service on a manager: its code and its settings, put there, compared and removed.

Every step is a rename or can be done twice, so that a run that is killed is finished by the next one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Mapping

from .. import _files
from .._errors import GpuSwarmError
from .._files import Move
from .._metrics import file
from .._node.react_seen import CURRENT, HOME, SETTINGS, UNIT, UNIT_PATH, react_seen, read
from . import code

Run = Callable[[list], tuple]
LINK_PATH = "etc/systemd/system/multi-user.target.wants/" + UNIT

_UNIT = """\
# Made by the Ansible collection fleet.gpu_swarm; it is written anew. To remove it, set swarm_member_react: false.
[Unit]
Description=Pauses the nodes of this Docker swarm that report a fault of their GPUs
After=docker.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command}
Restart=always
RestartSec=5
WatchdogSec=180
TimeoutStopSec=60
RuntimeDirectory=gpu-swarm-react
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=restart
# All that it needs is the daemon's socket.
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
{writable}ProtectHome=read-only
PrivateTmp=yes
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
MemoryMax=512M

[Install]
WantedBy=multi-user.target
"""


class Reactor:
    """The service of one manager. ``root`` is where its files lie."""

    def __init__(self, state_dir: str, settings: Mapping[str, Any], run: Run, move: Move, root: str = "/") -> None:
        self._state_dir = state_dir
        self._home = os.path.join(state_dir, HOME)
        self._settings = dict(settings)
        self._run = run
        self._move = move
        self._root = root
        self._unit, self._link = (os.path.join(root, path) for path in (UNIT_PATH, LINK_PATH))

    def is_there(self) -> bool:
        return any(os.path.lexists(path) for path in (self._unit, self._link, self._home))

    def is_current(self) -> bool:
        """Whether it runs, as it is to be."""
        wanted = {"version": code.version(), "settings": self._settings, "running": True}
        if react_seen(self._state_dir, self._root) != wanted or not os.path.islink(self._link):
            return False
        return _files.Snapshot.take(self._unit).data == self._unit_text()

    def install(self) -> None:
        """Puts it there, and starts it anew."""
        from .._swarm.manager import SDK_ERROR

        if SDK_ERROR:
            raise GpuSwarmError(
                "The Docker SDK for Python cannot be imported by %s: %s. Install the distribution's package python3-docker, or set "
                "swarm_member_react: false to do without the service that pauses nodes with faults." % (sys.executable, SDK_ERROR)
            )
        code.load()
        os.makedirs(self._state_dir, 0o700, exist_ok=True)
        os.makedirs(self._home, 0o700, exist_ok=True)
        self._remove_metrics(but=self._settings["metrics_directory"])
        self._keep_code()
        text = json.dumps(self._settings, indent=1, sort_keys=True) + "\n"
        _files.write(os.path.join(self._home, SETTINGS), text.encode("utf-8"), self._move, 0o600)
        # Never with daemon-reload: containers that run can lose their GPUs by it (NVIDIA/nvidia-container-toolkit#48). systemd reads a unit
        # that is new to it when it starts; one whose text has changed it reads at the next boot.
        _files.write(self._unit, self._unit_text(), self._move, 0o644)
        if not os.path.islink(self._link):
            os.makedirs(os.path.dirname(self._link), exist_ok=True)
            os.symlink(os.path.join("..", UNIT), self._link)
        self._run(["systemctl", "reset-failed", UNIT])
        rc, out, err = self._run(["systemctl", "restart", UNIT])
        if rc != 0:
            raise GpuSwarmError(
                "%s did not start: %s. Check 'journalctl -u %s' and run this again; or set swarm_member_react: false to do without it, and "
                "nothing pauses a node between two runs." % (UNIT, (err or out).strip().rstrip("."), UNIT)
            )

    def remove(self) -> None:
        """Stops it and removes all of it. Nodes that it has paused stay so until a run returns them."""
        self._run(["systemctl", "stop", UNIT])
        self._remove_metrics()
        for path in (self._link, self._unit):
            if os.path.lexists(path):
                os.unlink(path)
        shutil.rmtree(self._home, ignore_errors=True)
        # Only where nothing else is kept.
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):
            os.rmdir(self._state_dir)
        self._run(["systemctl", "reset-failed", UNIT])

    def _remove_metrics(self, but: str = "") -> None:
        """What it has written to the directory that it was installed with."""
        directory = (read(os.path.join(self._home, SETTINGS)) or {}).get("metrics_directory")
        if directory and directory != but:
            file.remove(directory)

    def _keep_code(self) -> None:
        """A set of files has a directory named by its content, and one rename of a link makes it the current one."""
        version = os.path.join(self._home, code.version())
        unpacked = tempfile.mkdtemp(prefix=".new.", dir=self._home)
        for name, data in code.sources().items():
            path = os.path.join(unpacked, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(data)
        shutil.rmtree(version, ignore_errors=True)
        os.rename(unpacked, version)
        link = os.path.join(self._home, CURRENT)
        if os.path.lexists(link + ".new"):
            os.unlink(link + ".new")
        os.symlink(os.path.basename(version), link + ".new")
        os.replace(link + ".new", link)
        for name in os.listdir(self._home):
            path = os.path.join(self._home, name)
            if path != version and os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)

    def _unit_text(self) -> bytes:
        command = "%s -I %s" % (sys.executable, os.path.join(self._home, CURRENT))
        # Where it does not exist it is left out, and the service starts anew when it does.
        metrics = self._settings["metrics_directory"].replace("%", "%%").replace('"', '\\"')
        writable = 'ReadWritePaths="-%s"\n' % metrics if metrics else ""
        return _UNIT.replace("{command}", command).replace("{writable}", writable).encode("utf-8")
