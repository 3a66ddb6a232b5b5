# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates x-gpu into constraints for swarm (pure), on existing labels or on a class label.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import GpuSwarmError
from ...module_utils._ledger.node_labels import DEFAULT, prefix_of
from ...module_utils._ledger.unreserved import has_gpus
from ...module_utils._swarm.owned_labels import PREFIX, bound_to
from . import classes, requirement
from .nodes import Facts, facts
from .requirement import Requirement
from .versions import bounds

_MAX_SHOWN = 5
# The missing class labels of each node.
Labels = dict[str, dict[str, str]]


class Node:
    """A node of the ledger with its properties."""

    def __init__(self, record: Mapping[str, Any], node_facts: Facts) -> None:
        self.record, self.facts = record, node_facts
        self.id, self.name, self.labels = str(record["id"]), str(record["hostname"]), record["labels"]
        self.prefix = prefix_of(self.labels)


class Constrained(NamedTuple):
    """Constraints that choose nodes. ``classes`` are the classes in the constraints. ``nodes`` meet all requirements."""

    constraints: list[str]
    classes: dict[str, classes.Meaning]
    nodes: list[Node]

    @property
    def line(self) -> str:
        return f"{' and '.join(self.constraints)}: {names_of(self.nodes)}"


def with_gpus(records: Sequence[Mapping[str, Any]], where: str) -> list[Node]:
    nodes = [Node(record, node_facts) for record in records if (node_facts := facts(record["labels"])).gpus]
    if not nodes:
        raise GpuSwarmError(_no_labels_error(records, where))
    return nodes


def class_prefix(nodes: Iterable[Node]) -> str:
    """Return the label prefix that most nodes have."""
    return min(Counter(node.prefix for node in nodes).items(), key=lambda pair: (-pair[1], pair[0]))[0]


def constraints_for(wants: Requirement, where: str, nodes: list[Node]) -> Constrained:
    able = able_nodes(wants, where, nodes)
    existing_labels = {field: label for field in wants if (label := _known_label(field, wants[field], nodes))}
    uncovered = {field: value for field, value in wants.items() if field not in existing_labels}
    needed = dict([classes.class_of_requirement(uncovered, class_prefix(nodes))]) if uncovered else {}
    constraints = [f"node.labels.{key}=={value}" for key, value in existing_labels.values()]
    constraints += [f"node.labels.{key}=={classes.LABEL_VALUE}" for key in needed]
    return Constrained(constraints, needed, able)


def able_nodes(wants: Requirement, where: str, nodes: list[Node]) -> list[Node]:
    """Return the nodes that meet all requirements. Raise GpuSwarmError if no node meets them."""
    able = [node for node in nodes if not requirement.unmet(wants, node.facts)]
    if wants and not able:
        raise GpuSwarmError(_unmet_error(wants, where, nodes))
    return able


def missing_labels(needed: Mapping[str, classes.Meaning], nodes: Iterable[Node]) -> Labels:
    labels_by_node = {}
    for node in nodes:
        labels = {key: value for key, value in classes.labels(node.facts, needed, node.labels).items() if node.labels.get(key) != value}
        if labels:
            labels_by_node[node.id] = labels
    return labels_by_node


def describe_labels(labels: Labels, nodes: Iterable[Node]) -> list[str]:
    """Return a line for each label, with the names of the nodes that get the label."""
    listed = list(nodes)
    keys = sorted({key for labels_of_node in labels.values() for key in labels_of_node})
    return [f"label {key}={classes.LABEL_VALUE} is added to {names_of(node for node in listed if key in labels.get(node.id, {}))}" for key in keys]


def names_of(nodes: Iterable[Node]) -> str:
    names = sorted(node.name for node in nodes)
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else "")


def _known_label(field: str, value: Any, nodes: list[Node]) -> tuple[str, str] | None:
    """Find an existing label that marks exactly the nodes that meet this requirement."""
    key, text = _LABELS.get(field, lambda _value: (None, ""))(value)
    if key is None:
        return None
    able_ids = {node.id for node in nodes if not requirement.unmet({field: value}, node.facts)}
    for label in sorted({node.prefix + key for node in nodes}):
        label_values = {node.id: node.labels[label] for node in nodes if node.labels.get(label, "").lower() == text.lower()}
        if label_values and set(label_values) == able_ids:
            return label, min(label_values.values())
    return None


def _threshold(prefix: str, value: str) -> tuple[str | None, str]:
    limits = bounds(value) or []
    single = len(limits) == 1 and limits[0].sign == ">="
    return (prefix + "_".join(map(str, limits[0].version)), classes.LABEL_VALUE) if single else (None, "")


# For each field, a function that returns the label without its prefix, and the value of the label.
_LABELS: dict[str, Any] = {
    requirement.MEMORY: lambda value: (f"mem_ge_{-(-value // 1024)}", classes.LABEL_VALUE),
    requirement.CAPABILITY: lambda value: _threshold("cc_ge_", value),
    requirement.CUDA: lambda value: _threshold("cuda_ge_", value),
    requirement.MODEL: lambda value: (None, "") if set("*?") & set(value) else ("model", value),
}


def _no_labels_error(records: Iterable[Mapping[str, Any]], where: str) -> str:
    """Return the error for a swarm without GPU labels: no node was provisioned, or GPU labels are disabled."""
    unlabelled = [record for record in records if bound_to(record["labels"], PREFIX) and has_gpus(record)]
    if not unlabelled:
        return f"{where} chooses nodes by their GPU labels, but no node of the swarm has any. Run provision."
    return (
        f"{where} chooses nodes by their GPU labels, but these nodes have no GPU labels: "
        f"{names_of(Node(record, Facts()) for record in unlabelled)}. Their gpu_node_label_prefix is empty. Set it, for example to "
        f"'{DEFAULT.prefix}', and run provision. Or remove x-gpu and choose a node with the constraint node.hostname==NAME."
    )


def _unmet_error(wants: Requirement, where: str, nodes: list[Node]) -> str:
    """Return the error for requirements that no node meets. The error names the existing values."""
    for field, value in wants.items():
        if all(requirement.unmet({field: value}, node.facts) for node in nodes):
            return f"{where}.{field} is {value}, but no node has that. Nodes have {_existing(field, nodes)}. Write one of these values."
    return f"{where}: no node meets all requirements. {_reasons(wants, nodes)}. Require less."


def _existing(field: str, nodes: list[Node]) -> str:
    nodes_by_value: dict[str, list[Node]] = {}
    for node in nodes:
        nodes_by_value.setdefault(requirement.value_of(field, node.facts), []).append(node)
    return ", ".join(f"{value} ({names_of(holders)})" for value, holders in sorted(nodes_by_value.items()))


def _reasons(wants: Requirement, nodes: list[Node]) -> str:
    shown = [f"{node.name} {requirement.unmet(wants, node.facts)[0]}" for node in nodes[:_MAX_SHOWN]]
    return "; ".join(shown) + (f"; and {len(nodes) - _MAX_SHOWN} more" if len(nodes) > _MAX_SHOWN else "")
