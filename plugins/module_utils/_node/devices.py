# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, compares and removes gpu-swarm-devices.service, which creates the devices that CUDA needs at boot.

NVIDIA's own service does this in releases after 1.20.0 (commit 8269969f of NVIDIA/nvidia-container-toolkit).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._dockerd.docker_unit import Run
from .._errors import GpuSwarmError
from .._files import Move
from .._health.label import FAULT, Label, format_label
from .._health.verdict import UVM
from .._machine import uvm
from .._program.unit import Unit
from .devices_state import DevicesSeen, is_wanted

UNIT = "gpu-swarm-devices.service"
MAKES = "the service that makes CUDA's devices at boot (%s)" % UNIT

# Best effort: each command may fail (the dash before it), none of them for longer than a minute. Before 1.18 create-device-nodes ends at the
# first device that exists; nvidia-modprobe, which comes with the driver, makes what is missing then, and replaces one with another major number.
# If it is not installed, nvidia-container-cli makes the device as for a container of the legacy mode (load_kernel_modules in nvc.c).
_UNIT = """\
# Made by the Ansible collection fleet.gpu_swarm; it is written anew.
[Unit]
Description=Loads nvidia-uvm and makes the devices without which CUDA does not start
After=dkms.service systemd-modules-load.service
Before={docker}
ConditionPathExists=!/dev/dxg
ConditionPathExists=!/sys/module/nvgpu

[Service]
Type=oneshot
ExecStart=-/bin/sh -c '{ctk} --load-kernel-modules || {ctk}'
ExecStart=-/bin/sh -c 'nvidia-modprobe -u -c 0 || nvidia-container-cli --load-kmods info >/dev/null'
TimeoutStartSec=60
TimeoutStopSec=10

[Install]
WantedBy=multi-user.target
"""
_CTK = "nvidia-ctk system create-device-nodes --control-devices"


class Devices:
    """The service of one node. ``root`` is where the machine's files lie."""

    def __init__(self, params: Mapping[str, Any], run: Run, move: Move, root: str) -> None:
        self._params = params
        self._root = root
        self._unit = Unit(UNIT, run, move, root)

    def inspect(self) -> DevicesSeen:
        state = self._params["state"]
        if state == "gathered" or (self._params["restart"] == "never" and state != "absent"):
            return DevicesSeen()
        if not is_wanted(self._params):
            return DevicesSeen([MAKES + " is still installed"] if self._unit.is_there() else [])
        problem = uvm.uvm_problem(uvm.read_uvm(self._root))
        broken = ["%s: CUDA does not start, though NVML works" % problem] if problem else []
        if not self._unit.is_current(self._text()):
            return DevicesSeen([MAKES + (" is of another version" if self._unit.is_there() else " is not installed"), *broken], problem)
        return DevicesSeen(broken, problem)

    def install(self) -> None:
        """Install the service and run it. Inspect the devices to see whether it helped."""
        self._unit.start(self._text())

    def remove(self) -> None:
        """Remove the service. The devices stay, because they belong to the driver."""
        self._unit.stop()
        self._unit.remove()

    def _text(self) -> bytes:
        return _UNIT.format(docker=self._params["docker_unit"], ctk=_CTK).encode("utf-8")


def check(seen: DevicesSeen) -> None:
    """Raise GpuSwarmError if CUDA does not start although the service has run."""
    if seen.problem:
        raise GpuSwarmError(
            "%s. The GPUs are advertised, but CUDA does not start in any task here (cuInit: 999), though nvidia-smi works. %s has run and could "
            "not make it: see 'journalctl -u %s', and try 'modprobe nvidia-uvm' and 'dmesg | grep -i nvrm'. Then run this again."
            % (seen.problem, UNIT, UNIT),
            fault=format_label(Label(FAULT, reason=UVM)),
        )
