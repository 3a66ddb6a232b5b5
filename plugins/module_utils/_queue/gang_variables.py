# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables that tell the members of a gang how to reach each other (pure). The names are those that torchrun and torch.distributed read.

On the host's network, MASTER_ADDR is the data address of rank 0's node, and each member gets the data interface of its own node. Both come from the
nodes' labels. On a network of swarm, MASTER_ADDR is the name of rank 0's service. With a virtual IP address, rank 0 could not listen on that address.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import zlib
from typing import Any, Collection, Mapping, Sequence, Tuple

from .._errors import GpuSwarmError
from .._placement.pending import UNITS, wanted_by
from .._policy.data_network import ADDRESS, INTERFACE

HOST = "host"
PORTS = range(29400, 30000)
MOST_CARDS = 128  # of one node; a larger reservation is an amount of memory on one card
RANK = "NODE_RANK"
# NCCL takes all interfaces that begin with the text, unless the text begins with "=".
INTERFACES = {"NCCL_SOCKET_IFNAME": "=%s", "GLOO_SOCKET_IFNAME": "%s"}
OURS = (RANK, "NNODES", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", *INTERFACES)

# The service id and the node id of each member, in the order of their ranks.
Plan = Sequence[Tuple[str, str]]


def network_of(service: Mapping[str, Any]) -> str:
    """Return ``host`` for the host's network, else the ids of the service's networks. Raises GpuSwarmError if members could not reach each other.

    The specification has only ids. Swarm lists the host's network among a service's virtual IP addresses, but without an address
    (swarmkit manager/allocator/cnmallocator/networkallocator.go, allocateVIP).
    """
    spec = service["Spec"]
    networks = sorted({network.get("Target") or "" for network in spec["TaskTemplate"].get("Networks") or spec.get("Networks") or []})
    if not networks:
        raise GpuSwarmError(
            "its gang has no network on which its members reach each other; "
            "create them with --network host, or with an overlay network and --endpoint-mode dnsrr"
        )
    if (spec.get("EndpointSpec") or {}).get("Mode") == "dnsrr":
        return ",".join(networks)
    addresses = [one for one in (service.get("Endpoint") or {}).get("VirtualIPs") or [] if one.get("NetworkID") in networks]
    if not addresses:
        raise GpuSwarmError("swarm has not set up the network of its gang yet")
    if any(one.get("Addr") for one in addresses):
        raise GpuSwarmError("its gang has a virtual IP address on its network, on which rank 0 cannot listen; create them with --endpoint-mode dnsrr")
    return HOST


def is_on_host(service: Mapping[str, Any]) -> bool:
    try:
        return network_of(service) == HOST
    except GpuSwarmError:  # somebody changed the service after the admission
        return False


def free_port(admission: str, taken: Collection[int]) -> int:
    """Return a port that no live gang uses on rank 0's node.

    The search begins at a port that depends on the admission. So if another program uses the port, the next attempt gets another port.
    """
    first = zlib.crc32(admission.encode("utf-8")) % len(PORTS)
    return next((port for port in (*PORTS[first:], *PORTS[:first]) if port not in taken), PORTS[first])


def variables(
    service: Mapping[str, Any], plan: Plan, port: int, services: Mapping[str, Mapping[str, Any]], labels: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return the variables of a member. ``services`` has the services by id, ``labels`` the labels of each node by the node's id."""
    rank = [service_id for service_id, _node in plan].index(service["ID"])
    local, on_host = _processes(service), is_on_host(service)
    first, first_node = plan[0]
    address = labels.get(first_node, {}).get(ADDRESS, "") if on_host else services[first]["Spec"]["Name"]
    interface = labels.get(plan[rank][1], {}).get(INTERFACE, "") if on_host else ""
    values = [str(rank), str(len(plan)), str(len(plan) * local), str(local), address, str(port)]
    values += [form % interface if interface else "" for form in INTERFACES.values()]
    return {name: value for name, value in zip(OURS, values) if value}


def with_variables(environment: Sequence[str], added: Mapping[str, str], again: bool) -> list[str]:
    """Return the environment with these variables at its end; NODE_RANK is the first of them. An interface that a user chose is kept.

    ``again`` says whether an earlier admission may have added variables. Then an interface after NODE_RANK comes from that admission.
    """
    names = [entry.partition("=")[0] for entry in environment]
    end = names.index(RANK) if again and RANK in names else len(names)
    chosen = {name for name in names[:end] if name in INTERFACES}
    kept = [entry for place, entry in enumerate(environment) if names[place] not in OURS or (names[place] in chosen and place < end)]
    return kept + ["%s=%s" % item for item in added.items() if item[0] not in chosen]


def _processes(service: Mapping[str, Any]) -> int:
    """Return how many processes a member starts: one for each card that it reserves, at least one."""
    amounts = [amount for kind, amount in wanted_by(service["Spec"]["TaskTemplate"]).items() if kind not in UNITS]
    return max(1, sum(amount if amount <= MOST_CARDS else 1 for amount in amounts))
