# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Converts services of a stack file to specifications of Docker's API (pure). The specifications have only the fields that swarm's scheduler reads or
compares with other services.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from . import ports, references
from .shapes import NANO, size

_MODES = {"replicated": "Replicated", "global": "Global", "replicated-job": "ReplicatedJob", "global-job": "GlobalJob"}


def specifications(document: dict[str, Any], stack: str) -> list[dict[str, Any]]:
    references.check_names(document, stack)
    return [_service(f"{stack}_{name}", service, document) for name, service in document["services"].items()]


def _service(name: str, service: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    deploy = service.get("deploy") or {}
    placement, resources = deploy.get("placement") or {}, deploy.get("resources") or {}
    log = (service.get("logging") or {}).get("driver")
    return {
        "Name": name,
        "Mode": _mode(deploy),
        "EndpointSpec": {"Ports": [_port(port) for port in ports.expanded(service)]},
        "UpdateConfig": _update(deploy.get("update_config") or {}),
        "TaskTemplate": {
            "ContainerSpec": {"Mounts": [mount for item in service.get("volumes") or [] if (mount := _mount(item, document))]},
            "Resources": {"Reservations": _reservations(resources.get("reservations") or {})},
            "Placement": {
                "Constraints": [constraint.replace("$$", "$") for constraint in placement.get("constraints") or []],
                "MaxReplicas": placement.get("max_replicas_per_node") or 0,
            },
            **({"LogDriver": {"Name": log}} if log else {}),
        },
    }


def _mode(deploy: dict[str, Any]) -> dict[str, Any]:
    replicas = deploy.get("replicas", 1)
    options = {"replicated": {"Replicas": replicas}, "replicated-job": {"TotalCompletions": replicas, "MaxConcurrent": replicas}}
    mode = deploy.get("mode") or "replicated"
    return {_MODES[mode]: options.get(mode, {})}


def _update(update_config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of updates. By default Docker replaces one task at a time. A parallelism of 0 means all tasks at once."""
    return {"Order": update_config.get("order") or "stop-first", "Parallelism": update_config.get("parallelism", 1)}


def _reservations(reserved: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if reserved.get("cpus"):
        result["NanoCPUs"] = int(Decimal(reserved["cpus"]) * NANO)
    if reserved.get("memory"):
        result["MemoryBytes"] = size(reserved["memory"], "memory")
    if reserved.get("generic_resources"):
        specs = [item["discrete_resource_spec"] for item in reserved["generic_resources"]]
        result["GenericResources"] = [{"DiscreteResourceSpec": {"Kind": spec["kind"], "Value": spec["value"]}} for spec in specs]
    return result


def _port(port: ports.Port) -> dict[str, Any]:
    return {"Protocol": port.protocol, "TargetPort": port.target, "PublishedPort": port.published, "PublishMode": port.mode}


def _mount(item: Any, document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the specification of a mount that matters for placement: a volume with a driver, or a cluster volume. None for other mounts."""
    source, kind = (item.get("source"), item.get("type")) if isinstance(item, dict) else (item.partition(":")[0] if ":" in item else None, "volume")
    if kind == "cluster":
        return {"Type": "cluster", "Source": source, "Target": "/"}
    driver = ((document.get("volumes") or {}).get(str(source)) or {}).get("driver") if kind == "volume" else None
    return {"Type": "volume", "Source": source, "Target": "/", "VolumeOptions": {"DriverConfig": {"Name": driver}}} if driver else None
