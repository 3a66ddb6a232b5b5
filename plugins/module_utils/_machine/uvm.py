# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the device /dev/nvidia-uvm. Without this device CUDA does not start, although NVML works.

No service creates the device at boot. Until 1.17, NVIDIA's toolkit loaded the kernel module and created the device for the first container. Since
1.18, the toolkit's default mode does neither (NVIDIA/nvidia-container-toolkit#1967, #1743). Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from .. import _files

DEVICE_PATH = "dev/nvidia-uvm"
# If one of these files exists, CUDA does not need the device. The files exist in WSL and with the driver of Jetson.
NOT_NEEDED_WITH = ("dev/dxg", "sys/module/nvgpu")


class UvmState(NamedTuple):
    """The state of the device /dev/nvidia-uvm."""

    device_major: int | None  # the major number of the device; None without a device
    module_major: int | None  # the major number of the kernel module; None if it is not loaded
    needed: bool = True


def read_uvm(root: str = "/") -> UvmState:
    """Read the state of the device. ``root`` is the machine's root directory."""
    needed = not any(os.path.exists(os.path.join(root, path)) for path in NOT_NEEDED_WITH)
    return UvmState(_read_major(os.path.join(root, DEVICE_PATH)), parse_major(_files.read_text(os.path.join(root, "proc/devices"))), needed)


def uvm_problem(device: UvmState) -> str | None:
    """Return why CUDA cannot use the device; None if CUDA can use the device or does not need it."""
    if not device.needed or (device.device_major is not None and device.device_major == device.module_major):
        return None
    if device.module_major is None:
        return "the kernel module nvidia-uvm is not loaded (/proc/devices)"
    if device.device_major is None:
        return "the device /dev/nvidia-uvm does not exist"
    return "the device /dev/nvidia-uvm has major number %d, and the kernel module has %d (/proc/devices)" % (device.device_major, device.module_major)


def parse_major(devices: str) -> int | None:
    """Return the kernel module's major number, from the text of /proc/devices."""
    match = re.search(r"^\s*(\d+) nvidia-uvm$", devices, re.MULTILINE)
    return int(match.group(1)) if match else None


def _read_major(path: str) -> int | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return os.major(status.st_rdev) if stat.S_ISCHR(status.st_mode) else None
