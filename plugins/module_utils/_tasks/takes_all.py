# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds tasks that reserve 0 of a named resource kind (pure). Swarm allocates all free resources of that kind on the node to such a task.

swarmkit's api/genericresource takes named resources until it has the reserved number. With 0 it takes all resources. For a counted kind, 0 takes
nothing.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

# (service, resource kind, node id) -> how many resources of the node are allocated to such tasks of the service.
ZeroReservations = Dict[Tuple[str, str, str], int]


def add(zero_reservations: ZeroReservations, reserved: Mapping[str, Any], allocated: Mapping[str, Any], service_name: str, node_id: str) -> None:
    """Add a task to ``zero_reservations``, if it reserves 0 of a named resource kind."""
    for item in reserved.get("GenericResources") or ():
        wanted = item.get("DiscreteResourceSpec") or {}
        values = allocated.get(wanted.get("Kind"))
        if not wanted.get("Value") and isinstance(values, list):
            key = (service_name, wanted["Kind"], node_id)
            zero_reservations[key] = zero_reservations.get(key, 0) + len(values)


def describe(zero_reservations: ZeroReservations, hostnames: Mapping[str, str]) -> list[str]:
    """Return one text for each service, resource kind and node. ``hostnames`` is by node id."""
    entries = sorted((service, hostnames.get(node_id, node_id), kind, number) for (service, kind, node_id), number in zero_reservations.items())
    return ["service %s has %d %s on node %s" % (service, number, kind, hostname) for service, hostname, kind, number in entries]
