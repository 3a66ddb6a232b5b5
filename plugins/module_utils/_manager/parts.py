# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""gpu-swarm-manager.service: one service with parts, each with its own switch. It is there as long as any part is.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Mapping

from .. import _files
from .._errors import GpuSwarmError
from .._metrics import file
from .._node.manager_seen import HOME, JOBS, PAUSE, UNIT, manager_seen
from .._program import hardened
from .._program.code import Code
from .._program.installer import Machine, Service
from .._program.unit import Unit, has_gpus

CODE = Code("_manager/two_processes.py")
_METRICS, _LOGS = "metrics", "logs"  # links to the directories of metrics and of logs
_NOTE = "To remove its parts, set\n# swarm_member_react: false, and run fleet.gpu_swarm.prune_jobs -e timer=false"
_DESCRIPTION = "Pauses nodes of this Docker swarm with faults of their GPUs, writes metrics and removes finished jobs"
# The first process goes on if memory runs out and the kernel ends the second one.
_SERVICE = """\
Type=notify
ExecStart={command}
Restart=always
RestartSec=5
WatchdogSec=180
TimeoutStopSec=60
OOMPolicy=continue
RuntimeDirectory=gpu-swarm-manager
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=restart
"""
# Units and directories that this service replaces.
_FORMER = (("gpu-swarm-react.service", "react"), ("gpu-swarm-prune-jobs.timer", "prune-jobs"), ("gpu-swarm-prune-jobs.service", "prune-jobs"))


class ManagerService:
    """The service of one manager."""

    def __init__(self, state_dir: str, docker_socket: str, machine: Machine) -> None:
        self._state_dir = state_dir
        self._socket = docker_socket
        self._machine = machine
        self._home = os.path.join(state_dir, HOME)
        self._unit = Unit(UNIT, *machine, may_reload=not has_gpus(machine.root))

    def has(self, part: str) -> bool:
        """Return whether the part is there, or anything of a service whose settings cannot be read."""
        kept = self._service({}).settings()
        return part in kept if kept is not None else self._service({}).is_there()

    def is_current(self, part: str, settings: Mapping[str, Any]) -> bool:
        """Return whether the service runs with these settings of the part."""
        wanted = self._with(part, settings)
        found = manager_seen(self._state_dir, self._machine.root)
        runs = part != PAUSE or bool(found and found["running"])
        return runs and self._service(wanted).is_current(wanted, self._unit_text())

    def install(self, part: str, settings: Mapping[str, Any]) -> None:
        """Put the service there with this part, or this part into the service, and restart it."""
        _load()
        self._start(self._with(part, settings))

    def remove(self, part: str) -> None:
        """Remove the part, and the service with its last part. Nodes that it has paused stay so until a run returns them. Saved logs stay."""
        rest = {name: value for name, value in (self._service({}).settings() or {}).items() if name in (PAUSE, JOBS) and name != part}
        if rest:
            self._start({**rest, "docker_socket": self._socket})
            return
        failure = self._unit.stop()
        if failure is not None:
            raise GpuSwarmError(
                "%s did not stop: %s. It still pauses nodes with faults, and nothing of it was removed. Check 'systemctl status %s', stop it, and "
                "run this again." % (UNIT, failure, UNIT)
            )
        self._remove_metrics()
        self._service({}).remove()
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):  # only if nothing else is kept
            os.rmdir(self._state_dir)

    # -- parts -------------------------------------------------------------------------------------------------

    def _with(self, part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        kept = self._service({}).settings() or {}
        return {**{name: kept[name] for name in (PAUSE, JOBS) if name in kept}, part: dict(settings), "docker_socket": self._socket}

    def _start(self, settings: Mapping[str, Any]) -> None:
        self._remove_former()
        self._remove_metrics(but=_directory(settings, PAUSE, "metrics_directory"))
        logs = _directory(settings, JOBS, "log_directory")
        if logs:
            _files.make_directory(logs, 0o700)  # the service cannot: all else is read-only for it
        service = self._service(settings)
        service.keep(settings)
        failure = service.start(self._unit_text())
        if failure is not None:
            raise GpuSwarmError(
                "%s did not start: %s. Check 'journalctl -u %s' and run this again; or set swarm_member_react: false to do without it, and "
                "nothing pauses a node between two runs." % (UNIT, failure, UNIT)
            )

    def _service(self, settings: Mapping[str, Any]) -> Service:
        links = {_METRICS: _directory(settings, PAUSE, "metrics_directory"), _LOGS: _directory(settings, JOBS, "log_directory")}
        return Service(self._unit, self._home, CODE, self._machine.move, links)

    def _remove_metrics(self, but: str = "") -> None:
        """Remove the file from the directory that the service was installed with."""
        directory = _directory(self._service({}).settings() or {}, PAUSE, "metrics_directory")
        if directory and directory != but:
            file.remove(directory)

    def _remove_former(self) -> None:
        """Stop and remove the services that this one replaces, before it starts."""
        for name, home in _FORMER:
            unit = Unit(name, *self._machine)
            if unit.is_there():
                unit.stop()
                unit.remove()
            shutil.rmtree(os.path.join(self._state_dir, home), ignore_errors=True)

    def _unit_text(self) -> bytes:
        service = _SERVICE.replace("{command}", self._service({}).command())
        writable = [os.path.join(self._home, name) for name in (_METRICS, _LOGS)]
        return hardened.Unit(_NOTE, _DESCRIPTION, service, writable, memory="1G", more=hardened.SOCKETS_ONLY).text()


def _load() -> object:
    from . import two_processes

    return two_processes


def _directory(settings: Mapping[str, Any], part: str, name: str) -> str:
    return (settings.get(part) or {}).get(name) or ""
