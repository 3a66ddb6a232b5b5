# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a host has the service that pauses nodes with faults as it is to have it (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from functools import lru_cache

from ...module_utils._react import code
from .._fleet.model import Host


def react_differs(host: Host) -> bool:
    found = (host.assessed or {}).get("react")
    if host.reacts is None or not found:
        return (host.reacts is not None) != bool(found)
    settings = (found["settings"].get("limit"), found["settings"].get("metrics_directory", ""))
    return (found["version"], *settings, found["running"]) != (_version(), host.reacts, host.metrics, True)


@lru_cache
def _version() -> str:
    return code.version()
