# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was found of the watcher of a node: a plain record.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence


class WatcherSeen(NamedTuple):
    """What was found of it."""

    drift: Sequence[str]  # how it differs from what is wanted, in words
    blocked: str | None  # why its label cannot be changed now
    status: dict[str, Any] | None  # what it wrote of itself last

    def report(self) -> dict[str, Any] | None:
        """What the watcher reports of this node's GPUs, as the module returns it; None where none runs."""
        return {name: self.status.get(name) for name in ("label", "blocked", "reasons")} if self.status else None
