# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What images on the nodes require of the driver, and which toolkit enforces it, as the nodes themselves have answered (pure).

Their answers are variables of the hosts, as the playbook deploy registers them. With the role alone there are none, and what counts is the toolkit's
version in the inventory. A node can answer anything: what has not the right form is no answer.
Private to this collection: no stability is promised to others.
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
_SHOWN = 5

Variables = Mapping[str, str]


class Seen(NamedTuple):
    """``enforces``: its toolkit refuses what does not meet a requirement; None where that is not known. ``images`` are those that it has."""

    enforces: bool | None = None
    images: Mapping[str, Variables] = {}


def seen(hostvars: Mapping[str, Any]) -> tuple[dict[str, Seen], list[str]]:
    """(by host of the inventory what is known of it, what is to be said of those that gave no answer)"""
    found, silent = {}, []
    for host in hostvars:
        answer, version = hostvars[host].get(ANSWER), hostvars[host].get(VERSION)
        by_version = in_legacy_mode(version) if isinstance(version, str) else None
        found[host] = Seen(by_version)
        if isinstance(answer, Mapping) and isinstance(answer.get("images"), Mapping):
            found[host] = Seen(by_version if answer.get("enforces") is None else answer["enforces"] is True, _images(answer["images"]))
        elif isinstance(answer, Mapping) and "msg" in answer:
            silent.append(f"what images on {host} require is not known: {answer['msg']}")
    more = [f"and {len(silent) - _SHOWN} more of them are not known either"] if len(silent) > _SHOWN else []
    return found, silent[:_SHOWN] + more


def _images(answer: Mapping[Any, Any]) -> dict[str, Variables]:
    pairs = [(str(image), variables) for image, variables in answer.items() if isinstance(variables, Mapping)]
    return {image: {str(key): str(value) for key, value in variables.items()} for image, variables in pairs}


def machines(nodes: Iterable[Mapping[str, Any]], seen: Mapping[str, Seen], image: str, elsewhere: Variables, own: Variables) -> list[Machine]:
    """Nodes of the ledger, each with the variables that a task has there: the image's, and the service's ``own``.

    On a node that does not have the image it counts as it is ``elsewhere``, on the manager, or else on another node: that is what will be pulled.
    """
    common = elsewhere or next((one.images[image] for _host, one in sorted(seen.items()) if one.images.get(image)), {})
    found = []
    for node in nodes:
        here = seen.get(node["labels"].get(HOST_LABEL) or node["hostname"], Seen())
        labels, variables = node["labels"], {**here.images.get(image, common), **own}
        found.append(Machine(node["hostname"], facts_of(labels), here.enforces, variables, prefix_of(labels)))
    return found
