# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu-swarm-prune-jobs.timer on a manager: its units, its code and its settings, put there, compared and removed.

Every step is a rename or can be done twice, so that a run that is killed is finished by the next one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from .. import _files
from .._errors import GpuSwarmError
from .._program.code import Code
from .._program.installer import Machine, Service
from .._program.seen import CURRENT
from .._program.unit import SYSTEMD, Unit, has_gpus

HOME = "prune-jobs"  # below the state directory
NAME = "gpu-swarm-prune-jobs"
CODE = Code("_jobs/hourly.py")
# Neither names a setting: systemd need not read them anew where one changes.
_TIMER = b"""\
# Made by the Ansible collection fleet.gpu_swarm; it is written anew. To remove it: fleet.gpu_swarm.prune_jobs -e timer=false
[Unit]
Description=Removes jobs of this Docker swarm that are over

[Timer]
OnCalendar=hourly
RandomizedDelaySec=300
Persistent=true

[Install]
WantedBy=multi-user.target
"""
_SERVICE = """\
# Made by the Ansible collection fleet.gpu_swarm; it is written anew. To remove it: fleet.gpu_swarm.prune_jobs -e timer=false
[Unit]
Description=Removes jobs of this Docker swarm that are over
After=docker.service
ConditionPathExists={start}

[Service]
Type=oneshot
ExecStart={command}
TimeoutStartSec=3000
# All that it needs is the daemon's socket, and where it saves logs.
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=full
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
"""


class Timer:
    """That of one manager."""

    def __init__(self, state_dir: str, settings: Mapping[str, Any], machine: Machine) -> None:
        self._state_dir, self._home = state_dir, os.path.join(state_dir, HOME)
        self._settings = dict(settings)
        self._move = machine.move
        self._started = os.path.join(machine.root, SYSTEMD, NAME + ".service")
        unit = Unit(NAME + ".timer", *machine, may_reload=not has_gpus(machine.root))
        self._service = Service(unit, self._home, CODE, machine.move)

    def is_there(self) -> bool:
        return self._service.is_there() or os.path.lexists(self._started)

    def is_current(self) -> bool:
        return _files.Snapshot.take(self._started).data == self._service_text() and self._service.is_current(self._settings, _TIMER)

    def install(self) -> None:
        _load()
        self._service.keep(self._settings)
        if _files.Snapshot.take(self._started).data != self._service_text():
            _files.write(self._started, self._service_text(), self._move, 0o644)
        failure = self._service.start(_TIMER)
        if failure is not None:
            raise GpuSwarmError("%s.timer did not start: %s. Check 'systemctl status %s.timer' and run this again." % (NAME, failure, NAME))

    def remove(self) -> None:
        """What runs just now ends by itself. Logs stay: they are the user's."""
        failure = self._service.stop()
        if failure is not None:
            raise GpuSwarmError("%s.timer did not stop: %s. Check 'systemctl status %s.timer' and run this again." % (NAME, failure, NAME))
        self._service.remove()
        _files.remove(self._started)
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):
            os.rmdir(self._state_dir)

    def _service_text(self) -> bytes:
        start = os.path.join(self._home, CURRENT)
        return _SERVICE.replace("{command}", self._service.command()).replace("{start}", start).encode("utf-8")


def _load() -> object:
    from . import hourly

    return hourly
