# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether a new swarm can be initialised on its first manager (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._fleet.model import Host


def check_first_manager(location: Mapping[str, Any], hosts: Iterable[Host]) -> dict[str, Any]:
    """Return the result of find_swarm, with an error if Docker cannot choose the address that the first manager advertises.

    A host that joins does not have to choose, because the manager sees its address.
    """
    first = next((host for host in hosts if host.name == location.get("init_on")), None)
    addresses = [] if first is None or first.advertise_addr else ((first.assessed or {}).get("swarm") or {}).get("undecided") or []
    if first is None or not addresses:
        return dict(location)
    return {
        **location,
        "init_on": None,
        "error": (
            f"There is no swarm yet, and Docker on its first manager {first.name} cannot choose the address to advertise: "
            f"{', '.join(map(str, addresses))}. Set swarm_member_advertise_addr of {first.name} to one of these addresses, or to an interface that "
            "has only one."
        ),
    }
