# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher of a node, as far as every call needs it: whether there is to be one, what it reports, and what was found of it.

Most nodes have none, and a node's code is compiled at each call: the rest is loaded where there is or was one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Sequence

from .._files import read_mapping
from .journal import INSERTED

# Below the state directory: all that the watcher has on a node.
HOME = "health"
STATUS = "run/gpu-swarm/health.json"
# The label's key in the record of daemon.json.
NOTED = "label"
# What the watcher reports while tasks run here: each label is an update of the node, for which an old leader may stop a task.
ALL, FAULTS = "all", "faults"
NOT_INSTALLED = "the watcher of the GPUs is not installed"


def reported(root: str) -> str | None:
    """The label that it wants the managers to see; None where none runs."""
    return (read_mapping(os.path.join(root, STATUS)) or {}).get("label")


def is_wanted(params: Mapping[str, Any]) -> bool:
    """Whether this node is to have a watcher: one that advertises GPUs, and whose services are not left alone."""
    return bool(params.get("health") and params["state"] == "present" and params["advertise"] and params["restart"] == "if_needed")


def concerns(params: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether this node is to have one, or its label is on record."""
    return is_wanted(params) or any(NOTED in entry[INSERTED] for entry in record.values())


class WatcherSeen(NamedTuple):
    """What was found of it."""

    drift: Sequence[str]  # how it differs from what is wanted, in words
    blocked: str | None  # why its label cannot be changed now
    status: dict[str, Any] | None  # what it wrote of itself last
    shown: str | None = None  # the label that the managers see
    errors: Sequence[Mapping[str, Any]] = ()  # of cards, as the driver logged them since the node booted; they outlast the service
    allocation_findings: Sequence[Any] = ()  # what it found where processes and reservations differ
    missing: bool = False  # whether there is none, and is to be one

    def report(self) -> dict[str, Any] | None:
        """What the watcher reports of this node's GPUs, as the module returns it; None where none runs."""
        if not self.status:
            return None
        of_status = {name: self.status.get(name) for name in ("label", "blocked", "reasons", "report")}
        return {**of_status, "shown": self.shown, "allocation_findings": list(self.allocation_findings)}
