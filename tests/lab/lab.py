# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The paths and addresses of one lab. Two labs with different roots share nothing, so they can run side by side."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent

# The lab has its own network (see daemon.py), so its addresses cannot clash with others on this machine.
SUBNET = "198.18.0.0/16"
GATEWAY = "198.18.0.1"
REPOSITORY_HOST = "lab-repo"  # every node resolves this name to the gateway


class LabError(Exception):
    """An error for the person at the terminal. The message says what to do."""


def _tag(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Lab:
    root: Path

    @classmethod
    def from_environment(cls) -> Lab:
        given = os.environ.get("GPU_SWARM_LAB_ROOT")
        if given:
            return cls(Path(given).resolve())
        return cls(Path("/var/lib/gpu-swarm-lab") / f"{CHECKOUT.name}-{_tag(CHECKOUT)}")

    @property
    def name(self) -> str:
        return f"gpu-swarm-lab-{_tag(self.root)}"

    @property
    def run(self) -> Path:
        """Return the folder of sockets and pid files. Its path is short, because the path of a Unix socket may have at most 107 characters."""
        return Path("/run") / self.name

    @property
    def socket(self) -> Path:
        return self.run / "docker.sock"

    @property
    def docker_host(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pidfile(self) -> Path:
        return self.run / "init.pid"

    @property
    def nodes(self) -> Path:
        """Return the folder with the container id of each node, in a file with the node's name. enter/docker reads these files."""
        return self.run / "nodes"

    @property
    def log(self) -> Path:
        return self.root / "dockerd.log"

    @property
    def repository(self) -> Path:
        """Return the folder that http://lab-repo/ serves."""
        return self.root / "repository"

    @property
    def fleets(self) -> Path:
        """Return the folder with a subfolder for each running fleet."""
        return self.root / "fleets"


def cache() -> Path:
    given = os.environ.get("GPU_SWARM_LAB_CACHE")
    return Path(given) if given else Path("~/.cache/gpu-swarm-lab").expanduser()


def output(fleet: str) -> Path:
    """Return the folder with the inventory and other files for the user of a fleet."""
    return CHECKOUT / "build" / "lab" / fleet
