# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that CUDA starts on this machine. Calls cuInit of the driver's libcuda, because NVML and nvidia-smi never use CUDA.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Mapping

from .. import _bounded, _files

LIBRARY = "libcuda.so.1"
# The package with libcuda, by the distribution's name in /etc/os-release.
PACKAGES = {
    "ubuntu": "libnvidia-compute-NNN (NNN is the driver's branch)",
    "debian": "libcuda1",
    "rhel": "nvidia-driver-cuda-libs",
    "fedora": "nvidia-driver-cuda-libs (RPM Fusion: xorg-x11-drv-nvidia-cuda-libs)",
    "suse": "nvidia-compute-G06",
}
_UNKNOWN_PACKAGE = "the part of NVIDIA's driver that contains it"
# The results of cuInit: the name in cuda.h, and the remedy.
_CODES = {
    100: ("CUDA_ERROR_NO_DEVICE", "Check 'nvidia-smi' and 'dmesg | grep -i nvrm'"),
    802: (
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "The node's NVSwitches are not initialised. Start NVIDIA's Fabric Manager in the driver's version (systemctl status nvidia-fabricmanager)",
    ),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "%s and the kernel module have different versions. Reboot the node" % LIBRARY),
    999: ("CUDA_ERROR_UNKNOWN", "Check 'dmesg | grep -i nvrm', try 'modprobe nvidia-uvm', or reboot the node"),
}
_HIDING_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def cuda_problem(limit_s: float, release: str = "/etc/os-release") -> str | None:
    """Return why CUDA does not start; None if it starts. libcuda may create missing devices, so check the devices first (_machine/uvm.py)."""
    try:
        result = _bounded.in_child(_init, limit_s)
    except TimeoutError as timeout:
        return (
            "CUDA gave no answer within %d s (cuInit); the process that called it was abandoned, and %s. Check 'dmesg | grep -i -e nvrm -e xid', and "
            "reboot the node if a GPU hangs" % (limit_s, timeout)
        )
    return describe_problem(result, _files.read_text(release))


def describe_problem(result: Mapping[str, Any], release: str) -> str | None:
    """Return the text for the result of _init(); None without a problem. ``release`` is the text of /etc/os-release (pure)."""
    if result["missing"] is not None:
        package = package_of_library(release)
        return "CUDA's library libcuda.so.1 cannot be loaded, so no task can use CUDA (%s). Install %s" % (result["missing"], package)
    code = result["code"]
    if code == 0:
        return None
    name, remedy = _CODES.get(code, ("see CUresult in NVIDIA's documentation of the CUDA driver API", _CODES[100][1]))
    return "CUDA does not start, though NVML works: cuInit returns %d (%s). %s" % (code, name, remedy)


def package_of_library(release: str) -> str:
    """Return the name of the package that contains the library (pure)."""
    fields = dict(line.partition("=")[::2] for line in release.splitlines())
    names = [name for key in ("ID", "ID_LIKE") for name in fields.get(key, "").strip("\"'").split()]
    return next((PACKAGES[name] for name in names if name in PACKAGES), _UNKNOWN_PACKAGE)


def _init() -> dict[str, Any]:
    for name in _HIDING_VARIABLES:  # this process may have inherited the variables
        os.environ.pop(name, None)
    try:
        library = ctypes.CDLL(LIBRARY)
        return {"missing": None, "code": library.cuInit(0)}
    except (OSError, AttributeError) as problem:
        return {"missing": str(problem), "code": None}
