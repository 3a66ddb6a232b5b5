# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Conflicts between a stack and the existing swarm, which a manager would refuse (pure): ports, modes, networks, configs and secrets.

After checkPortConflicts, UpdateService and CreateService in swarmkit's manager/controlapi/service.go, and UpdateConfig and UpdateSecret beside it.
Private to this collection: no stability is promised to others.
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
# The first release whose 'docker stack deploy' knows jobs.
JOBS_SINCE = (23, 0, 0)
# Network drivers of every engine.
BUILT_IN = ("", "overlay")
PortKey = Tuple[int, str]


class Wanted(NamedTuple):
    """A stack to deploy. ``services`` are specifications of the API. ``networks`` are the networks that the stack creates, by name, each with
    ``driver`` and ``subnets``. ``contents``: by ``configs`` or ``secrets``, then by name, the digests of contents with a fixed name."""

    stack: str
    services: Sequence[Mapping[str, Any]]
    prune: bool
    networks: Mapping[str, Mapping[str, Any]]
    attached: Sequence[str]
    contents: Mapping[str, Mapping[str, str]]


class There(NamedTuple):
    """The objects of the swarm, as the API lists them. ``manager`` is the node id of the manager that deploys."""

    nodes: Sequence[Mapping[str, Any]]
    services: Sequence[Mapping[str, Any]]
    networks: Sequence[Mapping[str, Any]]
    configs: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]
    manager: str


def clashes(wanted: Wanted, there: There) -> list[str]:
    """Return the text of each conflict, with its remedy; [] if there is none."""
    checks = (jobs, modes, ports, ingress, plugins, subnets, contents)
    return [words for check in checks for words in check(wanted, there)]


# -- services ------------------------------------------------------------------------------------------------------------------


def jobs(wanted: Wanted, there: There) -> Iterator[str]:
    """Jobs, if the manager's Docker cannot read them from a stack file (20.10)."""
    node: Mapping[str, Any] = next((node for node in there.nodes if node["ID"] == there.manager), {})
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


def modes(wanted: Wanted, there: There) -> Iterator[str]:
    by_name = {service["Spec"]["Name"]: service for service in of_stack(wanted.stack, there.services)}
    for service in wanted.services:
        former = by_name.get(service["Name"])
        if former is None:
            continue
        was, will = _mode(former["Spec"]), _mode(service)
        if was != will:
            yield (
                "%s is %s, and the file says %s: swarm cannot change a service's mode. Remove it first, which ends its tasks ("
                "'docker service rm %s'), or give the service another name." % (service["Name"], _words(was), _words(will), service["Name"])
            )


def _words(mode: str) -> str:
    return {"ReplicatedJob": "replicated-job", "GlobalJob": "global-job"}.get(mode, mode.lower())


def ports(wanted: Wanted, there: There) -> Iterator[str]:
    """Ports that are taken. Only one service can publish a port for the whole swarm. Several services may publish the same host port on different
    nodes.

    Docker updates the services of a stack in any order. So if a port moves from one service to another, it may still be taken.
    """
    names = {service["Name"] for service in wanted.services}
    own = {service["ID"] for service in of_stack(wanted.stack, there.services)}
    gone = {service["ID"] for service in there.services if service["ID"] in own and service["Spec"]["Name"] not in names} if wanted.prune else set()
    taken: dict[PortKey, list[tuple[str, str, bool]]] = {}
    for service in there.services:
        if service["ID"] not in gone:
            for key, mode in _published(service):
                taken.setdefault(key, []).append((service["Spec"]["Name"], mode, service["ID"] in own))
    for spec in wanted.services:
        for key, mode in sorted(set(_ports(spec.get("EndpointSpec")))):
            other = next((one for one in taken.get(key, ()) if one[0] != spec["Name"] and INGRESS in (mode, one[1])), None)
            if other is not None:
                yield _port(spec["Name"], key, *other)


def _port(name: str, key: PortKey, other: str, mode: str, is_own: bool) -> str:
    if is_own:
        return (
            "%s publishes port %d/%s, which %s of this stack has now. Docker may deploy the new owner before the old one gives it up. "
            "Deploy the stack once without that port, or write another number." % (name, *key, other)
        )
    where = " on its nodes" if mode == HOST else ""
    return "%s publishes port %d/%s, which the service %s has%s. Write another number, or remove that service." % (name, *key, other, where)


def _published(service: Mapping[str, Any]) -> Iterator[tuple[PortKey, str]]:
    """The ports that the service specifies, and the ports that swarm chose for it."""
    yield from _ports(service["Spec"].get("EndpointSpec"))
    yield from _ports(service.get("Endpoint"))


def _ports(endpoint: Mapping[str, Any] | None) -> Iterator[tuple[PortKey, str]]:
    for port in (endpoint or {}).get("Ports") or []:
        if port.get("PublishedPort"):
            yield (port["PublishedPort"], port.get("Protocol") or "tcp"), port.get("PublishMode") or INGRESS


# -- networks ------------------------------------------------------------------------------------------------------------------


def ingress(wanted: Wanted, there: There) -> Iterator[str]:
    found = [network for network in there.networks if network.get("Ingress")]
    named = {network[key] for network in found for key in ("Name", "Id") if network.get(key)}
    for name in sorted(named.intersection(wanted.attached)):
        yield "The stack's network %s is the ingress network, which no service may join. Leave it out: a published port uses it by itself." % name
    publishing = [spec["Name"] for spec in wanted.services if any(mode == INGRESS for _key, mode in _all_ports(spec))]
    if publishing and not found:
        yield (
            "%s publishes a port for the whole swarm, but the swarm has no ingress network. Make it with 'docker network create --ingress "
            "--driver overlay ingress', or publish the port in mode: host." % publishing[0]
        )


def _all_ports(spec: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for port in (spec.get("EndpointSpec") or {}).get("Ports") or []:
        yield port.get("PublishedPort") or 0, port.get("PublishMode") or INGRESS


def plugins(wanted: Wanted, there: There) -> Iterator[str]:
    """Network drivers that the managers do not have. The leader looks them up."""
    leads = leader(there.nodes)
    known = {name for plugin in (leads.get("Description", {}).get("Engine", {}).get("Plugins") or []) for name in _plugin(plugin) if leads}
    for name, network in _new(wanted, there):
        driver = str(network.get("driver") or "")
        if driver not in BUILT_IN and known and driver not in known:
            yield "The network %s has the driver %s, which the managers do not have. Install that plugin there, or take the driver out." % (
                name,
                driver,
            )


def _plugin(plugin: Mapping[str, Any]) -> Iterator[str]:
    if plugin.get("Type") == "Network":
        name = str(plugin.get("Name"))
        yield name
        if name.endswith(":latest"):
            yield name[: -len(":latest")]


def subnets(wanted: Wanted, there: There) -> Iterator[str]:
    """Overlapping subnets. Docker creates such a network, but swarm never allocates it, so its tasks stay in the state new."""
    taken = [
        (one, network["Name"])
        for network in there.networks
        if network.get("Scope") == "swarm"
        for config in ((network.get("IPAM") or {}).get("Config") or [])
        if (one := _network(config.get("Subnet")))
    ]
    for name, network in _new(wanted, there):
        for text in network.get("subnets") or []:
            mine = _network(text)
            other = next((holder for one, holder in taken if mine and one.version == mine.version and one.overlaps(mine)), None)
            if other is not None:
                yield "The subnet %s of the network %s overlaps with that of the network %s. Write another one, or leave it to swarm." % (
                    text,
                    name,
                    other,
                )
            if mine:
                taken.append((mine, name))


def _network(text: Any) -> Any:
    try:
        return ip_network(str(text), strict=False)
    except ValueError:
        return None


def _new(wanted: Wanted, there: There) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The networks of the stack that do not exist yet. Existing ones do not change."""
    own = {network["Name"] for network in there.networks if (network.get("Labels") or {}).get(NAMESPACE) == wanted.stack}
    yield from ((name, wanted.networks[name]) for name in sorted(wanted.networks) if name not in own)


# -- configs and secrets -------------------------------------------------------------------------------------------------------


def contents(wanted: Wanted, there: There) -> Iterator[str]:
    """Configs and secrets whose content would change. Docker can change only their labels. Nobody can read the content of a secret, so a label has
    its digest."""
    for kind, listed in (("configs", there.configs), ("secrets", there.secrets)):
        by_name = {one["Spec"]["Name"]: one["Spec"] for one in listed}
        for name, digest in sorted((wanted.contents.get(kind) or {}).items()):
            former = by_name.get(name)
            if former is not None and _digest(former, digest) != digest:
                yield (
                    "The swarm has a %s %s with another content already, and Docker changes none. Remove its name: from the Compose file, and "
                    "each content gets a name of its own; or write another name there." % (kind[:-1], name)
                )


def _digest(spec: Mapping[str, Any], unknown: str) -> str:
    if spec.get("Data"):
        return hashlib.sha256(base64.b64decode(spec["Data"])).hexdigest()
    return str((spec.get("Labels") or {}).get(CONTENT) or unknown)
