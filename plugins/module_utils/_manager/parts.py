# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs and removes gpu-swarm-manager.service. The service has parts, and each part has its own setting. The service exists while it has a part.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Callable, Mapping

from .. import _files
from .._errors import GpuSwarmError
from .._metrics import file
from .._node.manager_state import DIRECTORIES, HOME, JOBS, PAGE, PAUSE, RECORD, SHARED, SNAPSHOT, TEMPLATE, UNIT, manager_state
from .._program import hardened
from .._program.code import Code
from .._program.installed import is_changing
from .._program.installer import Machine, Service
from .._program.own_python import require_own_python
from .._program.unit import Unit, has_gpus
from .installed_command import InstalledCommand
from .shared_directories import SharedDirectories, group_id

CODE = Code("_manager/two_processes.py")
PARTS = (PAUSE, JOBS, RECORD, PAGE)
# {part: its settings, or None if the part is removed}.
Wanted = Mapping[str, "Mapping[str, Any] | None"]
_LINKS = {PAUSE: "metrics", JOBS: "logs"}  # each part has a link to the directory that the part writes to
_SETTINGS = {PAUSE: "swarm_member_metrics_directory", JOBS: "gpu_job_log_directory"}  # the user's setting for that directory
_SOCKET_SETTING = "swarm_member_docker_socket"
_PRIVATE = ("tmp", "var/tmp")  # the service has its own temporary directories. They are empty when the service starts, and removed when it stops
_NOTE = (
    "To remove its parts, set\n# swarm_member_react, gpu_swarm_record and gpu_swarm_page to false, and run fleet.gpu_swarm.prune_jobs -e timer=false"
)
_DESCRIPTION = "Pauses nodes of this Docker swarm with faults of their GPUs, starts work of queues, writes metrics and a page, removes finished jobs"
# With OOMPolicy=continue the first process continues if memory runs out and the kernel ends the second process.
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
_TEMPLATE_MODE = 0o600
# Units and directories that this service replaces.
_FORMER = (("gpu-swarm-react.service", "react"), ("gpu-swarm-prune-jobs.timer", "prune-jobs"), ("gpu-swarm-prune-jobs.service", "prune-jobs"))


class ManagerService:
    """The service of one manager."""

    def __init__(
        self, state_dir: str, docker_socket: str, machine: Machine, page_template: str = "", group_id: Callable[[], int | None] = group_id
    ) -> None:
        self._state_dir = state_dir
        self._socket = docker_socket
        self._machine = machine
        self._page_template = page_template.encode("utf-8")
        self._group_id = group_id
        self._command = InstalledCommand(machine.root, machine.move)
        self._home = os.path.join(state_dir, HOME)
        self._unit = Unit(UNIT, *machine, may_reload=not has_gpus(machine.root))

    def converge(self, wanted: Wanted, check_mode: bool) -> bool:
        """Install and remove these parts with at most one restart. Return whether anything changes. Raises GpuSwarmError."""
        try:
            installs = {part: settings for part, settings in wanted.items() if settings is not None}
            if installs:
                require_own_python()
                self._command.require_free()
            for part in installs:
                self._require_usable(part, _directory(installs, part))
            changed = any(self.has(part) for part in wanted if part not in installs) or bool(installs and not self.is_current(installs))
            if changed and not check_mode:
                self.apply(wanted)
        except OSError as problem:
            raise GpuSwarmError("%s: %s. Fix that, and run this again." % (problem.filename, problem.strerror)) from problem
        return changed

    def has(self, part: str) -> bool:
        """Return whether the service has this part.

        Also True if the service may still run the part: a run was killed, or the part's settings cannot be read.
        """
        settings = self._service({}).settings()
        if settings is None:
            return self._service({}).is_installed()
        return part in settings or is_changing(self._home)

    def is_current(self, installs: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether the service runs with these settings of these parts."""
        wanted = self._with(installs)
        if not self._service(wanted).is_current(wanted, self._unit_text()) or not self._command.is_current():
            return False
        if not self._shared(wanted).are_current() or not self._has_template(wanted):
            return False
        return all(self._runs(part, settings) for part, settings in installs.items())

    def _runs(self, part: str, settings: Mapping[str, Any]) -> bool:
        if part == JOBS:
            return os.path.isdir(settings[DIRECTORIES[JOBS]]) and self._unit.is_active()
        state = manager_state(self._state_dir, self._machine.root)
        return bool(state and state["running"])

    def apply(self, wanted: Wanted) -> None:
        """Install and remove these parts. Restart the service, or remove it with its last part.

        Paused nodes stay paused until a run returns them. Saved logs and the record are kept.
        """
        _import_service()
        settings = self._with(wanted)
        if any(part in settings for part in PARTS):
            self._start(settings)
        else:
            self._remove()

    def _remove(self) -> None:
        settings = self._service({}).settings() or {}
        failure = self._unit.stop()
        if failure is not None:
            raise GpuSwarmError(
                "%s did not stop: %s. It still pauses nodes with faults, and nothing was removed. Check 'systemctl status %s', stop it, and "
                "run this again." % (UNIT, failure, UNIT)
            )
        directory = _directory(settings, PAUSE)
        if directory:
            file.remove(directory)
        # The service comes last: as long as it exists, the next run finishes the removal of a killed run.
        self._command.remove()
        self._remove_outdated({})
        self._shared({}).converge()
        self._service({}).remove()
        if os.path.isdir(self._state_dir) and not os.listdir(self._state_dir):  # only if nothing else uses this directory
            os.rmdir(self._state_dir)

    def _remove_outdated(self, settings: Mapping[str, Any]) -> None:
        """Remove the files that no part updates any more. The service has stopped writing them. The record is kept."""
        if RECORD not in settings:
            _files.remove(os.path.join(self._state_dir, SHARED[RECORD], SNAPSHOT))
        if PAGE not in settings:
            _files.remove(self._template_path())
            shutil.rmtree(os.path.join(self._state_dir, SHARED[PAGE]), ignore_errors=True)

    # -- parts -------------------------------------------------------------------------------------------------

    def _with(self, wanted: Wanted) -> dict[str, Any]:
        """Return the settings of the service with these changes of its parts."""
        current = self._service({}).settings() or {}
        parts = {**{part: current[part] for part in PARTS if part in current}, **wanted}
        # A run that only removes parts does not know the socket of the others.
        socket = self._socket if any(settings is not None for settings in wanted.values()) else current.get("docker_socket", self._socket)
        return {**{part: dict(settings) for part, settings in parts.items() if settings is not None}, "docker_socket": socket}

    def _shared(self, settings: Mapping[str, Any]) -> SharedDirectories:
        return SharedDirectories(self._state_dir, [name for part, name in SHARED.items() if part in settings], self._group_id())

    def _template_path(self) -> str:
        return os.path.join(self._home, TEMPLATE)

    def _has_template(self, settings: Mapping[str, Any]) -> bool:
        return PAGE not in settings or _files.digest(_files.Snapshot.take(self._template_path()).data) == settings[PAGE]["template"]

    def _start(self, settings: Mapping[str, Any]) -> None:
        logs = _directory(settings, JOBS)
        if logs:
            _files.make_directory(logs, 0o700)  # the service cannot create this directory, because other directories are read-only for the service
            if not os.path.isdir(logs):
                raise GpuSwarmError(
                    "%s is %s, which is a file or a broken link. Remove it, or set another directory, and run this again. The service was not "
                    "changed." % (_SETTINGS[JOBS], logs)
                )
        self._shared(settings).converge()
        self._command.install()
        self._remove_former()
        former = _directory(self._service({}).settings() or {}, PAUSE)
        if former and former != _directory(settings, PAUSE):
            self._unit.stop()  # otherwise the service could write the file once more
            file.remove(former)
        service = self._service(settings)
        service.install(settings)
        if PAGE in settings and self._page_template:
            _files.write(self._template_path(), self._page_template, self._machine.move, _TEMPLATE_MODE)
        failure = service.start(self._unit_text())
        if failure is not None:
            raise GpuSwarmError(
                "%s did not start: %s. Check 'journalctl -u %s' and run this again. Or set swarm_member_react: false and gpu_swarm_record: false "
                "to do without it; then nothing pauses a node between two runs, and nothing is recorded." % (UNIT, failure, UNIT)
            )
        self._remove_outdated(settings)

    def _require_usable(self, part: str, directory: str) -> None:
        """Raise GpuSwarmError if systemd's limits would keep the service from this directory of the part, or from dockerd's socket."""
        self._require_shared(_SOCKET_SETTING, self._socket)
        if not directory:
            return
        self._require_shared(_SETTINGS[part], directory)
        # If a home directory is writable, systemd drops the links in this directory, and the other directory stays read-only.
        if _is_below(self._home, directory) or _is_below(directory, self._home):
            raise GpuSwarmError(
                "%s is %s, but %s is the service's own directory. The two must not contain each other. Set another directory, and run this again. "
                "Nothing was changed." % (_SETTINGS[part], directory, self._home)
            )

    def _require_shared(self, setting: str, path: str) -> None:
        """Raise GpuSwarmError if the service cannot see this path."""
        if any(_is_below(path, os.path.join(self._machine.root, private)) for private in _PRIVATE):
            raise GpuSwarmError(
                "%s is %s, but the service gpu-swarm-manager has a private /tmp and /var/tmp, which are removed when it stops. Set another "
                "path, and run this again. Nothing was changed." % (setting, path)
            )

    def _service(self, settings: Mapping[str, Any]) -> Service:
        links = {link: _directory(settings, part) for part, link in _LINKS.items()}
        return Service(self._unit, self._home, CODE, self._machine.move, links)

    def _remove_former(self) -> None:
        """Stop and remove the former services that this service replaces, before this service starts."""
        for name, home in _FORMER:
            unit = Unit(name, *self._machine)
            if unit.is_installed():
                unit.stop()
                unit.remove()
            shutil.rmtree(os.path.join(self._state_dir, home), ignore_errors=True)

    def _unit_text(self) -> bytes:
        service = _SERVICE.replace("{command}", self._service({}).command())
        writable = [os.path.join(self._home, link) for link in _LINKS.values()]
        writable += [os.path.join(self._state_dir, name) for name in SHARED.values()]
        return hardened.Unit(_NOTE, _DESCRIPTION, service, writable, more=hardened.SOCKETS_ONLY).text()


def _import_service() -> object:
    from . import two_processes

    return two_processes


def _directory(settings: Mapping[str, Any], part: str) -> str:
    return (settings.get(part) or {}).get(DIRECTORIES.get(part)) or ""


def _is_below(path: str, directory: str) -> bool:
    """Return whether this path is the directory, or a path in the directory. Links are followed."""
    directory = os.path.realpath(directory)
    return os.path.commonpath([os.path.realpath(path), directory]) == directory
