# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adds services that attach a stack's networks to nodes before its GPU tasks start (pure). Only some versions of Docker on the leader need these
services.

Swarm attaches an overlay network to a node when the first task on the node uses the network. This updates the node, and a leader with such a version
then stops tasks with allocated GPUs on the node. The leader also stops the new task, and this removes the network again. So no GPU task ever starts.
To prevent this, a service without GPUs starts first, with a task on each node, and attaches the network.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...module_utils._compat import checks
from ...module_utils._errors import GpuSwarmError
from ...module_utils._placement import node_match
from .deploy_preconditions import with_gpus
from .deploy_verdict import NOTHING
from .references import DEFAULT, LOCAL_NETWORKS

SUFFIX = "-gpu-swarm-network"
MARK = "gpu-swarm.attaches"
TRAP = "network-evicts-gpu-tasks"
# For each type of resource, the known issue of leaders that evict tasks with such resources when their node is updated.
_EVICTS = {"named": "old-leader-evicts-gpu-tasks", "discrete": "old-leader-evicts-discrete-tasks"}


class Swarm(NamedTuple):
    """``nodes`` are the nodes of the ledger. ``feasible`` has the ids of nodes with room, by service. ``former`` is the deployed file or None."""

    stack: str
    nodes: list[dict[str, Any]]
    feasible: Mapping[str, list[str]]
    former: Any


def add_attaching_services(document: Mapping[str, Any], swarm: Swarm) -> tuple[dict[str, Any], list[str]]:
    """Return the document with attaching services, and notes for the user. Raise GpuSwarmError if a task of another stack would be evicted."""
    leader = next((node["engine_version"] for node in swarm.nodes if node["leader"]), None)
    attaching: dict[str, Any] = {}
    for name, service in with_gpus(document).items():
        networks = _overlays(service, document)
        nodes = [node for node in swarm.nodes if any(_is_evicting(node, kind, leader) for kind in _kinds(service))]
        if networks and nodes:
            attaching[name + SUFFIX] = _build_service(name, service, networks, nodes, swarm)
    if not attaching:
        return dict(document), []
    note = (
        f"note: the swarm's leader, Docker Engine {leader}, stops GPU tasks when a network is attached to their node. So {', '.join(attaching)} "
        f"is deployed first. It has a task on each of these nodes and attaches the network ({TRAP})"
    )
    return {**document, "services": {**document["services"], **attaching}}, [note]


def attaching_part(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of the document to deploy first, or None."""
    attaching = {name: service for name, service in document["services"].items() if is_attaching(service)}
    shared = {key: document[key] for key in ("version", "networks") if key in document}
    return {**shared, "services": attaching} if attaching else None


def is_attaching(service: Mapping[str, Any]) -> bool:
    return MARK in ((service.get("deploy") or {}).get("labels") or {})


def not_running(answer: Mapping[str, Any], document: Mapping[str, Any], stack: str) -> list[str]:
    """Return the services of the document that have tasks that do not run yet."""
    running = {service["service"] for service in answer["progress"] if service["done"] and service["running"]}
    return [f"{stack}_{name}" for name in document["services"] if f"{stack}_{name}" not in running]


def not_attached_error(lines: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the error if the other parts of the stack were not deployed. ``lines`` has the progress of each service."""
    progress = "; ".join(f"{name}: {lines.get(name, 'has no tasks')}" for name in names)
    return (
        f"The stack's networks are not attached to all GPU nodes: {progress}. The leader's version of Docker would stop the tasks there ({TRAP}). "
        "The other services were not deployed. Run this again, or remove the stack with -e state=absent."
    )


def _kinds(service: Mapping[str, Any]) -> list[str]:
    return [item["discrete_resource_spec"]["kind"] for item in service["deploy"]["resources"]["reservations"]["generic_resources"]]


def _is_evicting(node: Mapping[str, Any], kind: str, leader: str | None) -> bool:
    """Return whether the leader evicts tasks with resources of this kind on this node."""
    entry = node["resources"].get(kind)
    return bool(entry and entry["total"]) and checks.affects(_EVICTS[entry["type"]], leader)


def _overlays(service: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return the networks of the service, except those that every machine has."""
    declared = document.get("networks") or {}
    return [key for key in service.get("networks") or [DEFAULT] if (declared.get(key) or {}).get("name", "") not in LOCAL_NETWORKS]


def _build_service(name: str, service: Mapping[str, Any], networks: list[str], nodes: list[dict[str, Any]], swarm: Swarm) -> dict[str, Any]:
    """Build the attaching service. It uses the image of the service, because the nodes need this image anyway.

    If the deployed attaching service already covers all nodes with room, return it unchanged, because it keeps the networks attached.
    """
    own_constraints = (service["deploy"].get("placement") or {}).get("constraints") or []
    ids_with_room = swarm.feasible.get(f"{swarm.stack}_{name}", [])
    former_service = ((swarm.former or {}).get("services") or {}).get(name + SUFFIX) or {}
    if former_service.get("networks") == networks and _is_covering(
        former_service["deploy"]["placement"]["constraints"], own_constraints, ids_with_room
    ):
        return dict(former_service)
    busy = {node["id"]: holders for node in nodes if (holders := _holders(node, swarm.stack))}
    _refuse_eviction([node for node in nodes if node["id"] in ids_with_room and node["id"] in busy], busy, name)
    attached_ids = {node["id"] for node in nodes} - set(busy)
    constraints = [
        *own_constraints,
        *(f"node.id!={node['id']}" for node in swarm.nodes if node["id"] not in attached_ids and _meets_constraints(node, own_constraints)),
    ]
    return {
        "image": service["image"],
        "entrypoint": ["sleep", "2147483647"],
        "environment": {"NVIDIA_VISIBLE_DEVICES": "void"},
        "healthcheck": {"disable": True},
        "stop_grace_period": "1s",
        "networks": networks,
        "deploy": {
            "mode": "global",
            "labels": {MARK: "true"},
            "placement": {"constraints": constraints},
            "update_config": {"order": "start-first"},  # so that the networks stay attached
        },
    }


def _is_covering(former_constraints: list[str], own_constraints: list[str], room: Iterable[str]) -> bool:
    return former_constraints[: len(own_constraints)] == own_constraints and not any(f"node.id!={node_id}" in former_constraints for node_id in room)


def _meets_constraints(node: Mapping[str, Any], constraints: Iterable[str]) -> bool:
    """Return whether the node meets the constraints that can be compared with the ledger."""
    described = {"ID": node["id"], "Description": {"Hostname": node["hostname"]}, "Spec": {"Labels": node["labels"], "Role": node["role"]}}
    prefixes = ("node.id", "node.hostname", "node.role", node_match.NODE_LABEL)
    return all(node_match.is_met(constraint, described) for constraint in constraints if constraint.strip().lower().startswith(prefixes))


def _holders(node: Mapping[str, Any], stack: str) -> list[str]:
    """Return the tasks of other stacks on the node that have resources. [] if this stack has a task on the node, because its networks are already
    attached.
    """
    own_prefix = f"{stack}_"
    tasks = [task for task in node["tasks"] if not task["service"].startswith(own_prefix)]
    return [task["name"] for task in tasks if task["holding"]] if len(tasks) == len(node["tasks"]) else []


def _refuse_eviction(nodes: list[dict[str, Any]], holders_by_node: Mapping[str, list[str]], name: str) -> None:
    if nodes:
        where = "; ".join(f"{node['hostname']} ({', '.join(holders_by_node[node['id']])})" for node in nodes)
        raise GpuSwarmError(
            f"services.{name} needs its network on nodes where tasks of other services have GPUs. The leader's version of Docker would stop these "
            f"tasks ({TRAP}): {where}. Wait until they have ended, keep the service off these nodes with a constraint, set "
            f"network_mode: host, or upgrade Docker Engine on the managers to 25.0.3 or newer. {NOTHING}"
        )
