# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether CUDA starts on this machine, by cuInit of the driver's libcuda. NVML and nvidia-smi never call it.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Mapping

from .. import _bounded, _files

LIBRARY = "libcuda.so.1"
# Which package of the driver has it, by what /etc/os-release calls the distribution.
PACKAGES = {
    "ubuntu": "libnvidia-compute-NNN, with the driver's branch for NNN",
    "debian": "libcuda1",
    "rhel": "nvidia-driver-cuda-libs",
    "fedora": "nvidia-driver-cuda-libs, of RPM Fusion xorg-x11-drv-nvidia-cuda-libs",
    "suse": "nvidia-compute-G06",
}
_OTHER = "the part of NVIDIA's driver that has it"
# What cuInit returns, as cuda.h names it, and the remedy.
_CODES = {
    100: ("CUDA_ERROR_NO_DEVICE", "Check 'nvidia-smi' and 'dmesg | grep -i nvrm'"),
    802: (
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "The node's NVSwitches are not initialised. Start NVIDIA's Fabric Manager, of the driver's version (systemctl status nvidia-fabricmanager)",
    ),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "%s is of another version than the kernel module. Reboot the node" % LIBRARY),
    999: ("CUDA_ERROR_UNKNOWN", "Check 'dmesg | grep -i nvrm', try 'modprobe nvidia-uvm', or reboot the node"),
}
_HIDES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def problem(limit_s: float, release: str = "/etc/os-release") -> str | None:
    """Why CUDA does not start, in words; None if it does. libcuda may make devices that are missing, so look at those first (_machine/uvm.py)."""
    try:
        found = _bounded.in_child(_init, limit_s)
    except TimeoutError as fate:
        return (
            "CUDA gave no answer within %d s (cuInit); the process that called it was abandoned, and %s. Check 'dmesg | grep -i -e nvrm -e xid', and "
            "reboot the node if a GPU hangs" % (limit_s, fate)
        )
    return in_words(found, _files.text(release))


def in_words(found: Mapping[str, Any], release: str) -> str | None:
    """``found`` is what _init returned, ``release`` the text of /etc/os-release (pure)."""
    if found["missing"] is not None:
        return "CUDA's library libcuda.so.1 cannot be loaded, so no task can use CUDA (%s). Install %s" % (found["missing"], package(release))
    code = found["code"]
    if code == 0:
        return None
    name, remedy = _CODES.get(code, ("see CUresult in NVIDIA's documentation of the CUDA driver API", _CODES[100][1]))
    return "CUDA does not start, though NVML works: cuInit returns %d (%s). %s" % (code, name, remedy)


def package(release: str) -> str:
    """The package that has the library, in words (pure)."""
    fields = dict(line.partition("=")[::2] for line in release.splitlines())
    names = [name for key in ("ID", "ID_LIKE") for name in fields.get(key, "").strip("\"'").split()]
    return next((PACKAGES[name] for name in names if name in PACKAGES), _OTHER)


def _init() -> dict[str, Any]:
    for name in _HIDES:  # they may be set where this is run
        os.environ.pop(name, None)
    try:
        library = ctypes.CDLL(LIBRARY)
        return {"missing": None, "code": library.cuInit(0)}
    except (OSError, AttributeError) as problem:
        return {"missing": str(problem), "code": None}
