# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds encrypted overlay networks between nodes with incompatible releases of Docker Engine (pure).

Both ends of a connection derive the connection's number (SPI) from their addresses. Some releases derive a different number (moby#51951), so the
other end drops the packets.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Set

from .._compat.checks import parse_version

TRAP = "encrypted-network-in-two-parts"
OPTION = "encrypted"
# (first affected release, first fixed release)
AFFECTED = (((25, 0, 13), (25, 0, 15)), ((28, 2, 2), (28, 3, 0)), ((29, 0, 0), (29, 2, 1)))

# Name of an encrypted network -> ids of the nodes with tasks in it.
Networks = Dict[str, Set[str]]


def has_incompatible_nodes(nodes: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the swarm has both affected and unaffected nodes."""
    return len({_is_affected(_engine(node)) for node in nodes} - {None}) > 1


def add(networks: Networks, task: Mapping[str, Any]) -> None:
    """Record the encrypted networks of a task that has a node."""
    for attachment in task.get("NetworksAttachments") or ():
        network = attachment.get("Network") or {}
        spec = network.get("Spec") or {}
        if OPTION in ((spec.get("DriverConfiguration") or {}).get("Options") or {}):
            networks.setdefault(spec.get("Name") or "", set()).add(task["NodeID"])


def describe(networks: Networks, nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one text for each network with tasks on both affected and unaffected nodes. The text names these nodes."""
    by_id, texts = {node["ID"]: node for node in nodes}, []
    for name, node_ids in sorted(networks.items()):
        hostnames: dict[bool, list[str]] = {}
        for node in (by_id[node_id] for node_id in sorted(node_ids) if node_id in by_id):
            version = _engine(node)
            affected = _is_affected(version)
            if affected is not None:
                hostnames.setdefault(affected, []).append("%s (%s)" % (node["Description"]["Hostname"], version))
        if len(hostnames) > 1:
            texts.append("network %s between %s and %s" % (name, ", ".join(sorted(hostnames[True])), ", ".join(sorted(hostnames[False]))))
    return texts


def _engine(node: Mapping[str, Any]) -> str:
    description = node.get("Description") or {}
    return (description.get("Engine") or {}).get("EngineVersion") or ""


def _is_affected(version: str) -> bool | None:
    """Return whether this release of Docker Engine is affected; None if the version is unknown."""
    parsed = parse_version(version)
    return None if parsed is None else any(first <= parsed < fixed for first, fixed in AFFECTED)
