# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the files that the services of this machine keep up to date: the snapshot of the swarm, and the readings of this machine's cards.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._view.record_text import CHECK, age_warnings
from .._view.times import duration

RECORD = "/var/lib/gpu-swarm/record"
SNAPSHOT = "snapshot.json"
CARDS = "/run/gpu-swarm/cards.json"
VERSION = 1
CARDS_OLD_S = 120  # older readings of cards are not shown


class Snapshot(NamedTuple):
    """The swarm as a manager read it at ``at`` (seconds since 1970, by the clock of this manager). ``leads``: whether this manager led the swarm."""

    at: float
    manager: str
    leads: bool
    status: Mapping[str, Any]
    cards: Sequence[Mapping[str, Any]]

    def source(self) -> dict[str, Any]:
        return {"at": self.at, "manager": self.manager, "leads": self.leads}


def read_snapshot(directory: str) -> Snapshot:
    """Return the last snapshot of this machine. Raises GpuSwarmError with one sentence that says what to do."""
    path = os.path.join(directory, SNAPSHOT)
    content = _read_json(directory, path)
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise GpuSwarmError("%s was written by another release of this collection. Run provision again." % path)
    try:
        return Snapshot(float(content["at"]), str(content["manager"]), bool(content["leads"]), dict(content["status"]), list(content["cards"]))
    except (KeyError, TypeError, ValueError) as problem:
        raise GpuSwarmError("%s is damaged: %r. %s" % (path, problem, CHECK)) from problem


def _read_json(directory: str, path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except PermissionError:
        raise GpuSwarmError("You may not read %s. Become root, or a member of the group docker." % path) from None
    except (FileNotFoundError, NotADirectoryError):
        if os.path.isdir(directory):
            raise GpuSwarmError("The swarm was not read yet: %s does not exist. %s" % (path, CHECK)) from None
        missing = "Nothing is recorded on this machine: %s does not exist. Use a manager, and set gpu_swarm_record to true." % directory
        raise GpuSwarmError(missing) from None
    except OSError as problem:
        raise GpuSwarmError("%s cannot be read: %s." % (path, problem.strerror)) from None
    except (ValueError, RecursionError):
        raise GpuSwarmError("%s is damaged: it is not JSON. %s" % (path, CHECK)) from None


def age_notes(snapshot: Snapshot, now: float) -> list[str]:
    """Say how old the snapshot is, and why if it is old."""
    seconds = now - snapshot.at
    warnings = age_warnings(seconds)
    notes = ["Read %s ago by %s." % (duration(max(0.0, seconds)), snapshot.manager), *warnings]
    if not warnings and not snapshot.leads:
        notes.append("It does not lead, so it reads only every ten minutes.")
    return notes


def read_cards(path: str, now: float) -> dict[str, Mapping[str, Any]]:
    """Return the readings of this machine's cards by UUID. {} without fresh readings, because few managers have cards."""
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        if content["version"] != VERSION or not 0 <= now - content["at"] <= CARDS_OLD_S:
            return {}
        return {str(card["uuid"]): card for card in content["cards"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
