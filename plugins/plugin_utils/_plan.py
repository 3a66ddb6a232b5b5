# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has to do, host by host (pure): the assessments and the manager's ledger in, groups of hosts out.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..module_utils import _resources, _swarm_labels

LABEL_PREFIX = "gpu-swarm."

# The groups that a run's plays are for. A play over an empty group costs nothing.
PREPARE = "gpu_swarm_prepare"  # nothing runs there and swarm places nothing there, or nothing that hurts is to be done
WINDOW = "gpu_swarm_window"  # members of the swarm: paused, changed, and given back as they were
WINDOW_MANAGERS = "gpu_swarm_window_managers"  # the same, one at a time
JOIN = "gpu_swarm_join"
LABEL = "gpu_swarm_label"
END = "gpu_swarm_end"  # whoever is in a group above, waits, or cannot go on


@dataclass
class Host:
    """One host of the fleet as the inventory has it and as its assessment found it."""

    name: str
    gpu: bool
    manager: bool
    assessed: dict[str, Any] | None

    @property
    def failed(self) -> bool:
        """Whether Ansible has given this host up."""
        return not self.assessed or bool(self.assessed.get("unreachable") or self.assessed.get("failed"))

    @property
    def error(self) -> str | None:
        """Why nothing can be done with this host in this run."""
        if not self.assessed:
            return "not assessed"
        if self.assessed.get("unreachable"):
            return f"unreachable: {self.assessed.get('msg', '')}"
        if self.assessed.get("failed"):
            return str(self.assessed.get("msg", "the assessment failed"))
        if "engine" in self.assessed["missing"]:
            return "Docker Engine is not installed. Install it on this host and run this again."
        return None

    @property
    def node_id(self) -> str | None:
        return self.assessed["swarm"]["node_id"] if self.assessed and self.assessed.get("swarm") else None


@dataclass
class Step:
    """What one host needs, which groups that puts it in, and what it means for those who use it."""

    needs: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    impact: list[str] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    error: str | None = None


def plan(hosts: list[Host], ledger: dict[str, Any] | None, toolkit: str | None, disrupt: str) -> dict[str, Step]:
    """The step of each host, by name.

    ``ledger`` is what swarm_gpu_info returned, None where there is no swarm yet. ``toolkit`` is the version that every
    GPU node is to have, None for any. ``disrupt`` says what may be stopped: ``never`` or ``all``.
    """
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes", [])}
    return {host.name: _step(host, nodes.get(host.node_id or ""), toolkit, disrupt) for host in hosts}


def _step(host: Host, node: dict[str, Any] | None, toolkit: str | None, disrupt: str) -> Step:
    if host.error or not host.assessed:
        # It failed already, unless its assessment went well and told what is missing: then it fails at the end.
        return Step(error=host.error, groups=[] if host.failed else [END])
    step = Step(needs=_needs(host, host.assessed, node, toolkit))
    if not step.needs:
        return step
    _tell_impact(step, host.assessed, toolkit)
    hurts = "toolkit" in step.needs or "restart" in step.needs
    busy = _carried(host.assessed["containers"]) if hurts else []
    if busy and disrupt != "all":
        step.waits_for = busy
        step.groups.append(END)
        return step
    if busy:
        step.impact.append("stops " + ", ".join(busy))
    if hurts and node:
        step.groups.append(WINDOW_MANAGERS if node["role"] == "manager" else WINDOW)
    elif hurts or "configure" in step.needs:
        step.groups.append(PREPARE)
    if {"join", "role", "docker_sdk"} & set(step.needs):
        step.groups.append(JOIN)
    if "availability" in step.needs or (host.gpu and {"labels", "join"} & set(step.needs)):
        step.groups.append(LABEL)
    step.groups.append(END)
    return step


def _needs(host: Host, assessed: dict[str, Any], node: dict[str, Any] | None, toolkit: str | None) -> list[str]:
    wanted_role = "manager" if host.manager else "worker"
    needs = {
        "toolkit": host.gpu and (not assessed["toolkit_version"] or toolkit not in (None, assessed["toolkit_version"])),
        # Not by "changed": an assessment in a real run reports none. A library that is only carried costs every run.
        "configure": bool(assessed["drift"]) or "nvml_binding" in assessed["missing"],
        "restart": assessed["restart_required"],
        "join": node is None,
        "role": node is not None and node["role"] != wanted_role,
        # A worker needs the SDK to join, a manager for every later call.
        "docker_sdk": "docker_sdk" in assessed["missing"] and (host.manager or node is None),
        "labels": host.gpu and node is not None and label_change(node, assessed["labels"]),
        # A run that was killed may have left its mark.
        "availability": node is not None and bool(node.get("former_availability")),
    }
    return [name for name, needed in needs.items() if needed]


def label_change(node: dict[str, Any], wanted: dict[str, str]) -> bool:
    """Whether the labels that are ours on this node of the ledger differ from ``wanted``."""
    labels, clashes = _swarm_labels.compute(node["labels"], wanted, LABEL_PREFIX)
    return bool(clashes) or labels != node["labels"]


def _tell_impact(step: Step, assessed: dict[str, Any], toolkit: str | None) -> None:
    if "toolkit" in step.needs:
        now = assessed["toolkit_version"]
        step.impact.append(f"toolkit {now} → {toolkit or 'newest'}" if now else f"installs toolkit {toolkit or ''}".strip())
    if "configure" in step.needs:
        step.impact.extend(_gained_and_lost(assessed) or assessed["drift"] or ["keeps pynvml on the node"])
    if "restart" in step.needs:
        step.impact.append("restarts dockerd")
    for need, words in (
        ("join", "joins the swarm"),
        ("role", "changes its role in the swarm"),
        ("docker_sdk", "installs the Docker SDK for Python"),
        ("labels", "sets node labels"),
        ("availability", "gets its former availability back"),
    ):
        if need in step.needs:
            step.impact.append(words)


def _gained_and_lost(assessed: dict[str, Any]) -> list[str]:
    """By kind, how many GPUs the node will offer more or less than its daemon does now."""
    wanted = _gpus_by_kind(_resources.parse(assessed["resources"]))
    now = _gpus_by_kind(_resources.from_info((assessed["engine"] or {}).get("generic_resources")))
    changes = []
    for kind in dict.fromkeys([*wanted, *now]):
        gained, lost = wanted.get(kind, set()) - now.get(kind, set()), now.get(kind, set()) - wanted.get(kind, set())
        changes += [f"+{len(gained)} {kind}"] * bool(gained) + [f"−{len(lost)} {kind}"] * bool(lost)
    return changes


def _gpus_by_kind(resources: dict[str, Any]) -> dict[str, set[str]]:
    """The named resources whose values are GPUs; other kinds of the node are not ours to tell of."""
    named = {kind: values for kind, values in resources.items() if isinstance(values, list)}
    return {kind: set(values) for kind, values in named.items() if all(one.startswith("GPU-") for one in values)}


def _carried(containers: list[dict[str, Any]]) -> list[str]:
    """What runs there as its owner knows it: services with the number of their tasks, then plain containers."""
    tasks = Counter(item["service"] for item in containers if item.get("service"))
    services = [f"service {name}" + (f" ({count} tasks)" if count > 1 else "") for name, count in tasks.items()]
    return services + [f"container {item['name']}" for item in containers if not item.get("service")]


def node_id_of(variables: Mapping[str, Any]) -> str | None:
    """The host's node id: as it joined in this run, else as it was found."""
    joined = variables.get("swarm_member_state") or {}
    assessed = variables.get("gpu_node_assessed") or {}
    return joined.get("node_id") or (assessed.get("swarm") or {}).get("node_id")


def decided(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """The latest decision for a host: what was applied in this run, else what was found."""
    return variables.get("gpu_node_applied") or variables.get("gpu_node_assessed") or {}


def node_updates(
    names: list[str], variables: Mapping[str, Mapping[str, Any]], availability: str | None = None, labels: bool = False
) -> list[dict[str, Any]]:
    """What to ask of swarm_nodes for these hosts, as far as they are members.

    Every one gets its availability, the failed ones too; labels only tell of hosts on which all went well.
    """
    updates = []
    for name in names:
        node_id = node_id_of(variables[name])
        update: dict[str, Any] = {}
        if availability:
            update["availability"] = availability
            update["remember"] = availability != "former"
        if labels and not variables[name].get("gpu_swarm_outcome"):
            update["labels"] = decided(variables[name]).get("labels")
        if node_id and update:
            updates.append({"id": node_id, **update})
    return updates


def not_shown(names: list[str], variables: Mapping[str, Mapping[str, Any]], ledger: Any) -> list[str]:
    """The hosts of which the manager's ledger does not show yet what was decided; those that failed do not count."""
    nodes = {node["id"]: node for node in (ledger or {}).get("nodes") or []}
    waiting = []
    for name in names:
        step = (variables[name].get("gpu_swarm_plan") or {}).get("steps", {}).get(name) or {}
        if variables[name].get("gpu_swarm_outcome") or step.get("waits_for") or step.get("error"):
            continue
        node = nodes.get(node_id_of(variables[name]) or "")
        if node is None or node["state"] != "ready" or difference(decided(variables[name]), node):
            waiting.append(name)
    return waiting


def difference(wanted: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    """What the manager's ledger does not show of a decision, in words."""
    for kind, values in _resources.parse(wanted.get("resources") or []).items():
        shown = (node["resources"].get(kind) or {}).get("values") or []
        if isinstance(values, list) and sorted(values) != sorted(shown):
            return f"the manager shows {len(shown)} of {len(values)} {kind}"
    return None
