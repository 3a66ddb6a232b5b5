# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tasks that reserve 0 of a kind, and so have all resources of it that were free on their node (pure).

swarmkit's api/genericresource takes named resources until their number is what is reserved, which it never is for 0. Of a counted kind 0 takes
nothing.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

# (service, kind, hostname) -> how many its tasks there have. Until the records of nodes are made, the node's id stands in place of its name.
Taking = Dict[Tuple[str, str, str], int]


def add(taking: Taking, reserved: Mapping[str, Any], allocated: Mapping[str, Any], service_name: str, node_id: str) -> None:
    """Record a task, by what it reserves and what it has."""
    for item in reserved.get("GenericResources") or ():
        wanted = item.get("DiscreteResourceSpec") or {}
        given = allocated.get(wanted.get("Kind"))
        if not wanted.get("Value") and isinstance(given, list):
            key = (service_name, wanted["Kind"], node_id)
            taking[key] = taking.get(key, 0) + len(given)


def in_words(taking: Taking, hostnames: Mapping[str, str]) -> list[str]:
    found = sorted((service, hostnames.get(node_id, node_id), kind, number) for (service, kind, node_id), number in taking.items())
    return ["service %s has %d %s on node %s" % (service, number, kind, hostname) for service, hostname, kind, number in found]
