# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lists from a manager's API. The ledger and the preview of evictions are computed from these lists.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._tasks.keep import KEY


class Listed(NamedTuple):
    """Nodes, tasks and services, with the time and the label that are needed to interpret these lists.

    ``tasks`` may be any iterable and is read once.
    """

    nodes: Sequence[Mapping[str, Any]]
    tasks: Iterable[Mapping[str, Any]]
    services: Sequence[Mapping[str, Any]]
    now: float | None = None  # the manager's time in seconds since 1970, for ages
    keep_label: str = KEY  # the label that forbids moving a service's tasks (see ``keep``)
