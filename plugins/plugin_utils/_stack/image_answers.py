# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what nodes answer about images (pure): what the images require of the driver, and whether the node's toolkit enforces these requirements.

The playbook deploy registers the answers of the nodes as host variables. If only the role runs, it has no answers and uses the toolkit's version from
the inventory. A node can answer anything, so answers of the wrong form are ignored.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ...module_utils._ledger.node_labels import prefix_of
from ...module_utils._swarm.owned_labels import HOST
from ...module_utils._swarm.owned_labels import PREFIX as PREFIX_OF_LABELS
from .image_requirement import Machine, facts_of, in_legacy_mode

ANSWER, VERSION = "gpu_swarm_image_requirements", "nvidia_container_toolkit_version"
HOST_LABEL = PREFIX_OF_LABELS + HOST
_MAX_SHOWN = 5

Variables = Mapping[str, str]


class HostFacts(NamedTuple):
    """``enforces``: the toolkit refuses images with unmet requirements; None if unknown. ``images`` are the node's images."""

    enforces: bool | None = None
    images: Mapping[str, Variables] = {}


def read_answers(hostvars: Mapping[str, Any]) -> tuple[dict[str, HostFacts], list[str]]:
    """Return (facts of each host of the inventory, notes about hosts without an answer)."""
    host_facts, notes = {}, []
    for host in hostvars:
        answer, version = hostvars[host].get(ANSWER), hostvars[host].get(VERSION)
        by_version = in_legacy_mode(version) if isinstance(version, str) else None
        host_facts[host] = HostFacts(by_version)
        if isinstance(answer, Mapping) and isinstance(answer.get("images"), Mapping):
            host_facts[host] = HostFacts(by_version if answer.get("enforces") is None else answer["enforces"] is True, _images(answer["images"]))
        elif isinstance(answer, Mapping) and "msg" in answer:
            notes.append(f"the requirements of images on {host} are not known: {answer['msg']}")
    more = [f"the same holds for {len(notes) - _MAX_SHOWN} more hosts"] if len(notes) > _MAX_SHOWN else []
    return host_facts, notes[:_MAX_SHOWN] + more


def _images(answer: Mapping[Any, Any]) -> dict[str, Variables]:
    pairs = [(str(image), variables) for image, variables in answer.items() if isinstance(variables, Mapping)]
    return {image: {str(key): str(value) for key, value in variables.items()} for image, variables in pairs}


def variables_of_image(image: str, manager_variables: Variables, host_facts: Mapping[str, HostFacts]) -> Variables:
    """Return the image's variables that the manager or a node reports; {} if unknown."""
    return manager_variables or next((facts.images[image] for _host, facts in sorted(host_facts.items()) if facts.images.get(image)), {})


def machines(
    nodes: Iterable[Mapping[str, Any]], host_facts: Mapping[str, HostFacts], image: str, image_variables: Variables, own_variables: Variables
) -> list[Machine]:
    """Return the nodes, each with the variables of a task on the node. These are the variables of the image and of the service (``own_variables``).

    If a node does not have the image yet, use ``image_variables``.
    """
    result = []
    for node in nodes:
        facts_here = host_facts.get(node["labels"].get(HOST_LABEL) or node["hostname"], HostFacts())
        labels, variables = node["labels"], {**facts_here.images.get(image, image_variables), **own_variables}
        result.append(Machine(node["hostname"], facts_of(labels), facts_here.enforces, variables, prefix_of(labels)))
    return result
