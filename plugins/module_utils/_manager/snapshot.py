# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the status of the fleet after each reading, for people who are logged in on this manager.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import errno
import os

from .._errors import GpuSwarmError
from .._ledger.reading import Reading
from .._node.manager_state import SNAPSHOT
from .._replace import replace_json
from .._view.fleet_cards import cards
from .._view.status import status
from .shared_directories import GROUP, is_shared

VERSION, _MODE = 1, 0o640


class Snapshot:
    """The file in the directory of the record. ``fault_limit`` is the percentage of GPU nodes that may be paused for a fault."""

    def __init__(self, directory: str, fault_limit: int) -> None:
        self._directory = directory
        self._fault_limit = fault_limit

    def observe(self, reading: Reading) -> list[str]:
        """Replace the file. Return a line if only root can read it. Raises GpuSwarmError."""
        path = os.path.join(self._directory, SNAPSHOT)
        document = {
            "version": VERSION,
            "at": reading.at,
            "manager": reading.manager_hostname,
            "swarm": reading.swarm_id,
            "leads": reading.leads,
            "status": status(reading.ledger, self._fault_limit),
            "cards": cards(reading.ledger),
        }
        try:
            replace_json(path, document, _MODE)
            return [] if is_shared(self._directory) else ["only root can read %s, because this machine has no group %s" % (self._directory, GROUP)]
        except OSError as problem:
            raise GpuSwarmError("The status could not be written to %s: %s.%s" % (path, problem.strerror, _remedy(problem))) from problem


def _remedy(problem: OSError) -> str:
    if problem.errno == errno.ENOENT:
        return " Run fleet.gpu_swarm.provision, which makes the directory."
    if problem.errno == errno.EROFS:
        return " If the service's unit has changed since the boot, run 'systemctl daemon-reload' and restart the service."
    return ""
