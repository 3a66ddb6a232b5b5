# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the metrics file up to date in the service on a manager. The leader writes the file after each reading. Other managers remove it.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Callable

from .._errors import GpuSwarmError
from .._ledger.reading import Reading
from . import file
from .samples import rendered


class Keeper:
    """Keeps the file in one directory. Does nothing if the directory does not exist. ``say`` prints a line."""

    def __init__(self, directory: str, say: Callable[[str], Any]) -> None:
        self._directory = directory
        self._say = say
        self._failure: str | None = None

    def is_needed(self, leads: bool) -> bool:
        """Return whether a reading would be written to the file."""
        return leads and bool(self._directory) and os.path.isdir(self._directory)

    def observe(self, reading: Reading) -> list[str]:
        """Write the file. Raises GpuSwarmError."""
        if self.is_needed(reading.leads):
            file.write(self._directory, rendered(reading.ledger, reading.at, file.REACTOR))
        return []

    def remove_former(self, dummy_manager: Any, dummy_nodes: Any, leads: bool) -> None:
        """Remove the file if this manager does not lead. Called in each round, because the removal must not wait for a reading."""
        if leads or not self._directory or not os.path.isdir(self._directory):
            return
        failure = None
        try:
            if file.remove(self._directory):
                self._say("this manager does not lead: %s is removed" % file.path_in(self._directory))
        except GpuSwarmError as problem:
            failure = problem.message
        if failure and failure != self._failure:
            self._say(failure)
        self._failure = failure
