# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulates faults on the GPUs of watched nodes, and reads the watchers' reports from a manager."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab import stuck

from .fleet import Node, wait_until

MACHINE = "/etc/gpu-lab/nvml.conf"
UNIT = "gpu-swarm-health.service"
KEY = "fleet.gpu-swarm.health"
WITHIN_S = 40  # limit from a fault to the pause
CALM_S = 120  # limit from one label to the next, if the fault is the same
STUCK = "/run/stuck"


def replace(node: Node, old: str, new: str) -> float:
    """Give a node the GPUs of another machine. Return the time of that change."""
    machine = (node.read(MACHINE) or b"").decode()
    assert old in machine
    node.write(MACHINE, machine.replace(old, new).encode())
    return time.monotonic()


def reported(manager: Node, node: Node) -> str:
    """Return the node's GPUs as the manager shows them."""
    found = manager.docker_json("node", "inspect", node.swarm()["NodeID"])[0]
    return (found["Description"]["Engine"].get("Labels") or {}).get(KEY, "")


def status(node: Node) -> dict[str, Any]:
    return json.loads(node.read("/run/gpu-swarm/health.json") or b"{}")


def readers(node: Node) -> list[str]:
    """Return the processes that read NVML for the watcher."""
    main = node.run("systemctl", "show", "--property", "MainPID", "--value", UNIT)
    found = node.run("pgrep", "--full", "gpu-swarm/health/current watch").split()
    return [one for one in found if one != main]


@contextmanager
def hanging_in_the_kernel(node: Node) -> Iterator[None]:
    """Make every process that uses NVML wait in the kernel, where no signal ends it."""
    node.write("/run/stuck.py", Path(stuck.__file__).read_bytes())
    node.run("systemd-run", "--collect", "--quiet", "--unit", "stuck", "python3", "/run/stuck.py", STUCK)
    wait_until("the file system", lambda: STUCK in node.run("cat", "/proc/mounts"))
    # Do not use mv or ln, because they would follow the link.
    swap = "import os, sys; os.rename(*sys.argv[1:3]); os.symlink(sys.argv[3], sys.argv[1])"
    # The watcher has a separate mount namespace, and systemd in a container passes no mount on to it. So this changes the mounts of the first
    # process.
    node.run("python3", "-c", swap, MACHINE, MACHINE + ".kept", f"/proc/1/root{STUCK}/nvml.conf")
    try:
        yield
    finally:
        node.run("python3", "-c", "import os, sys; os.rename(*sys.argv[1:])", MACHINE + ".kept", MACHINE)
        node.run("systemctl", "stop", "stuck.service")
        node.run("umount", "--lazy", STUCK)
