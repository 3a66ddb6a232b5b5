# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run asks of the swarm's manager for its hosts, and whether the manager shows what was decided (pure).

``variables`` are Ansible's hostvars: of each host, what this run found (``gpu_node_assessed``), applied
(``gpu_node_applied``), joined (``swarm_member_state``) and failed at (``gpu_swarm_outcome``).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..module_utils import _resources, _swarm_labels
from ._plan import LABEL_PREFIX

Variables = Mapping[str, Mapping[str, Any]]


def node_id_of(variables: Mapping[str, Any]) -> str | None:
    """The host's node id: as it joined in this run, else as it was found; none of a host that left the swarm."""
    now = variables.get("swarm_member_state") or {}
    assessed = variables.get("gpu_node_assessed") or {}
    if now.get("state") == "inactive":
        return None
    return now.get("node_id") or (assessed.get("swarm") or {}).get("node_id")


def decided(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """The latest decision for a host: what was applied in this run, else what was found."""
    return variables.get("gpu_node_applied") or variables.get("gpu_node_assessed") or {}


def step_of(name: str, variables: Variables) -> Mapping[str, Any]:
    return ((variables[name].get("gpu_swarm_plan") or {}).get("steps") or {}).get(name) or {}


def availability_updates(names: Iterable[str], variables: Variables, away: bool) -> list[dict[str, Any]]:
    """For swarm_nodes: keep work away from these hosts (paused, or drained by consent), or give them back as they were."""
    updates = []
    for name in names:
        node_id = node_id_of(variables[name])
        wanted = step_of(name, variables).get("availability", "pause") if away else "former"
        if node_id:
            updates.append({"id": node_id, "availability": wanted, "remember": away})
    return updates


def label_updates(names: Iterable[str], variables: Variables, ledger: Any = None) -> list[dict[str, Any]]:
    """For swarm_nodes: the labels of these hosts as planned, else as decided there, unless something failed there.

    With a ``ledger``, only of hosts whose labels it shows to differ, and not by a clash with somebody else's.
    """
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    updates = []
    for name in names:
        node_id = node_id_of(variables[name])
        wanted = step_of(name, variables).get("labels", decided(variables[name]).get("labels"))
        keep = decided(variables[name]).get("labels_unknown") or []
        if not node_id or wanted is None or variables[name].get("gpu_swarm_outcome"):
            continue
        if ledger is None or (node_id in nodes and _differs(nodes[node_id], wanted, keep)):
            updates.append({"id": node_id, "labels": wanted, **({"keep": keep} if keep else {})})
    return updates


def _differs(node: Mapping[str, Any], wanted: Mapping[str, str], keep: Sequence[str]) -> bool:
    labels, clashes = _swarm_labels.compute(node["labels"], wanted, LABEL_PREFIX, keep)
    return not clashes and labels != node["labels"]


def not_shown(names: Iterable[str], variables: Variables, ledger: Any) -> list[str]:
    """The hosts of which the manager's ledger does not show yet what was decided; those that failed do not count."""
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    waiting = []
    for name in names:
        step = step_of(name, variables)
        if variables[name].get("gpu_swarm_outcome") or step.get("waits_for") or step.get("error"):
            continue
        node = nodes.get(node_id_of(variables[name]) or "")
        if node is None or node["state"] != "ready" or difference(decided(variables[name]), node):
            waiting.append(name)
    return waiting


def difference(wanted: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """What the manager's ledger does not show of a decision, in words."""
    for kind, values in _resources.parse(wanted.get("resources") or []).items():
        entry = node["resources"].get(kind) or {}
        if isinstance(values, int):
            if entry.get("total") != values:
                return f"the manager shows {entry.get('total', 0)} of {values} {kind}"
            continue
        shown = entry.get("values") or []
        if sorted(values) != sorted(shown):
            return f"the manager shows {len(shown)} of {len(values)} {kind}"
    return None


def manager_gate(name: str, others: Iterable[str], variables: Variables, ledger: Any) -> str:
    """Why this manager must not be taken out now, or ''. ``others`` are the managers that this run changes too.

    A swarm of one or two managers stands still for the seconds of a restart whatever is done; from three on it must not.
    """
    for other in others:
        if other != name and variables[other].get("gpu_swarm_outcome"):
            return f"left alone, since the change of the manager {other} failed. Mend that and run this again."
    managers = [node for node in (ledger or {}).get("nodes") or [] if node["role"] == "manager"]
    if not managers:
        reason = (ledger or {}).get("msg") or "it gave no list of nodes"
        return f"left alone: no manager could be asked who else runs the swarm ({reason}). Mend that and run this again."
    up = [node for node in managers if node["reachability"] == "reachable" and node["id"] != node_id_of(variables[name])]
    if len(managers) > 2 and len(up) <= len(managers) // 2:
        return (
            f"left alone: without it {len(up)} of {len(managers)} managers could be reached, too few to run the swarm. "
            "Bring the other managers back and run this again."
        )
    return ""
