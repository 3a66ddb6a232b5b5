# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the services of a stack file need of a node, as Docker's API has it (pure): no more than the scheduler's filters read.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any

from ...module_utils._errors import GpuSwarmError
from . import references
from .fields import mapping
from .mounts import size

# What else of deploy swarm checks once the rest of a stack is made: the format has no words for it.
_WORDS = {
    ("restart_policy", "condition"): ("none", "on-failure", "any"),
    ("update_config", "failure_action"): ("pause", "continue", "rollback"),
    ("rollback_config", "failure_action"): ("pause", "continue"),
    ("endpoint_mode",): ("vip", "dnsrr"),
}
_MODES = {"replicated": "Replicated", "global": "Global", "replicated-job": "ReplicatedJob", "global-job": "GlobalJob"}


def specifications(document: dict[str, Any], stack: str) -> list[dict[str, Any]]:
    references.check_names(document, stack)
    return [_service(f"{stack}_{name}", service, document) for name, service in document["services"].items()]


def _service(name: str, service: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    deploy = service.get("deploy") or {}
    placement, resources = deploy.get("placement") or {}, deploy.get("resources") or {}
    log = (service.get("logging") or {}).get("driver")
    _refuse_words(deploy, service, name)
    _cpus(resources.get("limits") or {}, f"{name}: limits.cpus")
    return {
        "Name": name,
        "Mode": _mode(deploy, name),
        "EndpointSpec": {"Ports": [port for one in service.get("ports") or [] if (port := _port(one))]},
        "UpdateConfig": _update(deploy.get("update_config") or {}),
        "TaskTemplate": {
            "ContainerSpec": {"Mounts": [mount for one in service.get("volumes") or [] if (mount := _mount(one, document))]},
            "Resources": {"Reservations": _reservations(resources.get("reservations") or {}, name)},
            "Placement": {
                "Constraints": [one.replace("$$", "$") for one in placement.get("constraints") or []],
                "MaxReplicas": placement.get("max_replicas_per_node") or 0,
            },
            **({"LogDriver": {"Name": log}} if log else {}),
        },
    }


def _refuse_words(deploy: dict[str, Any], service: dict[str, Any], name: str) -> None:
    deploy = {**deploy, "endpoint_mode": _small(deploy.get("endpoint_mode"))}
    for path, words in _WORDS.items():
        *above, key = path
        found = mapping(deploy.get(above[0]), f"{name}: deploy.{above[0]}").get(key) if above else deploy.get(key)
        if found not in (None, "", *words):
            raise GpuSwarmError(f"{name}: deploy.{'.'.join(path)} is {found!r}, and has to be {', '.join(words)}. Write one of them.")
    shared = [port for port in service.get("ports") or [] if not isinstance(port, dict) or port.get("mode") != "host"]
    if shared and deploy.get("endpoint_mode") == "dnsrr":
        raise GpuSwarmError(f"{name}: a port is published for the whole swarm beside endpoint_mode: dnsrr. Publish it in mode: host.")


def _small(value: Any) -> Any:
    """As Docker itself writes it."""
    return value.lower() if isinstance(value, str) else value


def _mode(deploy: dict[str, Any], name: str) -> dict[str, Any]:
    mode, replicas = deploy.get("mode") or "replicated", deploy.get("replicas", 1)
    if not isinstance(mode, str) or mode not in _MODES:
        raise GpuSwarmError(f"{name}: deploy.mode is {mode!r}, and has to be {', '.join(_MODES)}. Write one of them, or leave it out.")
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        raise GpuSwarmError(f"{name}: deploy.replicas is {replicas!r}, and has to be a whole number of 0 or more. Write one.")
    if mode.startswith("global") and deploy.get("replicas") is not None:
        raise GpuSwarmError(f"{name}: deploy.replicas stands beside mode: {mode}, which runs one task on each node. Take it out.")
    options = {"replicated": {"Replicas": replicas}, "replicated-job": {"TotalCompletions": replicas, "MaxConcurrent": replicas}}
    return {_MODES[mode]: options.get(mode, {})}


def _update(found: dict[str, Any]) -> dict[str, Any]:
    """Docker replaces one task at a time unless the file says otherwise, and all at once for 0."""
    return {"Order": found.get("order") or "stop-first", "Parallelism": found.get("parallelism", 1)}


def _reservations(found: dict[str, Any], name: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if found.get("cpus"):
        made["NanoCPUs"] = _cpus(found, f"{name}: reservations.cpus")
    if found.get("memory"):
        made["MemoryBytes"] = size(found["memory"], f"{name}: reservations.memory")
    if found.get("generic_resources"):
        specs = [item["discrete_resource_spec"] for item in found["generic_resources"]]
        made["GenericResources"] = [{"DiscreteResourceSpec": {"Kind": one["kind"], "Value": one["value"]}} for one in specs]
    return made


def _cpus(found: dict[str, Any], what: str) -> int:
    """In billionths."""
    try:
        return round(float(found.get("cpus") or 0) * 1e9)
    except (ValueError, OverflowError) as problem:
        raise GpuSwarmError(f"{what} is {found['cpus']!r}. Write a number, such as '0.5'.") from problem


def _port(one: Any) -> dict[str, Any] | None:
    """Of those on the host; the others are taken by the swarm as a whole."""
    if not isinstance(one, dict) or one.get("mode") != "host" or not one.get("published"):
        return None
    return {"Protocol": one.get("protocol") or "tcp", "TargetPort": one.get("target"), "PublishedPort": one["published"], "PublishMode": "host"}


def _mount(one: Any, document: dict[str, Any]) -> dict[str, Any] | None:
    """Of a volume with a driver, or of the cluster."""
    source, kind = (one.get("source"), one.get("type")) if isinstance(one, dict) else (one.partition(":")[0] if ":" in one else None, "volume")
    if kind == "cluster":
        return {"Type": "cluster", "Source": source, "Target": "/"}
    driver = ((document.get("volumes") or {}).get(str(source)) or {}).get("driver") if kind == "volume" else None
    return {"Type": "volume", "Source": source, "Target": "/", "VolumeOptions": {"DriverConfig": {"Name": driver}}} if driver else None
