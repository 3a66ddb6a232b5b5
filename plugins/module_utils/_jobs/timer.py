# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu-swarm-prune-jobs.timer on a manager: its units, its code and its settings, put there, compared and removed.

Every step is a rename or can be done twice, so that a run that is killed is finished by the next one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any, Mapping

from .. import _files
from .._errors import GpuSwarmError
from .._files import Move
from .._program.unit import CURRENT, SYSTEMD, Run, Unit, keep_code, read
from . import code

HOME = "prune-jobs"  # below the state directory
NAME = "gpu-swarm-prune-jobs"
SETTINGS = "settings.json"
_NVIDIA = "dev/nvidiactl"  # of a machine with GPUs
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
    """That of one manager. ``root`` is where its files lie."""

    def __init__(self, state_dir: str, settings: Mapping[str, Any], run: Run, move: Move, root: str = "/") -> None:
        self._state_dir, self._home = state_dir, os.path.join(state_dir, HOME)
        self._settings = dict(settings)
        self._move, self._run = move, run
        self._service = os.path.join(root, SYSTEMD, NAME + ".service")
        self._unit = Unit(NAME + ".timer", run, move, root, may_reload=not os.path.exists(os.path.join(root, _NVIDIA)))

    def is_there(self) -> bool:
        return self._unit.is_there() or os.path.lexists(self._service) or os.path.lexists(self._home)

    def is_current(self) -> bool:
        try:
            version = os.readlink(os.path.join(self._home, CURRENT))
        except OSError:
            return False
        service = _files.Snapshot.take(self._service).data == self._service_text()
        return service and version == code.version() and self._kept() == self._settings and self._unit.is_current(_TIMER)

    def _kept(self) -> dict[str, Any] | None:
        return read(os.path.join(self._home, SETTINGS))

    def install(self) -> None:
        from .._swarm.manager import SDK_ERROR

        if SDK_ERROR:
            raise GpuSwarmError(
                "The Docker SDK for Python cannot be imported by %s: %s. Install the distribution's package python3-docker. No timer was set."
                % (sys.executable, SDK_ERROR)
            )
        from . import hourly  # noqa: F401  # pylint: disable=unused-import  # what this machine's Python cannot run is not installed

        for directory in (self._state_dir, self._home):
            _files.make_directory(directory, 0o700)
        keep_code(self._home, code.version(), code.sources())
        text = json.dumps(self._settings, indent=1, sort_keys=True) + "\n"
        _files.write(os.path.join(self._home, SETTINGS), text.encode("utf-8"), self._move, 0o600)
        if _files.Snapshot.take(self._service).data != self._service_text():
            _files.write(self._service, self._service_text(), self._move, 0o644)
        failure = self._unit.start(_TIMER)
        if failure is not None:
            raise GpuSwarmError("%s.timer did not start: %s. Check 'systemctl status %s.timer' and run this again." % (NAME, failure, NAME))

    def remove(self) -> None:
        """What runs just now ends by itself. Logs stay: they are the user's."""
        failure = self._unit.stop()
        if failure is not None:
            raise GpuSwarmError("%s.timer did not stop: %s. Check 'systemctl status %s.timer' and run this again." % (NAME, failure, NAME))
        self._unit.remove()
        _files.remove(self._service)
        shutil.rmtree(self._home, ignore_errors=True)
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):
            os.rmdir(self._state_dir)

    def _service_text(self) -> bytes:
        start = os.path.join(self._home, CURRENT)
        return _SERVICE.replace("{command}", "%s -I %s" % (sys.executable, start)).replace("{start}", start).encode("utf-8")
