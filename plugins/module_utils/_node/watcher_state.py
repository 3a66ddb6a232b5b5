# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node's watcher, whether the node needs a watcher, and the watcher's report.

Each call on a node loads this file, so it is small. The other files about the watcher are loaded only if the node has, had or gets a watcher.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple, Sequence

from .._files import read_mapping
from .journal import INSERTED

# The watcher's directory, below the state directory.
HOME = "health"
STATUS = "run/gpu-swarm/health.json"
# What the cards are doing: {"version", "at", "cards": [a row of _gpu/activity]}. "at" is in seconds since 1970, by the node's clock.
CARDS = "run/gpu-swarm/cards.json"
# The label's key in the record of daemon.json.
LABEL_KEY = "label"
# The labels that the watcher writes while tasks run here. For swarm, each new label is an update of the node. A leader
# with Docker before 23.0.2 may stop a task at such an update.
ALL, FAULTS = "all", "faults"
NOT_INSTALLED = "the watcher of the GPUs is not installed"


def reported_label(root: str) -> str | None:
    """Return the label that the watcher wants the managers to see; None if no watcher runs."""
    return (read_mapping(os.path.join(root, STATUS)) or {}).get("label")


def is_wanted(params: Mapping[str, Any]) -> bool:
    """Return whether this node needs a watcher: it advertises GPUs, and its services may be changed."""
    return bool(params.get("health") and params["state"] == "present" and params["advertise"] and params["restart"] == "if_needed")


def is_wanted_or_recorded(params: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Return whether this node needs a watcher, or has a watcher's label on record."""
    return is_wanted(params) or any(LABEL_KEY in entry[INSERTED] for entry in record.values())


class WatcherState(NamedTuple):
    """The state of the watcher that one inspection has read."""

    drift: Sequence[str]  # a sentence for each difference from the wanted watcher
    blocked: str | None  # why the watcher's label cannot be changed now
    status: dict[str, Any] | None  # the watcher's status file
    shown: str | None = None  # the label that the managers see
    errors: Sequence[Mapping[str, Any]] = ()  # errors of cards that the driver has logged since the boot, even before the watcher started
    allocation_findings: Sequence[Any] = ()  # differences between processes and reservations
    missing: bool = False  # whether the node needs a watcher but has none

    def report(self) -> dict[str, Any] | None:
        """Return the watcher's report about this node's GPUs for the module's result; None if no watcher runs."""
        if not self.status:
            return None
        from_status = {name: self.status.get(name) for name in ("label", "blocked", "reasons", "report")}
        return {**from_status, "shown": self.shown, "allocation_findings": list(self.allocation_findings)}
