# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypted overlay networks that reach over releases of Docker Engine which do not understand each other (pure).

Both ends of a connection derive its number (SPI) from their addresses. Some releases do that in another way (moby#51951), and drop the packets.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Set

from .._compat.checks import parse_version

TRAP = "encrypted-network-in-two-parts"
OPTION = "encrypted"
# From the first release that derives it in another way to the first that does not.
APART = (((25, 0, 13), (25, 0, 15)), ((28, 2, 2), (28, 3, 0)), ((29, 0, 0), (29, 2, 1)))

# By the name of an encrypted network, the ids of the nodes that have tasks in it.
Networks = Dict[str, Set[str]]


def may_be_in_two_parts(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the swarm has nodes of both kinds."""
    return len({_is_apart(_engine(node)) for node in nodes} - {None}) > 1


def add(networks: Networks, task: Mapping[str, Any]) -> None:
    """Record the encrypted networks of a task that has a node."""
    for attachment in task.get("NetworksAttachments") or ():
        network = attachment.get("Network") or {}
        spec = network.get("Spec") or {}
        if OPTION in ((spec.get("DriverConfiguration") or {}).get("Options") or {}):
            networks.setdefault(spec.get("Name") or "", set()).add(task["NodeID"])


def in_words(networks: Networks, nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """The networks with tasks on nodes of both kinds, and those nodes."""
    by_id, found = {node["ID"]: node for node in nodes}, []
    for name, there in sorted(networks.items()):
        kinds: dict[bool, list[str]] = {}
        for node in (by_id[node_id] for node_id in sorted(there) if node_id in by_id):
            version = _engine(node)
            kind = _is_apart(version)
            if kind is not None:
                kinds.setdefault(kind, []).append("%s (%s)" % (node["Description"]["Hostname"], version))
        if len(kinds) > 1:
            found.append("network %s between %s and %s" % (name, ", ".join(sorted(kinds[True])), ", ".join(sorted(kinds[False]))))
    return found


def _engine(node: Mapping[str, Any]) -> str:
    description = node.get("Description") or {}
    return (description.get("Engine") or {}).get("EngineVersion") or ""


def _is_apart(version: str) -> bool | None:
    """Whether this release is one of those; None if it is not known."""
    parsed = parse_version(version)
    return None if parsed is None else any(first <= parsed < fixed for first, fixed in APART)
