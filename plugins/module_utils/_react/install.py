# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu-swarm-react.service on a manager: its code and its settings, put there, compared and removed.

Every step is a rename or can be done twice, so that a run that is killed is finished by the next one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from .. import _files
from .._errors import GpuSwarmError
from .._metrics import file
from .._node.react_seen import HOME, UNIT, react_seen
from .._program.code import Code
from .._program.installer import Machine, Service
from .._program.unit import Unit, has_gpus

CODE = Code("_react/run_service.py")
_METRICS = "metrics"  # the link to the directory of metrics, beside the code
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
# A link, which is followed at each start: where it leads can change without this file. Where that is not it is left out, and the service starts
# anew when it is.
ReadWritePaths=-{metrics}
ProtectHome=read-only
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
    """The service of one manager."""

    def __init__(self, state_dir: str, settings: Mapping[str, Any], machine: Machine) -> None:
        self._state_dir = state_dir
        self._home = os.path.join(state_dir, HOME)
        self._settings = dict(settings)
        self._root = machine.root
        unit = Unit(UNIT, *machine, may_reload=not has_gpus(machine.root))
        self._service = Service(unit, self._home, CODE, machine.move)

    def is_there(self) -> bool:
        return self._service.is_there()

    def is_current(self) -> bool:
        """Whether it runs, as it is to be."""
        found = react_seen(self._state_dir, self._root)
        return bool(found and found["running"]) and self._service.is_current(self._settings, self._unit_text())

    def install(self) -> None:
        """Puts it there, and starts it anew."""
        _load()
        _files.make_directory(self._state_dir, 0o700)
        _files.make_directory(self._home, 0o700)
        self._remove_metrics(but=self._settings["metrics_directory"])
        self._link_metrics()
        self._service.keep(self._settings)
        failure = self._service.start(self._unit_text())
        if failure is not None:
            raise GpuSwarmError(
                "%s did not start: %s. Check 'journalctl -u %s' and run this again; or set swarm_member_react: false to do without it, and "
                "nothing pauses a node between two runs." % (UNIT, failure, UNIT)
            )

    def remove(self) -> None:
        """Stops it and removes all of it. Nodes that it has paused stay so until a run returns them."""
        failure = self._service.stop()
        if failure is not None:
            raise GpuSwarmError(
                "%s did not stop: %s. It still pauses nodes with faults, and nothing of it was removed. Check 'systemctl status %s', stop it, and "
                "run this again." % (UNIT, failure, UNIT)
            )
        self._remove_metrics()
        self._service.remove()
        # Only where nothing else is kept.
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):
            os.rmdir(self._state_dir)

    def _remove_metrics(self, but: str = "") -> None:
        """What it has written to the directory that it was installed with."""
        directory = (self._service.settings() or {}).get("metrics_directory")
        if directory and directory != but:
            file.remove(directory)

    def _link_metrics(self) -> None:
        directory, link = self._settings["metrics_directory"], os.path.join(self._home, _METRICS)
        if directory:
            _files.point(link, directory)
        elif os.path.lexists(link):
            os.unlink(link)

    def _unit_text(self) -> bytes:
        return _UNIT.replace("{command}", self._service.command()).replace("{metrics}", os.path.join(self._home, _METRICS)).encode("utf-8")


def _load() -> object:
    from . import run_service

    return run_service
