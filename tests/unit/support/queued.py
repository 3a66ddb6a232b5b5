# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of a queue in the form of the API."""

from __future__ import annotations

from swarm_api import discrete, node, placement, reserving, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import swarm_state
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._placement.scheduler import demand_of
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.usage import Running
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.waiting import Gang, Work

GPU = "NVIDIA-GPU"
NOW = 1_000_000.0
CREATED = "2026-11-20T12:00:00.123456789Z"


def queued(name="train", reserves=None, queue="research", state=None, replicas=0, mode=None, condition="none", constraints=(), **labels):
    """Return a service of a queue. An underscore in a label's name stands for a hyphen; ``owner="alice"`` is gpu-swarm.owner=alice."""
    own = {
        "gpu-swarm." + key.replace("_", "-"): value for key, value in {"queue": queue, "queue_state": state, **labels}.items() if value is not None
    }
    template = {"ContainerSpec": {"Image": "my/training:1"}, "Placement": placement(constraints)}
    template["Resources"] = reserving({GPU: 2} if reserves is None else reserves)
    if condition:
        template["RestartPolicy"] = {"Condition": condition}
    spec = {"Name": name, "Labels": own, "Mode": {"Replicated": {"Replicas": replicas}} if mode is None else mode, "TaskTemplate": template}
    made = {"ID": "id" + name, "CreatedAt": CREATED, "Spec": spec}
    return on_network(made) if labels.get("gang") else made


def on_network(service):
    """Attach the service to an overlay network, on which the members of a gang find each other by name."""
    service["Spec"]["TaskTemplate"]["Networks"] = [{"Target": "overlay1"}]
    service["Spec"]["EndpointSpec"] = {"Mode": "dnsrr"}
    return service


def on_host(service):
    """Attach the service to the host's network. Swarm lists that network among the virtual IP addresses, without an address."""
    service["Spec"]["TaskTemplate"]["Networks"] = [{"Target": "host1"}]
    service["Spec"]["EndpointSpec"] = {"Mode": "vip"}
    service["Endpoint"] = {"Spec": {"Mode": "vip"}, "VirtualIPs": [{"NetworkID": "host1"}]}
    return service


def gpu_node(node_id, gpus=8, **options):
    """Return a node with GPUs. ``model`` is the value of its label gpu.model, ``data`` the address and the interface of its data network."""
    model, data = options.pop("model", None), options.pop("data", None)
    made = node(node_id, resources=discrete(gpus, GPU), **options)
    made["Description"]["Resources"].update(NanoCPUs=64 * 10**9, MemoryBytes=2**40)
    if model:
        made["Spec"]["Labels"]["gpu.model"] = model
    if data:
        made["Spec"]["Labels"].update({"gpu-swarm.data-address": data[0], "gpu-swarm.data-interface": data[1]})
    return made


def held(node_id, gpus, service="unqueued", state="running"):
    """Return a task that holds GPUs."""
    return task("t-%s-%s" % (service, node_id), node_id, discrete(gpus, GPU), state, reserves={GPU: gpus}, service=service)


def state_of(nodes, tasks=(), services=()):
    return swarm_state(Listed(nodes, tasks, services, NOW), "gpu-swarm.")


def work(name="w", gpus=1, queue="research", since=0.0, limit=3600.0, **options):
    """Return waiting work. ``gpus`` may also be amounts by resource kind."""
    wants = gpus if isinstance(gpus, dict) else {GPU: gpus}
    service = queued(name, wants)
    service["Spec"]["TaskTemplate"]["Placement"] = placement(options.pop("constraints", ()), options.pop("platforms", ()))
    service["Spec"]["EndpointSpec"] = {"Ports": options.pop("ports", [])}
    return Work(name, name, queue, options.pop("owner", ""), since, demand_of(service), time_limit_s=limit, **options)


def gang(name, size, gpus=8, same_model=False, network="overlay1", **options):
    return [work("%s%d" % (name, rank), gpus, gang=Gang(name, rank, size, same_model, network), **options) for rank in range(size)]


def runs(node_id, gpus, ends=None, placed=True, queue="research", owner="", name=None):
    return Running(name or "r-%s" % node_id, queue, owner, node_id, {GPU: gpus}, ends, placed)
