# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does the work of the driver on a real machine: makes a device node for each GPU that NVML counts. A lost GPU keeps its node.

Runs at boot, and when the machine is swapped. Nothing makes /dev/nvidia-uvm at boot. The first program that needs it loads its module (`modprobe`,
`nvidia-modprobe`), and then the module has a line in the node's own /proc/devices.
"""

import ctypes
import os
import stat
import subprocess
from pathlib import Path

MAJOR = 195
CONTROL = {"nvidiactl": 255, "nvidia-modeset": 254}
# This file belongs to the node and has the driver's numbers. The modules that this machine has loaded do not matter.
DEVICES, OWN = Path("/proc/devices"), Path("/run/gpu-lab/devices")


def minors() -> list[int]:
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return []
    if nvml.nvmlInit_v2() != 0:
        return []
    count = ctypes.c_uint(0)
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    found = []
    for index in range(count.value):
        handle, minor = ctypes.c_void_p(), ctypes.c_uint()
        known = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
        known = known and nvml.nvmlDeviceGetMinorNumber(handle, ctypes.byref(minor)) == 0
        found.append(minor.value if known else index)
    return found


def own_devices() -> None:
    if OWN.exists():
        return
    OWN.parent.mkdir(parents=True, exist_ok=True)
    head, blocks = DEVICES.read_text().split("\n\n", 1)
    lines = [line for line in head.splitlines() if "nvidia" not in line]
    lines += [f"{MAJOR} {name}" for name in ("nvidia", "nvidia-modeset", "nvidiactl")]
    OWN.write_text("\n".join([*lines, "", blocks]))
    subprocess.run(["mount", "--bind", str(OWN), str(DEVICES)], check=True)


def main() -> None:
    own_devices()
    wanted = {f"nvidia{minor}": minor for minor in minors()}
    if wanted:
        wanted.update(CONTROL)
    for path in Path("/dev").glob("nvidia*"):
        if path.name not in wanted and not path.name.startswith("nvidia-uvm"):
            path.unlink()
    for name, minor in wanted.items():
        path = Path("/dev", name)
        if not path.exists():
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(MAJOR, minor))
            path.chmod(0o666)


main()
