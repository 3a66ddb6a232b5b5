# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installs, checks and removes gpu-swarm-devices.service, which creates at boot the devices that CUDA needs.

NVIDIA's own service creates these devices in releases after 1.20.0 (commit 8269969f of NVIDIA/nvidia-container-toolkit).
Private to this collection; it may change without notice.
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
from .devices_state import DevicesState, is_wanted

UNIT = "gpu-swarm-devices.service"
SERVICE = "the service that creates CUDA's devices at boot (%s)" % UNIT

# The dash before each command means that the command may fail. systemd ends the service after a minute. Before 1.18, create-device-nodes stops at the
# first device that exists. nvidia-modprobe, which is part of the driver, creates the remaining devices and replaces a device with a wrong major
# number. If nvidia-modprobe is not installed, nvidia-container-cli creates the device, as it does for a container in the legacy mode
# (load_kernel_modules in nvc.c).
_UNIT = """\
# Written by the Ansible collection fleet.gpu_swarm, which overwrites changes.
[Unit]
Description=Loads nvidia-uvm and creates the devices that CUDA needs
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
    """The service that creates the devices for CUDA on one node. ``root`` is the root of the machine's files."""

    def __init__(self, params: Mapping[str, Any], run: Run, move: Move, root: str) -> None:
        self._params = params
        self._root = root
        self._unit = Unit(UNIT, run, move, root)

    def inspect(self) -> DevicesState:
        state = self._params["state"]
        if state == "gathered" or (self._params["restart"] == "never" and state != "absent"):
            return DevicesState()
        if not is_wanted(self._params):
            return DevicesState([SERVICE + " is still installed"] if self._unit.is_installed() else [])
        problem = uvm.uvm_problem(uvm.read_uvm(self._root))
        broken = ["%s: CUDA does not start, though NVML works" % problem] if problem else []
        if not self._unit.is_current(self._text()):
            return DevicesState([SERVICE + (" is of another version" if self._unit.is_installed() else " is not installed"), *broken], problem)
        return DevicesState(broken, problem)

    def install(self) -> None:
        """Install the service and run it. Afterwards the caller must check whether the devices exist."""
        self._unit.start(self._text())

    def remove(self) -> None:
        """Remove the service, but not the devices, because the devices belong to the driver."""
        self._unit.stop()
        self._unit.remove()

    def _text(self) -> bytes:
        return _UNIT.format(docker=self._params["docker_unit"], ctk=_CTK).encode("utf-8")


def check(devices: DevicesState) -> None:
    """Raise GpuSwarmError if CUDA does not start although the service has run."""
    if devices.problem:
        raise GpuSwarmError(
            "%s. The GPUs are advertised, but CUDA does not start in any task here (cuInit: 999), though nvidia-smi works. %s has run, but could "
            "not create the device: see 'journalctl -u %s', and try 'modprobe nvidia-uvm' and 'dmesg | grep -i nvrm'. Then run this again."
            % (devices.problem, UNIT, UNIT),
            fault=format_label(Label(FAULT, reason=UVM)),
        )
