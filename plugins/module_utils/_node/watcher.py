# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, checks and removes the watcher on a node: gpu-swarm-health.service, its code and its settings.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, NamedTuple

from .. import _zip_import
from .._dockerd.docker_unit import Run
from .._errors import GpuSwarmError
from .._files import Move, read_mapping
from .._health import pace
from .._program import hardened, installed
from .._program.code import PACKAGE, Code
from .._program.installer import Service
from .._program.unit import Unit
from . import card_metrics_file
from .channel import Channel
from .fault import is_model_reported
from .journal import State
from .watcher_state import FAULTS, HOME, NOT_INSTALLED, STATUS, WatcherState, is_wanted

UNIT = "gpu-swarm-health.service"
CODE = Code("_watch/commands.py")
ALLOCATIONS = "run/gpu-swarm/allocations.json"
# The module's options that the watcher uses.
SETTINGS = (
    "daemon_config", "runtime_config", "docker_socket", "docker_unit", "nvml_path", "nvml_timeout", "health_faults", "health_ignored", "idle_after",
    "isolation_allow", "accept_risks", "textfile",
)  # fmt: skip

_NOTE = "Before you reset a GPU, change MIG or\n# replace the driver, run: systemctl stop gpu-swarm-health"
_DESCRIPTION = "Reports faults of this node's GPUs to the managers of its Docker swarm"
_SERVICE = """\
Type=notify
ExecStart={command} watch
ExecStopPost={command} stopped
Restart=always
RestartSec=10
WatchdogSec=180
KillMode=mixed
TimeoutStopSec=60
RuntimeDirectory=gpu-swarm
RuntimeDirectoryMode=0711
"""
# AF_UNIX is not enough: getent may query a directory of users in the network.
_FAMILIES = "AF_UNIX AF_INET AF_INET6 AF_NETLINK"


class Machine(NamedTuple):
    """How to change a node. ``root`` is the root of the node's files. ``load`` imports the code that the service will run. ``data_root`` is dockerd's
    directory; None if the directory is unknown."""

    run: Run
    move: Move
    root: str
    load: Callable[[], Any]
    data_root: str | None = None


class Watcher:
    """The watcher's service on one node."""

    def __init__(self, params: Mapping[str, Any], state: State, machine: Machine) -> None:
        run, move, root, load, data_root = machine
        self._params = params
        self._state = state
        self._load = load
        self.home = os.path.join(state.directory, HOME)
        self._service = Service(Unit(UNIT, run, move, root), self.home, CODE, move, {})
        self._status = os.path.join(root, STATUS)
        self._allocations = os.path.join(root, ALLOCATIONS)
        self._data_root = data_root

    # -- reading -----------------------------------------------------------------------------------------------

    def inspect(self, blocked: str | None, label: str | None = None) -> WatcherState:
        """Return the state of the watcher. ``label`` is the label that dockerd shows, ``blocked`` says why it cannot be changed."""
        if is_wanted(self._params) and self._params.get("textfile"):
            card_metrics_file.check_directory(self._params["textfile"])
        status = read_mapping(self._status)
        findings = (read_mapping(self._allocations) or {}).get("found") or ()
        missing = is_wanted(self._params) and not self.is_installed()
        drift = [NOT_INSTALLED] if missing else self._drift(status)
        return WatcherState(drift, blocked, status, label, self._logged_errors(), findings, missing)

    def _drift(self, status: Mapping[str, Any] | None) -> list[str]:
        """Return sentences about the differences between an installed watcher and the wanted state."""
        state = self._params["state"]
        if state == "gathered" or (self._params["restart"] == "never" and state != "absent"):
            return []
        if not is_wanted(self._params):
            return ["the watcher of the GPUs is still installed"] if self.is_installed() else []
        if not self._service.is_current(self._settings(), self._unit_text()):
            return ["the watcher of the GPUs is of another version, or has other settings"]
        return [] if status and installed.runs(status.get("pid"), HOME) else ["the watcher of the GPUs is not running"]

    def is_installed(self) -> bool:
        return self._service.is_installed()

    # -- changing ----------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Install the service and restart it."""
        self._load()  # if this node's Python cannot run the code, stop here
        former = self._service.settings() or {}
        self._service.install(self._settings())
        _zip_import.save_compiled(os.path.join(self.home, installed.CURRENT, PACKAGE))
        failure = self._service.start(self._unit_text())
        if former.get("textfile") != self._params.get("textfile"):
            card_metrics_file.remove(former.get("textfile"))
        if failure is not None:
            raise GpuSwarmError(
                "%s did not start: %s. The GPUs are advertised, but their health is not monitored. Check 'journalctl -u %s' and run this again, or "
                "set health: false (role: gpu_node_health)." % (UNIT, failure, UNIT)
            )

    def remove(self, channel: Channel, tasks: bool) -> str | None:
        """Stop the service, remove its label and its files. Return why the label cannot be removed, or None. ``tasks`` says whether tasks run here.
        Raises GpuSwarmError if the service does not stop."""
        failure = self._service.stop()
        if failure is not None:
            raise GpuSwarmError(
                "%s did not stop: %s. Nothing was changed. Check 'systemctl status %s', stop it, and run this again." % (UNIT, failure, UNIT)
            )
        if tasks and self._report_when() == FAULTS:
            reason: str | None = "an update of the node could make the swarm's leader stop a task here"
        else:
            reason = channel.clear() if os.path.isdir(self.home) else None
        card_metrics_file.remove((self._service.settings() or {}).get("textfile"))
        self._service.remove()
        return reason

    # -- parts -------------------------------------------------------------------------------------------------

    def _logged_errors(self) -> list[dict[str, Any]]:
        with open(pace.BOOT_ID, encoding="ascii") as stream:
            return pace.events_of_boot(read_mapping(os.path.join(self.home, pace.EVENTS)) or {}, stream.read().strip())

    def _settings(self) -> dict[str, Any]:
        """Return the watcher's settings. Keep the earlier values if the options do not say what the leader needs, or if dockerd is down."""
        earlier = self._service.settings() or {}
        derived = {"health_report": self._report_when(), "data_root": self._data_root or earlier.get("data_root")}
        derived["model"] = is_model_reported(self._params)
        return {**{name: self._params.get(name) for name in SETTINGS}, **derived}

    def _report_when(self) -> str:
        return self._params.get("health_report") or (self._service.settings() or {}).get("health_report") or FAULTS

    def _unit_text(self) -> bytes:
        """Return the unit. It has only the limits that every service has, because NVML and NVIDIA's programs may have to load the driver, create its
        devices and change /sys. The watcher also reads the kernel's log."""
        service = _SERVICE.replace("{command}", self._service.command())
        # Resolve links here, because systemd ignores a link below another writable directory.
        writable = [os.path.realpath(self._state.directory), os.path.dirname(os.path.realpath(self._params["daemon_config"]))]
        if self._params.get("textfile"):
            writable.append(os.path.realpath(self._params["textfile"]))
        return hardened.Unit(_NOTE, _DESCRIPTION, service, writable, _FAMILIES).text()
