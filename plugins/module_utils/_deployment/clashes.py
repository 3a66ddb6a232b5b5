# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a manager would refuse in a stack because of what the swarm already has (pure): ports, modes, networks, and contents under one name.

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
# Drivers that every engine has.
BUILT_IN = ("", "overlay")
PortKey = Tuple[int, str]


class Wanted(NamedTuple):
    """A stack that is to be deployed. ``services`` as the API specifies them. ``networks`` are those that it makes, by name: their ``driver`` and
    ``subnets``. ``contents`` are by ``configs`` and ``secrets`` and by name the digests of what has a name of its own."""

    stack: str
    services: Sequence[Mapping[str, Any]]
    prune: bool
    networks: Mapping[str, Mapping[str, Any]]
    attached: Sequence[str]
    contents: Mapping[str, Mapping[str, str]]


class There(NamedTuple):
    """What the swarm has, as the API lists it. ``manager`` is the id of the manager that deploys."""

    nodes: Sequence[Mapping[str, Any]]
    services: Sequence[Mapping[str, Any]]
    networks: Sequence[Mapping[str, Any]]
    configs: Sequence[Mapping[str, Any]]
    secrets: Sequence[Mapping[str, Any]]
    manager: str


def clashes(wanted: Wanted, there: There) -> list[str]:
    """Each clash in words, with what to do; [] if the managers accept the stack."""
    checks = (jobs, modes, ports, ingress, plugins, subnets, contents)
    return [words for check in checks for words in check(wanted, there)]


# -- services ------------------------------------------------------------------------------------------------------------------


def jobs(wanted: Wanted, there: There) -> Iterator[str]:
    """Docker 20.10 reads no jobs from a stack file."""
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
    """The only key of a service's mode, such as ``Replicated``."""
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
    """Only one service can have a port for the whole swarm. Several services may have the same port of the host, on different nodes.

    Docker updates the services of a stack in no order. So a port that moves from one to another may still be taken.
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
    """The ports that the service specifies, and those that swarm has chosen for it."""
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
    """The leader looks them up."""
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
    """Docker makes such a network, but swarm never gives it an address, so its tasks stay new for ever."""
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
    """Those that the stack has already stay as they are."""
    own = {network["Name"] for network in there.networks if (network.get("Labels") or {}).get(NAMESPACE) == wanted.stack}
    yield from ((name, wanted.networks[name]) for name in sorted(wanted.networks) if name not in own)


# -- configs and secrets -------------------------------------------------------------------------------------------------------


def contents(wanted: Wanted, there: There) -> Iterator[str]:
    """Docker can only change the labels of a config or secret. The content of a secret cannot be read, so a label has its digest."""
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
