# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds services with GPUs whose tasks attach a network to their node (pure). Some leaders evict tasks when a network is attached.

A global service without reservations in the same network prevents this, because this service has already attached the network to each node.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Set

from .._tasks.tasks import is_global, reservations

OVERLAY = "overlay"

# Service id -> overlay networks of its tasks.
Overlays = Dict[str, Set[str]]


def add(overlays: Overlays, task: Mapping[str, Any]) -> None:
    """Record the overlay networks of a task. Skip the ingress network, because each node has this network."""
    for attachment in task.get("NetworksAttachments") or ():
        network = attachment.get("Network") or {}
        if (network.get("DriverState") or {}).get("Name") == OVERLAY and not (network.get("Spec") or {}).get("Ingress"):
            overlays.setdefault(task.get("ServiceID") or "", set()).add(network.get("ID") or "")


def unattached(overlays: Overlays, services: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the services that reserve generic resources and use a network that no global service without a reservation uses."""
    by_id = {service["ID"]: service for service in services}
    reserving = {service_id for service_id, service in by_id.items() if reservations(service["Spec"]["TaskTemplate"]).get("GenericResources")}
    attached_sets = [networks for service_id, networks in overlays.items() if service_id not in reserving and is_global(by_id.get(service_id))]
    attached: set[str] = set().union(*attached_sets)
    return sorted("service %s" % by_id[service_id]["Spec"]["Name"] for service_id in reserving if overlays.get(service_id, set()) - attached)
