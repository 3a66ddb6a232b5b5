# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds services that can see GPUs without reserving one (pure), because of variables in their own specification.

Variables of an image are not in the specification, so they are not checked here.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Container, Iterable, Mapping, Sequence

from .._placement import node_match
from .._placement.pending import Waiting
from .._policy import generic_resources
from .._tasks.tasks import is_job_service, is_queued, reservations
from .node_labels import is_labelled, reported_model

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
# With these values NVIDIA's runtime changes nothing in the task. With "none" the runtime still adds the driver's libraries and control devices.
# https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
NO_GPU_VALUES = frozenset(["", "void"])
GPU_VALUES = ("GPU-", "MIG-")


def unreserved(
    nodes: Iterable[Mapping[str, Any]], records: Sequence[Mapping[str, Any]], services: Iterable[Mapping[str, Any]], waiting: Waiting
) -> list[dict[str, Any]]:
    """Return [{service, variables, reserves, nodes}] of the services that can see GPUs without reserving one. Include only services that run, or may
    be placed, on nodes with GPUs."""
    suspects = [(service, variables) for service, variables in ((service, _variables(service)) for service in services) if variables]
    if not suspects:
        return []
    gpu_kinds = {kind for record in records for kind, entry in record["resources"].items() if is_of_gpus(entry)}
    all_kinds = {kind for record in records for kind in record["resources"]}
    other_variables = set(map(generic_resources.variable_name, all_kinds)) - set(map(generic_resources.variable_name, gpu_kinds))
    with_gpus = {record["id"]: record for record in records if has_gpus(record)}
    places = [node for node in nodes if node["ID"] in with_gpus]
    active = _nodes_by_service(records, waiting)
    rows = []
    for service, variables in suspects:
        spec = service["Spec"]
        reserves = list(generic_resources.from_info(reservations(spec["TaskTemplate"]).get("GenericResources")))
        # The variable of a counted kind contains an amount, not a list of GPUs.
        variables = {name: value for name, value in variables.items() if name not in other_variables}
        hostnames = sorted({with_gpus[node_id]["hostname"] for node_id in active.get(spec["Name"], ()) if node_id in with_gpus})
        if variables and not gpu_kinds.intersection(reserves) and (hostnames or _may_be_placed(service, places, active)):
            rows.append({"service": spec["Name"], "variables": variables, "reserves": reserves, "nodes": hostnames})
    return sorted(rows, key=lambda row: row["service"])


def is_of_gpus(entry: Mapping[str, Any]) -> bool:
    """Return whether this entry of the ledger names GPUs or MIG devices."""
    return entry["type"] == "named" and names_gpus(entry["values"])


def names_gpus(values: Any) -> bool:
    """Return whether these values name GPUs or MIG devices. False for an amount."""
    return isinstance(values, list) and bool(values) and all(str(value).startswith(GPU_VALUES) for value in values)


def has_gpus(record: Mapping[str, Any]) -> bool:
    """Return whether the node has GPUs.

    A node may advertise only the memory of its GPUs, so this code also checks the node's labels and its watcher's report.
    """
    is_known = is_labelled(record["labels"]) or bool(reported_model(record))
    return is_known or any(is_of_gpus(entry) for entry in record["resources"].values())


def _variables(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the service's variables that let its tasks see GPUs, with their values."""
    environment = (service["Spec"].get("TaskTemplate", {}).get("ContainerSpec") or {}).get("Env") or []
    variables = dict(item.partition("=")[::2] for item in environment if item.startswith((VISIBLE + "=", generic_resources.ENV_PREFIX)))
    return {name: value for name, value in variables.items() if not NO_GPU_VALUES.intersection(part.strip() for part in value.split(","))}


def _nodes_by_service(records: Iterable[Mapping[str, Any]], waiting: Waiting) -> dict[str, set[str]]:
    """Return the ids of the nodes with tasks of each service, by service name. If all tasks of a service wait, its set is empty."""
    active: dict[str, set[str]] = {group["service"]: set() for group in waiting.values()}
    for record in records:
        for task in record["tasks"]:
            active.setdefault(task["service"], set()).add(record["id"])
    return active


def _may_be_placed(service: Mapping[str, Any], places: Iterable[Mapping[str, Any]], active: Container[str]) -> bool:
    # Swarm places no task of a finished job. A queue starts a task of its work when it is admitted.
    if (is_job_service(service) or is_queued(service)) and service["Spec"]["Name"] not in active:
        return False
    placement = service["Spec"]["TaskTemplate"].get("Placement") or {}
    constraints, platforms = placement.get("Constraints") or [], placement.get("Platforms") or []
    return any(node_match.runs_on(platforms, node) and all(node_match.is_met(constraint, node) for constraint in constraints) for node in places)
