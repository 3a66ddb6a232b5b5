# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks what a failed run must not change."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .fleet import Fleet, Node

DOCKERD = "/usr/sbin/dockerd"
LABEL = re.compile(rb'"fleet\.gpu-swarm\.health=[^"]*"')


@dataclass(frozen=True)
class State:
    """Return everything that a failed run must not change."""

    files: dict[str, bytes | None]
    started: str
    swarm: str

    @property
    def unwatched(self) -> State:
        """Return the state without the label of the node's watcher, because this label can change at any time."""
        files = {path: data and LABEL.sub(b"", data) for path, data in self.files.items()}
        return replace(self, files=files)

    @classmethod
    def of(cls, node: Node) -> State:
        started = node.started()
        return cls(node.files(), started, node.swarm()["LocalNodeState"] if started else "")


def leave_swarm(fleet: Fleet, name: str) -> None:
    """Remove a node from the swarm again."""
    node_id = fleet[name].swarm()["NodeID"]
    fleet[name].leave()
    if node_id:
        fleet["m1"].docker("node", "rm", "--force", node_id)
