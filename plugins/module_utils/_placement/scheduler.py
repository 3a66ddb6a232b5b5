# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the nodes that could run a task of a service (pure). Applies the filters of swarmkit's scheduler to the nodes of a ledger, in the scheduler's
order.

Follows manager/scheduler/pipeline.go and filter.go. From Docker Engine 20.10 to 29, these files differ only in cluster volumes, and this code does
not check cluster volumes. This code finds all nodes that could run a task, and does not predict which node the scheduler would choose. The
scheduler's own messages count only the nodes that the scheduler has looked at.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence, Tuple

from . import node_match
from .census import Census, Port, host_ports
from .pending import CPUS, MEMORY, Place, is_schedulable, required_free, wanted_by

READY, RESOURCES, PLUGINS, CONSTRAINTS = "ready", "resources", "plugins", "constraints"
PLATFORM, PORTS, REPLICAS = "platform", "ports", "replicas"
CLUSTER = "cluster"
LOCAL = "local"

# (type, name), such as ("Volume", "rexray")
Plugin = Tuple[str, str]


class Demand(NamedTuple):
    """What one task of a service needs from a node."""

    service_id: str
    wants: dict[str, Any]  # amounts by resource kind, also CPUS and MEMORY
    plugins: Sequence[Plugin]
    constraints: Sequence[str]
    platforms: Sequence[Mapping[str, Any]]
    ports: frozenset[Port]
    max_replicas: int  # on one node; 0 for no limit
    cluster_volumes: bool  # whether the task needs cluster volumes, which no filter in this file checks


class Spot(NamedTuple):
    """A node from the viewpoint of one service."""

    place: Place
    taken: frozenset[Port]
    replicas: int  # of this service


class SwarmState(NamedTuple):
    """The nodes and tasks of a swarm at the time ``now``."""

    places: Sequence[Place]
    census: Census
    now: float | None


def demand_of(service: Mapping[str, Any], networks: Iterable[str] = ()) -> Demand:
    """Return the demand of one task of the service. ``networks`` are the drivers of the service's networks, read from its tasks."""
    spec = service["Spec"]["TaskTemplate"]
    placement, mounts = spec.get("Placement") or {}, (spec.get("ContainerSpec") or {}).get("Mounts") or []
    log = (spec.get("LogDriver") or {}).get("Name")
    return Demand(
        service_id=service["ID"],
        wants=wanted_by(spec),
        plugins=[
            *(("Volume", name) for name in map(_volume_driver, mounts) if name),
            *(("Network", name) for name in sorted(networks)),
            *([("Log", log)] if log and log != "none" else []),
        ],
        constraints=placement.get("Constraints") or [],
        platforms=placement.get("Platforms") or [],
        ports=frozenset(host_ports(service["Spec"])),
        max_replicas=placement.get("MaxReplicas") or 0,
        cluster_volumes=any(mount.get("Type") == CLUSTER for mount in mounts),
    )


def spots(demand: Demand, places: Iterable[Place], census: Census) -> list[Spot]:
    return [Spot(place, frozenset(census.ports.get(place.node["ID"], ())), census.replicas[place.node["ID"], demand.service_id]) for place in places]


def failed(demand: Demand, spot: Spot) -> list[str]:
    """Return the filters that exclude this node, in the scheduler's order; [] if a task fits. The scheduler itself stops at the first such filter."""
    return [name for name, passes in FILTERS if not passes(demand, spot)]


def room(demand: Demand, spot: Spot) -> int | None:
    """Return how many tasks with this demand fit at the same time on a node that passes all filters; None for no limit."""
    limits = [int(spot.place.free.get(kind, 0) // amount) for kind, amount in demand.wants.items() if amount]
    limits += [1] if any(takes_all(kind, amount, spot.place.record) for kind, amount in demand.wants.items()) else []
    if demand.max_replicas:
        limits.append(demand.max_replicas - spot.replicas)
    if demand.ports:
        limits.append(1)
    return min(limits) if limits else None


def short(demand: Demand, free: Mapping[str, float]) -> dict[str, float]:
    """Return the missing amount by resource kind. The scheduler requires at least one free resource, even for a reservation of 0."""
    # If a task reserves anything, the scheduler also compares CPUs and memory. A node may have allocated more CPUs and memory than it has.
    required = {CPUS: 0, MEMORY: 0, **{kind: required_free(amount) for kind, amount in demand.wants.items()}} if demand.wants else {}
    return {kind: amount - free.get(kind, 0) for kind, amount in required.items() if free.get(kind, 0) < amount}


def takes_all(kind: str, amount: float, record: Mapping[str, Any]) -> bool:
    """Return whether a task that reserves this amount gets all free resources of the kind.

    This is the case for a reservation of 0 of a named kind (swarmkit api/genericresource).
    """
    return not amount and (record["resources"].get(kind) or {}).get("type") == "named"


def lacking(demand: Demand, node: Mapping[str, Any]) -> list[Plugin]:
    """Return the required plugins that the node does not list.

    Old daemons list no log drivers, so this code assumes that an old daemon has a required log driver. A node without a description of its daemon
    passes.
    """
    engine = node.get("Description", {}).get("Engine") or {}
    listed = {(plugin.get("Type"), (plugin.get("Name") or "").partition(":latest")[0]) for plugin in engine.get("Plugins") or []}
    lists_logs = any(plugin_type == "Log" for plugin_type, dummy_name in listed)
    needed = [(plugin_type, name) for plugin_type, name in demand.plugins if plugin_type != "Log" or lists_logs]
    missing = [(plugin_type, name) for plugin_type, name in needed if (plugin_type, name.partition(":latest")[0]) not in listed]
    return missing if engine else []


def unmet(demand: Demand, node: Mapping[str, Any]) -> list[str]:
    return [constraint for constraint in demand.constraints if not node_match.is_met(constraint, node)]


def _volume_driver(mount: Mapping[str, Any]) -> str:
    """Return the volume plugin that a mount needs; '' for a mount without a plugin."""
    name = ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Name") or ""
    return name if mount.get("Type") == "volume" and name != LOCAL else ""


Passes = Callable[[Demand, Spot], bool]
FILTERS: tuple[tuple[str, Passes], ...] = (
    (READY, lambda demand, spot: is_schedulable(spot.place.record)),
    (RESOURCES, lambda demand, spot: not short(demand, spot.place.free)),
    (PLUGINS, lambda demand, spot: not lacking(demand, spot.place.node)),
    (CONSTRAINTS, lambda demand, spot: not unmet(demand, spot.place.node)),
    (PLATFORM, lambda demand, spot: node_match.runs_on(demand.platforms, spot.place.node)),
    (PORTS, lambda demand, spot: not demand.ports & spot.taken),
    (REPLICAS, lambda demand, spot: not demand.max_replicas or spot.replicas < demand.max_replicas),
)
