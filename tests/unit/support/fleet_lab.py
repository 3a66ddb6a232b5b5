# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts with their assessments and the manager's ledger, as plain data for tests."""

from __future__ import annotations

from dataclasses import asdict, fields

import dockerd_lab
from node_lab import UUIDS, gpu, resources

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import Host, Removal, Step, Swarm

LABELS = {"gpu.count": "2", "gpu.model": "NVIDIA-H100-80GB-HBM3"}


def assessed(node_id="n1", gpus=2, containers=(), shown=(), **other):
    """Return the answer of gpu_node in check mode for a node in the desired state. Its daemon shows the resources ``shown``."""
    answer = {
        "changed": False,
        "gpus": [gpu(index) for index in range(gpus)],
        "resources": resources(*range(gpus)),
        "labels": LABELS if gpus else {},
        "missing": [],
        "drift": [],
        "restart_required": False,
        "engine": {"generic_resources": dockerd_lab.generic_resources(shown)},
        "toolkit_version": "1.20.0" if gpus else None,
        "swarm": {"state": "active" if node_id else "inactive", "node_id": node_id, "control_available": False, "managers": ["10.0.0.9:2377"]},
        "containers": [{"name": name, "service": service, "task": name if service else None} for name, service in containers],
    }
    return dict(answer, **other)


def host(name="gpu-1", gpu=True, manager=False, toolkit=None, disrupt="services", move=False, **answer):
    return Host(name, gpu, manager, assessed(gpus=2 if gpu else 0, **answer), toolkit, disrupt, move)


def named(*indices, held=()):
    values = [UUIDS[index] for index in indices]
    return {"type": "named", "total": len(values), "values": values, "free": [UUIDS[index] for index in indices if index not in held]}


# The hosts of these nodes. For other nodes, the host has the name of the node.
BOUND = {"n1": "gpu-1"}


def member(node_id="n1", role="worker", labels=None, shown=(0, 1), bound=True, **other):
    """Return a node of the ledger. Without ``labels``, the node has the recorded labels. ``bound`` is the host's name; True means the node's host."""
    recorded = dict(LABELS, **{"gpu-swarm.labels": "gpu.count,gpu.model"})
    mark = {"gpu-swarm.host": BOUND.get(node_id, node_id) if bound is True else bound} if bound else {}
    entry = {
        "id": node_id,
        "role": role,
        "leader": False,
        "reachability": "reachable" if role == "manager" else None,
        "state": "ready",
        "availability": "active",
        "labels": dict(recorded if labels is None else labels, **mark),
        "resources": {"NVIDIA-GPU": named(*shown)} if shown else {},
        "former_availability": None,
        "tasks": [],
    }
    return dict(entry, **other)


def task(name, service, movable=True, **other):
    """Return a task of the ledger. If the task has a container, the container has the task's name."""
    return dict({"id": name, "name": name, "service": service, "movable": movable}, **other)


def ledger(*nodes):
    return {"nodes": list(nodes), "classes": []}


def swarm(*nodes, evicted=None):
    """Return the swarm of these nodes as a manager shows it, or a swarm that is not initialised yet."""
    found = {"live": ["m"], "init_on": None, "error": None} if nodes else {"live": [], "init_on": "m", "error": None}
    return Swarm(found, ledger(*nodes) if nodes else None, evicted or {})


def step_with(fault="", **values):
    """Return a step of a plan. Each value is set in the part of the step that has a field with this name. ``fault`` is the text of its fault."""
    removal = Removal() if {"labels", "mark", "remains", "entry"} & set(values) else None
    found = Step(removal=removal)
    found.fault.text = fault
    for name, value in values.items():
        parts = (found, found.work, found.fault, found.membership, found.target, removal)
        (part,) = [part for part in parts if part and name in {one.name for one in fields(part)}]
        setattr(part, name, value)
    return found


def planned(name, node_id="n1", **values):
    """Return the fact with the plan of this host. By default, the host is a member, and the change would stop all work on the host."""
    return {"gpu_swarm_plan": {"steps": {name: asdict(step_with(**{"node_id": node_id, "stops": "containers", **values}))}}}
