# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvidia-ctk system create-device-nodes: the control devices of the driver, and its modules."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

from .versions import does

MODULES = ("nvidia", "nvidia-uvm", "nvidia-modeset")
# For each device: the name in /proc/devices for its major number, and its minor number.
CONTROL = {"nvidiactl": ("nvidia", 255), "nvidia-modeset": ("nvidia", 254), "nvidia-uvm": ("nvidia-uvm", 0), "nvidia-uvm-tools": ("nvidia-uvm", 1)}
UVM = ("nvidia-uvm", "nvidia-uvm-tools")


class Failed(Exception):
    """The error that ends the real program."""


def run(argv: list[str], version: str) -> None:
    if argv[:1] != ["create-device-nodes"]:
        raise Failed("the lab's stand-in knows of 'system' only create-device-nodes")
    if "--load-kernel-modules" in argv:
        for module in MODULES:
            load(module)
    if "--control-devices" in argv:
        for name in CONTROL:
            make(name, keep=does(version, "keeps-devices-that-exist"))


def load(module: str) -> None:
    done = subprocess.run(["/sbin/modprobe", module], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"failed to load NVIDIA kernel modules: failed to load module {module}: exit status {done.returncode}")


def make(name: str, keep: bool = True, home: str = "/dev", devices: str = "/proc/devices") -> None:
    module, minor = CONTROL[name]
    found = re.search(rf"^\s*(\d+) {module}$", Path(devices).read_text(), re.MULTILINE)
    path = os.path.join(home, name)
    problem = f"failed to create NVIDIA control device nodes: failed to create device node {name}: "
    if not found:
        raise Failed(problem + "failed to determine major: invalid device node")
    if os.path.exists(path):
        if keep:  # even if the device's number differs
            return
        raise Failed(problem + "file exists")
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(int(found[1]), minor))
    os.chmod(path, 0o666)


def uvm(home: str = "/dev") -> list[tuple[str, int, int]]:
    """Return the existing devices of nvidia-uvm: path, major and minor number."""
    found = [(f"/dev/{name}", os.path.join(home, name)) for name in UVM if os.path.exists(os.path.join(home, name))]
    return [(path, os.major(os.stat(there).st_rdev), os.minor(os.stat(there).st_rdev)) for path, there in found]


def make_uvm() -> None:
    """Load the module and make its devices, as nvidia-container-cli does before each container (load-kmods). Ignore failures."""
    try:
        load("nvidia-uvm")
        for name in UVM:
            make(name)
    except (Failed, OSError):
        return
