# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many hosts on this machine. Each has its own files, which its modules see in a separate mount namespace.

The modules are the collection's. The files are real: daemon.json, the toolkit's config.toml, the units of systemd, and their state. NVML is the lab's
library. The driver's device for CUDA exists, as on a machine with the driver. dockerd (docker.py) and three programs are simulated: systemctl records
a restart of dockerd, nvidia-ctk prints a version, and the program dockerd accepts any file.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.lab.lab import CHECKOUT

from .api import SOCKET

NVML = CHECKOUT / "tests" / "lab" / "nvml"
UVM_MAJOR = 511
CPU = "hosts-cpu"  # the file with the CPU times of all programs that ran on hosts
PROGRAMS = {
    "systemctl": """
case "$1 $2" in
"show --property")
    printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nJob=\\nNRestarts=0\\nMainPID=0\\n'
    printf 'ActiveEnterTimestampMonotonic=%s\\n' "$(stat -c %Y "$SIMULATED_HOST/restarts")" ;;
"reset-failed docker.service" | "reset-failed gpu-swarm-devices.service" | "restart gpu-swarm-devices.service") ;;
"restart docker.service") printf . >>"$SIMULATED_HOST/restarts" ;;
*) echo "simulated systemctl: $*" >&2; exit 1 ;;
esac
""",
    "nvidia-ctk": "echo 'NVIDIA Container Toolkit CLI version 1.20.0'\n",
    "dockerd": "",
}
# The Python of a host. It sees the host's /var/lib and units, and the driver's device. Its CPU time is recorded apart from that of Ansible on the
# controller.
ENTER = """
set -e
mount --bind "$SIMULATED_HOST/var-lib" /var/lib
mount --bind "$SIMULATED_HOST/units" /etc/systemd/system
mount --bind {root}/programs /usr/local/sbin
mount --bind {root}/devices /proc/devices
mount --types overlay overlay --options lowerdir={root}/dev:/dev /dev
set +e
PATH=/usr/local/sbin:$PATH {python} "$@"
status=$?
times >>{root}/{cpu}
exit $status
"""


def make(root: Path, count: int) -> list[Path]:
    """Make the folders of this number of hosts."""
    library, programs = root / "nvml", root / "programs"
    subprocess.run(["make", "-s", "-C", NVML, f"OUT={library}"], check=True)
    programs.mkdir()
    for name, text in PROGRAMS.items():
        _program(programs / name, text)
    (root / "devices").write_text(f"Character devices:\n{UVM_MAJOR} nvidia-uvm\n")
    (root / "dev").mkdir()
    os.mknod(root / "dev" / "nvidia-uvm", stat.S_IFCHR | 0o666, os.makedev(UVM_MAJOR, 0))
    _program(root / "enter", ENTER.format(root=shlex.quote(str(root)), python=shlex.quote(sys.executable), cpu=CPU))
    (root / CPU).touch()
    return [_host(root, f"n{number}") for number in range(1, count + 1)]


def _host(root: Path, name: str) -> Path:
    folder = root / name
    (folder / "var-lib").mkdir(parents=True)
    (folder / "units").mkdir()
    (folder / "restarts").touch()
    (folder / "daemon.json").write_text('{"log-driver": "local"}\n')
    (folder / "config.toml").write_text('[nvidia-container-runtime]\nmode = "auto"\n')
    (folder / "nvml.conf").write_text(f"seed = {name}\n" + (NVML / "fleet" / "h100x8.conf").read_text())
    settings = {"SIMULATED_HOST": folder, "GPU_LAB_NVML": folder / "nvml.conf"}
    words = " ".join(f"{key}={shlex.quote(str(value))}" for key, value in settings.items())
    _program(folder / "python", f'{words} exec unshare --mount /bin/sh {shlex.quote(str(root / "enter"))} "$@"\n')
    return folder


def _program(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def inventory(root: Path, folders: list[Path]) -> Path:
    """Return an inventory without the services between two runs, because they would be installed into this machine's systemd."""
    common = {
        "ansible_connection": "local",
        "ansible_become": False,
        "gpu_node_nvml_path": str(root / "nvml" / "libnvidia-ml.so.1"),
        "gpu_node_health": False,
        "swarm_member_react": False,
        "gpu_swarm_record": False,
        "gpu_swarm_isolation": "off",
    }
    hosts: dict[str, Any] = {folder.name: _variables(folder) for folder in folders}
    children = {"swarm_managers": {"hosts": {folders[0].name: None}}, "gpu_nodes": {"hosts": hosts}}
    path = root / "inventory.yml"
    path.write_text(yaml.safe_dump({"all": {"vars": common, "children": children}}))
    return path


def _variables(folder: Path) -> dict[str, str]:
    return {
        "ansible_python_interpreter": str(folder / "python"),
        "gpu_node_docker_socket": str(folder / SOCKET),
        "gpu_node_daemon_config": str(folder / "daemon.json"),
        "gpu_node_runtime_config": str(folder / "config.toml"),
    }


def cpu_seconds(text: bytes) -> float:
    """Return the seconds in output of the shell's 'times': two lines of user and system time for each call, such as 1m2.345s."""
    parts = (word.rstrip("s").split("m") for word in text.decode().split())
    return sum(60 * float(minutes) + float(seconds) for minutes, seconds in parts)
