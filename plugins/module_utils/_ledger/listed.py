# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a manager's API lists, which the ledger and an eviction's preview are made of.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._tasks.keep import KEY


class Listed(NamedTuple):
    """The lists of nodes, tasks (any iterable, which is read once) and services, and by what they are understood."""

    nodes: Sequence[Mapping[str, Any]]
    tasks: Iterable[Mapping[str, Any]]
    services: Sequence[Mapping[str, Any]]
    now: float | None = None  # the manager's time in seconds since 1970: ages are counted by it
    keep_label: str = KEY  # of services whose tasks are not to be moved (see keep)
