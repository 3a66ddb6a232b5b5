# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the status of the fleet after each reading, for people who are logged in on this manager.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json

from .._ledger.reading import Reading
from .._node.manager_state import SNAPSHOT
from .fleet_view import FleetView
from .shared_directories import GROUP, is_shared, write_file

VERSION = 1


class Snapshot:
    """The file in the directory of the record."""

    def __init__(self, directory: str, view: FleetView) -> None:
        self._directory = directory
        self._view = view

    def observe(self, reading: Reading) -> list[str]:
        """Replace the file. Return a line if only root can read it. Raises GpuSwarmError."""
        status, cards = self._view.of(reading)
        document = {
            "version": VERSION,
            "at": reading.at,
            "manager": reading.manager_hostname,
            "swarm": reading.swarm_id,
            "leads": reading.leads,
            "status": status,
            "cards": cards,
        }
        write_file(self._directory, SNAPSHOT, json.dumps(document))
        return [] if is_shared(self._directory) else ["only root can read %s, because this machine has no group %s" % (self._directory, GROUP)]
