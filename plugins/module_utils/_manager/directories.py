# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts the service anew if one of its directories has come later than the service, or was replaced.

When the service starts, systemd makes all other directories read-only for it. So a directory that comes later is read-only until the next start.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from .._program.lifetime import say


def is_read_only(path: str) -> bool:
    """Whether this is a directory, but nobody can write there."""
    return os.path.isdir(path) and not os.access(path, os.W_OK)


class Directories:
    """Called in each round. ``start_anew`` must start the service anew, and is not called for a directory that was read-only from the start."""

    def __init__(self, paths: Sequence[str], start_anew: Callable[[], object], is_read_only: Callable[[str], bool] = is_read_only) -> None:
        self._start_anew = start_anew
        self._is_read_only = is_read_only
        self._paths = [path for path in paths if path and not is_read_only(path)]

    def __call__(self, *dummy: Any) -> None:
        for path in self._paths:
            if self._is_read_only(path):
                say("%s was created after this service had started, and is read-only for it. The service starts anew." % path)
                self._start_anew()
