# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restarts the service if one of its directories was created or replaced after the service started.

When the service starts, systemd makes all other directories read-only for the service. So a directory that is created later is read-only until the
next start.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from .._program.lifetime import say


def is_read_only(path: str) -> bool:
    """Return whether this is a directory that this process cannot write to."""
    return os.path.isdir(path) and not os.access(path, os.W_OK)


class Directories:
    """Called in each round. ``restart_service`` is not called for a directory that was read-only from the beginning."""

    def __init__(self, paths: Sequence[str], restart_service: Callable[[], object], is_read_only: Callable[[str], bool] = is_read_only) -> None:
        self._restart_service = restart_service
        self._is_read_only = is_read_only
        self._paths = [path for path in paths if path and not is_read_only(path)]

    def __call__(self, *dummy: Any) -> None:
        for path in self._paths:
            if self._is_read_only(path):
                say("%s was created after this service had started, and is read-only for it. The service starts anew." % path)
                self._restart_service()
