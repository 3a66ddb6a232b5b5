# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds conflicts between a stack and its swarm that would make a manager refuse the stack (pure).

The rules are those of checkPortConflicts, UpdateService and CreateService in swarmkit's manager/controlapi/service.go, and of UpdateConfig and
UpdateSecret in the same directory.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import hashlib
from ipaddress import ip_network
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, Tuple

from .._compat.checks import parse_version
from .._ledger.leader import leader
from .._placement.census import HOST
from .._swarm.owned_labels import CONTENT
from .stack import NAMESPACE, of_stack

INGRESS = "ingress"
# The first release of Docker in which 'docker stack deploy' supports jobs.
JOBS_SINCE = (23, 0, 0)
# The network drivers that every engine has.
BUILT_IN = ("", "overlay")
PortKey = Tuple[int, str]


class Wanted(NamedTuple):
    """A stack to deploy. ``services`` are specifications of the API. ``networks`` are the networks that the stack creates, by name, each with
    ``driver`` and ``subnets``. ``attached`` are the names of external networks. ``contents`` has the digests of all configs and secrets with a fixed
    name. Its keys are ``configs`` and ``secrets``, and below them the names."""

    stack: str
    services: Sequence[Mapping[str, Any]]
    prune: bool
    networks: Mapping[str, Mapping[str, Any]]
    attached: Sequence[str]
    contents: Mapping[str, Mapping[str, str]]


class Existing(NamedTuple):
    """The objects of the swarm, as the API lists them. ``manager`` is the node id of the manager that deploys."""

    nodes: Sequence[Mapping[str, Any]]
    services: Sequence[Mapping[str, Any]]
    networks: Sequence[Mapping[str, Any]]
    configs: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]
    manager: str


def clashes(wanted: Wanted, existing: Existing) -> list[str]:
    """Return the text of each conflict, with its remedy; [] without conflicts."""
    checks = (unsupported_jobs, changed_modes, taken_ports, ingress_conflicts, missing_drivers, taken_subnets, changed_contents)
    return [text for check in checks for text in check(wanted, existing)]


# -- services ------------------------------------------------------------------------------------------------------------------


def unsupported_jobs(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each job, if the manager's Docker cannot read jobs from a stack file (20.10)."""
    node: Mapping[str, Any] = next((node for node in existing.nodes if node["ID"] == existing.manager), {})
    engine = node.get("Description", {}).get("Engine", {}).get("EngineVersion")
    version = parse_version(engine)
    for service in wanted.services:
        mode = _mode(service)
        if mode.endswith("Job") and version and version < JOBS_SINCE:
            yield (
                "%s is a job, and Docker %s of the manager %s cannot deploy jobs with a stack. Put a manager with Docker 23.0 or newer first in the "
                "inventory, or run it with fleet.gpu_swarm.job." % (service["Name"], engine, node["Description"].get("Hostname"))
            )


def _mode(spec: Mapping[str, Any]) -> str:
    """Return the only key of a service's mode, such as ``Replicated``."""
    (name,) = spec["Mode"]
    return name


def changed_modes(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each service whose mode would change."""
    by_name = {service["Spec"]["Name"]: service for service in of_stack(wanted.stack, existing.services)}
    for service in wanted.services:
        former = by_name.get(service["Name"])
        if former is None:
            continue
        old_mode, new_mode = _mode(former["Spec"]), _mode(service)
        if old_mode != new_mode:
            yield (
                "%s is %s, and the file says %s: swarm cannot change a service's mode. Remove it first, which ends its tasks ("
                "'docker service rm %s'), or give the service another name."
                % (service["Name"], _compose_mode(old_mode), _compose_mode(new_mode), service["Name"])
            )


def _compose_mode(mode: str) -> str:
    """Return the name that a Compose file uses for a mode of the API."""
    return {"ReplicatedJob": "replicated-job", "GlobalJob": "global-job"}.get(mode, mode.lower())


def taken_ports(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each published port that another service already has.

    Only one service can publish a port for the whole swarm. Several services may publish the same host port, on different nodes. Docker updates the
    services of a stack in any order. So if a port moves from one service to another, the former service may still publish the port.
    """
    names = {service["Name"] for service in wanted.services}
    own = {service["ID"] for service in of_stack(wanted.stack, existing.services)}
    pruned = {service["ID"] for service in existing.services if wanted.prune and service["ID"] in own and service["Spec"]["Name"] not in names}
    owners: dict[PortKey, list[tuple[str, str, bool]]] = {}
    for service in existing.services:
        if service["ID"] not in pruned:
            for key, mode in _all_ports(service):
                owners.setdefault(key, []).append((service["Spec"]["Name"], mode, service["ID"] in own))
    for spec in wanted.services:
        for key, mode in sorted(set(_ports(spec.get("EndpointSpec")))):
            owner = next((owner for owner in owners.get(key, ()) if owner[0] != spec["Name"] and INGRESS in (mode, owner[1])), None)
            if owner is not None:
                yield _describe_port(spec["Name"], key, *owner)


def _describe_port(name: str, key: PortKey, owner: str, mode: str, in_stack: bool) -> str:
    if in_stack:
        return (
            "%s publishes port %d/%s, which %s of this stack has now. Docker may deploy the new owner before the old one gives it up. "
            "Deploy the stack once without this port, or use another number." % (name, *key, owner)
        )
    where = " on its nodes" if mode == HOST else ""
    return "%s publishes port %d/%s, which the service %s has%s. Use another number, or remove that service." % (name, *key, owner, where)


def _all_ports(service: Mapping[str, Any]) -> Iterator[tuple[PortKey, str]]:
    """Yield the ports that the service specifies, and the ports that swarm chose for it."""
    yield from _ports(service["Spec"].get("EndpointSpec"))
    yield from _ports(service.get("Endpoint"))


def _ports(endpoint: Mapping[str, Any] | None) -> Iterator[tuple[PortKey, str]]:
    """Yield ((number, protocol), mode) for each port with a number."""
    for port in (endpoint or {}).get("Ports") or []:
        if port.get("PublishedPort"):
            yield (port["PublishedPort"], port.get("Protocol") or "tcp"), port.get("PublishMode") or INGRESS


# -- networks ------------------------------------------------------------------------------------------------------------------


def ingress_conflicts(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each external network of the stack that is the ingress network. Also yield a text if a published port needs the ingress
    network and the swarm has none."""
    ingress_networks = [network for network in existing.networks if network.get("Ingress")]
    names = {network[key] for network in ingress_networks for key in ("Name", "Id") if network.get(key)}
    for name in sorted(names.intersection(wanted.attached)):
        yield (
            "The stack's network %s is the ingress network, which no service may join. Remove it from the Compose file: published ports use it "
            "automatically." % name
        )
    publishing = [spec["Name"] for spec in wanted.services if _publishes_for_swarm(spec)]
    if publishing and not ingress_networks:
        yield (
            "%s publishes a port for the whole swarm, but the swarm has no ingress network. Create it with 'docker network create --ingress "
            "--driver overlay ingress', or publish the port in mode: host." % publishing[0]
        )


def _publishes_for_swarm(spec: Mapping[str, Any]) -> bool:
    ports = (spec.get("EndpointSpec") or {}).get("Ports") or []
    return any((port.get("PublishMode") or INGRESS) == INGRESS for port in ports)


def missing_drivers(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each new network whose driver the leader does not have."""
    plugins = leader(existing.nodes).get("Description", {}).get("Engine", {}).get("Plugins") or []
    available = {name for plugin in plugins for name in _driver_names(plugin)}
    for name, network in _new_networks(wanted, existing):
        driver = str(network.get("driver") or "")
        if driver not in BUILT_IN and available and driver not in available:
            message = "The network %s has the driver %s, which the managers do not have. Install that plugin there, or remove the driver."
            yield message % (name, driver)


def _driver_names(plugin: Mapping[str, Any]) -> Iterator[str]:
    if plugin.get("Type") == "Network":
        name = str(plugin.get("Name"))
        yield name
        if name.endswith(":latest"):
            yield name[: -len(":latest")]


def taken_subnets(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each new subnet that overlaps with another subnet.

    Docker creates such a network, but swarm never allocates the network, so tasks in this network stay in the state new.
    """
    taken = [
        (subnet, network["Name"])
        for network in existing.networks
        if network.get("Scope") == "swarm"
        for config in ((network.get("IPAM") or {}).get("Config") or [])
        if (subnet := _parse_subnet(config.get("Subnet")))
    ]
    for name, network in _new_networks(wanted, existing):
        for text in network.get("subnets") or []:
            new = _parse_subnet(text)
            if not new:
                continue
            owner = next((owner for subnet, owner in taken if subnet.version == new.version and subnet.overlaps(new)), None)
            if owner is not None:
                message = (
                    "The subnet %s of the network %s overlaps with that of the network %s. Use another one, or let swarm choose."
                )
                yield message % (text, name, owner)
            taken.append((new, name))


def _parse_subnet(text: Any) -> Any:
    try:
        return ip_network(str(text), strict=False)
    except ValueError:
        return None


def _new_networks(wanted: Wanted, existing: Existing) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the networks of the stack that do not exist yet, by name. Docker does not change existing networks."""
    own = {network["Name"] for network in existing.networks if (network.get("Labels") or {}).get(NAMESPACE) == wanted.stack}
    yield from ((name, wanted.networks[name]) for name in sorted(wanted.networks) if name not in own)


# -- configs and secrets -------------------------------------------------------------------------------------------------------


def changed_contents(wanted: Wanted, existing: Existing) -> Iterator[str]:
    """Yield a text for each config and secret whose content would change. Docker can change only the labels of a config or secret.

    The API does not return the content of a secret, so a label has its digest.
    """
    for kind, objects in (("configs", existing.configs), ("secrets", existing.secrets)):
        by_name = {item["Spec"]["Name"]: item["Spec"] for item in objects}
        for name, digest in sorted((wanted.contents.get(kind) or {}).items()):
            former = by_name.get(name)
            if former is not None and _digest(former, digest) != digest:
                yield (
                    "The swarm already has a %s %s with other content, and Docker cannot change it. Remove its name in the Compose file so that each "
                    "content gets its own name, or use another name." % (kind[:-1], name)
                )


def _digest(spec: Mapping[str, Any], unknown: str) -> str:
    """Return the digest of an existing config or secret; ``unknown`` if no digest is known."""
    if spec.get("Data"):
        return hashlib.sha256(base64.b64decode(spec["Data"])).hexdigest()
    return str((spec.get("Labels") or {}).get(CONTENT) or unknown)
