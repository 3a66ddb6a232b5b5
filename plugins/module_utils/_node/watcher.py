# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's service on a node: gpu-swarm-health.service, its code and its settings, put there, compared and removed.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, NamedTuple

from .. import _zip_import
from .._dockerd.docker_unit import Run
from .._errors import GpuSwarmError
from .._files import Move, read_mapping
from .._health import pace
from .._program import installed
from .._program.code import PACKAGE, Code
from .._program.installer import Service
from .._program.unit import Unit
from .channel import Channel
from .fault import is_model_reported
from .journal import State
from .watcher_state import FAULTS, HOME, NOT_INSTALLED, STATUS, WatcherSeen, is_wanted

UNIT = "gpu-swarm-health.service"
CODE = Code("_watch/commands.py")
ALLOCATIONS = "run/gpu-swarm/allocations.json"
# What of the module's options the watcher goes by.
SETTINGS = (
    "daemon_config", "runtime_config", "docker_socket", "docker_unit", "nvml_path", "nvml_timeout", "health_faults", "health_ignored", "idle_after",
    "isolation_allow", "accept_risks",
)  # fmt: skip

_UNIT = """\
# Made by the Ansible collection fleet.gpu_swarm; it is written anew. To stop it for work of your own on a GPU (a reset, a change of MIG, a
# driver): systemctl stop gpu-swarm-health
[Unit]
Description=Reports faults of this node's GPUs to the managers of its Docker swarm
After=docker.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command} watch
ExecStopPost={command} stopped
Restart=always
RestartSec=10
WatchdogSec=180
KillMode=mixed
TimeoutStopSec=60
RuntimeDirectory=gpu-swarm
RuntimeDirectoryMode=0700

[Install]
WantedBy=multi-user.target
"""


class Machine(NamedTuple):
    """How a node is changed. ``root`` is where its files lie, ``load`` imports the code that the service will run, ``data_root`` is dockerd's
    directory, None where that is not known now."""

    run: Run
    move: Move
    root: str
    load: Callable[[], Any]
    data_root: str | None = None


class Watcher:
    """The service of one node."""

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

    def inspect(self, blocked: str | None, label: str | None = None) -> WatcherSeen:
        """``label`` is what dockerd shows, ``blocked`` why that cannot be changed."""
        status = read_mapping(self._status)
        findings = (read_mapping(self._allocations) or {}).get("found") or ()
        missing = is_wanted(self._params) and not self.is_there()
        drift = [NOT_INSTALLED] if missing else self._drift(status)
        return WatcherSeen(drift, blocked, status, label, self._errors(), findings, missing)

    def _drift(self, status: Mapping[str, Any] | None) -> list[str]:
        """Of a watcher that is there, or is not to be."""
        state = self._params["state"]
        if state == "gathered" or (self._params["restart"] == "never" and state != "absent"):
            return []
        if not is_wanted(self._params):
            return ["the watcher of the GPUs is still installed"] if self.is_there() else []
        if not self._service.is_current(self._settings(), self._unit_text()):
            return ["the watcher of the GPUs is of another version, or has other settings"]
        return [] if status and installed.runs(status.get("pid"), HOME) else ["the watcher of the GPUs is not running"]

    def is_there(self) -> bool:
        return self._service.is_there()

    # -- changing ----------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Puts it there, and starts it anew."""
        self._load()  # what this node's Python cannot run is not installed
        self._service.keep(self._settings())
        _zip_import.save_compiled(os.path.join(self.home, installed.CURRENT, PACKAGE))
        failure = self._service.start(self._unit_text())
        if failure is not None:
            raise GpuSwarmError(
                "%s did not start: %s. The GPUs are advertised, and nothing watches them. Check 'journalctl -u %s' and run this again; or "
                "set health: false (role: gpu_node_health) to do without it." % (UNIT, failure, UNIT)
            )

    def remove(self, channel: Channel, tasks: bool) -> str | None:
        """Stops it, has the managers see no label any more, and removes all of it. Returns why they still see one, or None. ``tasks``: some
        run here. Raises GpuSwarmError where it does not stop."""
        failure = self._service.stop()
        if failure is not None:
            raise GpuSwarmError(
                "%s did not stop: %s. Nothing was changed. Check 'systemctl status %s', stop it, and run this again." % (UNIT, failure, UNIT)
            )
        if tasks and self._report() == FAULTS:
            left: str | None = "the swarm's leader may stop one of the tasks here for the update of the node"
        else:
            left = channel.clear() if os.path.isdir(self.home) else None
        self._service.remove()
        return left

    # -- parts -------------------------------------------------------------------------------------------------

    def _errors(self) -> list[dict[str, Any]]:
        with open(pace.BOOT_ID, encoding="ascii") as stream:
            return pace.events_of_boot(read_mapping(os.path.join(self.home, pace.EVENTS)) or {}, stream.read().strip())

    def _settings(self) -> dict[str, Any]:
        """Some are as they were, where nobody says: a single node cannot know who leads the swarm, nor a daemon that is down where its data is."""
        kept = self._service.settings() or {}
        known = {"health_report": self._report(), "data_root": self._data_root or kept.get("data_root")}
        known["model"] = is_model_reported(self._params)
        return {**{name: self._params.get(name) for name in SETTINGS}, **known}

    def _report(self) -> str:
        return self._params.get("health_report") or (self._service.settings() or {}).get("health_report") or FAULTS

    def _unit_text(self) -> bytes:
        return _UNIT.replace("{command}", self._service.command()).encode("utf-8")
