# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks which node of the swarm a host of the inventory is (pure).

A host reports its own node id. An attacker who controls the host can report any id. So the first run that labels a node binds the node to the host by
a node label, which only managers can change. After that, no other host can pretend to be this node.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._swarm import owned_labels

LABEL_PREFIX = owned_labels.PREFIX
BOUND = LABEL_PREFIX + owned_labels.HOST

Nodes = Mapping[str, Mapping[str, Any]]


def identity_errors(shown: Mapping[str, str | None], nodes: Nodes) -> dict[str, str]:
    """Return by host why its node id cannot be right. ``shown`` are the ids that the hosts report, by name."""
    hosts = defaultdict(list)
    for name, node_id in shown.items():
        if node_id:
            hosts[node_id].append(name)
    errors = {}
    for node_id, names in hosts.items():
        labels = (nodes.get(node_id) or {}).get("labels") or {}
        for name in names:
            problem = _shared_id_error(name, names, node_id, labels) if len(names) > 1 else identity_error(name, node_id, labels)
            if problem:
                errors[name] = problem
    return errors


def identity_error(name: str, node_id: str, labels: Mapping[str, str]) -> str | None:
    """Return why the host ``name`` is not the node with these labels, or None."""
    bound = owned_labels.bound_to(labels, LABEL_PREFIX)
    if bound in (None, name):
        return None
    return (
        f"This host reports the node id {node_id}, but the node's label {BOUND} says that the node belongs to the host {bound}. So the run changes "
        f"nothing on that node for {name}. If {bound} was renamed to {name} in the inventory, run '{_rebind_command(name, node_id)}' on a manager "
        f"and run this again. If {name} is another machine, find out why it reports that id: it is a copy of the other machine, or somebody "
        "controls it."
    )


def _shared_id_error(name: str, names: Iterable[str], node_id: str, labels: Mapping[str, str]) -> str:
    bound = owned_labels.bound_to(labels, LABEL_PREFIX)
    owner = f" The node's label {BOUND} says that the node belongs to {bound}." if bound else ""
    others = ", ".join(other for other in names if other != name)
    return (
        f"{name} and {others} report the same node id {node_id}, so none of them is changed.{owner} If this is one machine, keep one of these "
        "names in the inventory. If one is a copy of the other (a cloned virtual machine), run 'docker swarm leave --force' on the copy; "
        "it joins as a node of its own when you run this again."
    )


def _rebind_command(name: str, node_id: str) -> str:
    return f"docker node update --label-add {shlex.quote(f'{BOUND}={name}')} {node_id}"
