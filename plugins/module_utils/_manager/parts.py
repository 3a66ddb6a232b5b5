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
from .._node.manager_state import DIRECTORIES, HOME, JOBS, PAUSE, UNIT, manager_state
from .._program import hardened
from .._program.code import Code
from .._program.installed import is_changing
from .._program.installer import Machine, Service
from .._program.own_python import require_own_python
from .._program.unit import Unit, has_gpus

CODE = Code("_manager/two_processes.py")
_LINKS = {PAUSE: "metrics", JOBS: "logs"}  # to the directory into which each part writes
_SETTINGS = {PAUSE: "swarm_member_metrics_directory", JOBS: "gpu_job_log_directory"}  # what users call that directory
_PRIVATE = ("tmp", "var/tmp")  # the service has its own, which are empty at its start and removed at its end
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

    def converge(self, part: str, settings: Mapping[str, Any] | None, check_mode: bool) -> bool:
        """Put this part there, or remove it without ``settings``. Return whether that is a change. Raises GpuSwarmError."""
        try:
            if settings is None:
                changed = self.has(part)
                if changed and not check_mode:
                    self.remove(part)
            else:
                require_own_python()
                self._require_shared(part, settings[DIRECTORIES[part]])
                changed = not self.is_current(part, settings)
                if changed and not check_mode:
                    self.install(part, settings)
        except OSError as problem:
            raise GpuSwarmError("%s: %s. Fix that, and run this again." % (problem.filename, problem.strerror)) from problem
        return changed

    def has(self, part: str) -> bool:
        """Return whether the part is there, or may still run because a run was killed, or the settings of the service cannot be read."""
        kept = self._service({}).settings()
        if kept is None:
            return self._service({}).is_installed()
        return part in kept or is_changing(self._home)

    def is_current(self, part: str, settings: Mapping[str, Any]) -> bool:
        """Return whether the service runs with these settings of the part."""
        wanted = self._with(part, settings)
        return self._service(wanted).is_current(wanted, self._unit_text()) and self._runs(part, settings)

    def _runs(self, part: str, settings: Mapping[str, Any]) -> bool:
        if part == PAUSE:
            found = manager_state(self._state_dir, self._machine.root)
            return bool(found and found["running"])
        return os.path.isdir(settings[DIRECTORIES[JOBS]]) and self._unit.is_active()

    def install(self, part: str, settings: Mapping[str, Any]) -> None:
        """Put the service there with this part, or this part into the service, and restart it."""
        _load()
        self._start(self._with(part, settings))

    def remove(self, part: str) -> None:
        """Remove the part, and the service with its last part. Nodes that it has paused stay so until a run returns them. Saved logs stay."""
        kept = self._service({}).settings() or {}
        rest = {name: value for name, value in kept.items() if name != part}
        if PAUSE in rest or JOBS in rest:
            self._start(rest)
            return
        failure = self._unit.stop()
        if failure is not None:
            raise GpuSwarmError(
                "%s did not stop: %s. It still pauses nodes with faults, and nothing of it was removed. Check 'systemctl status %s', stop it, and "
                "run this again." % (UNIT, failure, UNIT)
            )
        directory = _directory(kept, PAUSE)
        if directory:
            file.remove(directory)
        self._service({}).remove()
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):  # only if nothing else is kept
            os.rmdir(self._state_dir)

    # -- parts -------------------------------------------------------------------------------------------------

    def _with(self, part: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        kept = self._service({}).settings() or {}
        return {**{name: kept[name] for name in (PAUSE, JOBS) if name in kept}, part: dict(settings), "docker_socket": self._socket}

    def _start(self, settings: Mapping[str, Any]) -> None:
        logs = _directory(settings, JOBS)
        if logs:
            _files.make_directory(logs, 0o700)  # the service cannot: all else is read-only for it
            if not os.path.isdir(logs):
                raise GpuSwarmError(
                    "%s is %s, which is a file or a link to nothing. Remove that, or set another directory, and run this again. The service was not "
                    "changed." % (_SETTINGS[JOBS], logs)
                )
        self._remove_former()
        before = _directory(self._service({}).settings() or {}, PAUSE)
        if before and before != _directory(settings, PAUSE):
            self._unit.stop()  # else it could write the file once more
            file.remove(before)
        service = self._service(settings)
        service.keep(settings)
        failure = service.start(self._unit_text())
        if failure is not None:
            raise GpuSwarmError(
                "%s did not start: %s. Check 'journalctl -u %s' and run this again; or set swarm_member_react: false to do without it, and "
                "nothing pauses a node between two runs." % (UNIT, failure, UNIT)
            )

    def _require_shared(self, part: str, directory: str) -> None:
        """Raise GpuSwarmError if the service cannot see this directory."""
        private = [os.path.realpath(os.path.join(self._machine.root, one)) for one in _PRIVATE]
        if directory and any(os.path.commonpath([os.path.realpath(directory), one]) == one for one in private):
            raise GpuSwarmError(
                "%s is %s, but the service gpu-swarm-manager has a private /tmp and /var/tmp, which are removed when it stops. Set another "
                "directory, and run this again. Nothing was changed." % (_SETTINGS[part], directory)
            )

    def _service(self, settings: Mapping[str, Any]) -> Service:
        links = {link: _directory(settings, part) for part, link in _LINKS.items()}
        return Service(self._unit, self._home, CODE, self._machine.move, links)

    def _remove_former(self) -> None:
        """Stop and remove the services that this one replaces, before it starts."""
        for name, home in _FORMER:
            unit = Unit(name, *self._machine)
            if unit.is_installed():
                unit.stop()
                unit.remove()
            shutil.rmtree(os.path.join(self._state_dir, home), ignore_errors=True)

    def _unit_text(self) -> bytes:
        service = _SERVICE.replace("{command}", self._service({}).command())
        writable = [os.path.join(self._home, link) for link in _LINKS.values()]
        return hardened.Unit(_NOTE, _DESCRIPTION, service, writable, memory="1G", more=hardened.SOCKETS_ONLY).text()


def _load() -> object:
    from . import two_processes

    return two_processes


def _directory(settings: Mapping[str, Any], part: str) -> str:
    return (settings.get(part) or {}).get(DIRECTORIES[part]) or ""
