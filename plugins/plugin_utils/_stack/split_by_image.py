# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Splits a service into several services, one for each image of its ``x-gpu.images`` (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._placement.pending import is_schedulable
from .._classes import classes, images
from .._classes.constraints import Node
from .._classes.shares import shares

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,28}[a-z0-9])?")
# Docker's limit for the name of a service, including the name of its stack.
_MAX_NAME = 63
MAX_REPLICAS = 10_000
_LOCAL_NETWORKS = ("host", "bridge", "none")


def check_names(matrix: Sequence[Mapping[str, Any]], where: str) -> None:
    """Check the names that the user gave the parts."""
    names = [entry[images.NAME] for entry in matrix if images.NAME in entry]
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or names.count(name) > 1:
            raise GpuSwarmError(
                f"{where}: the name {name!r} must have at most 30 lower-case letters, digits, _ and -, and must be unique. Correct it."
            )


def name_parts(service: str, matrix: Sequence[Mapping[str, Any]], stack: str) -> list[str]:
    """Return the names of the parts. The names depend on the requirements of the image, so that a new tag does not change the names."""
    slugs = [str(entry.get(images.NAME) or classes.slug(entry)) for entry in matrix]
    suffixes = [f"-{_digest(str(images.criterion(entry)))}" if slugs.count(slug) > 1 else "" for slug, entry in zip(slugs, matrix, strict=True)]
    unique = [slug + suffix for slug, suffix in zip(slugs, suffixes, strict=True)]
    return [_shorten(f"{service}-{slug}", stack) for slug in unique]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:6]


def _shorten(name: str, stack: str) -> str:
    room = _MAX_NAME - len(stack) - 1
    return name if len(name) <= room else f"{name[: max(room - 7, 1)].rstrip('-_')}-{_digest(name)}"


def best_images(matrix: list[dict[str, Any]], nodes: Sequence[Node]) -> tuple[dict[str, list[int]], list[str]]:
    """Return the best images of each node as positions in the list, and a reason for each node that can run none of the images."""
    choices = {node.id: images.choose(matrix, node.facts) for node in nodes}
    unfit = [
        f"{node.name} can run none of the images: "
        + ", ".join(f"{matrix[place][images.IMAGE]}: {why}" for place, why in sorted(choices[node.id].why.items()))
        for node in nodes
        if not choices[node.id].best
    ]
    return {node_id: choice.best for node_id, choice in choices.items()}, unfit


def replicas_of_parts(service: Mapping[str, Any], nodes: Mapping[str, Sequence[Node]], former: Any, where: str) -> dict[str, int | None]:
    """Return the replicas of each part, by name. None means one task on each node. Global parts exist even without nodes, because nodes may join
    later.
    """
    deploy = service.get("deploy") or {}
    mode = str(deploy.get("mode") or "replicated")
    if mode.startswith("global"):
        replicas_by_part: dict[str, int | None] = dict.fromkeys(nodes)
    else:
        total = deploy.get("replicas", 1)
        if isinstance(total, bool) or not isinstance(total, int) or not 0 <= total <= MAX_REPLICAS:
            raise GpuSwarmError(f"{where}: deploy.replicas is {total!r}, but must be a whole number up to {MAX_REPLICAS} to be divided.")
        room_by_part = {name: sum(_tasks_that_fit(service, node) for node in nodes_of_part) for name, nodes_of_part in nodes.items() if nodes_of_part}
        replicas = shares(total, room_by_part, _former_replicas(former, room_by_part))
        # A job without tasks is not created.
        replicas_by_part = {name: number for name, number in replicas.items() if number or not mode.endswith("-job")}
    _check_ports(service, replicas_by_part, where)
    return replicas_by_part


def _tasks_that_fit(service: Mapping[str, Any], node: Node) -> int:
    """Return how many tasks of the service fit on the node now."""
    if not is_schedulable(node.record):
        return 0
    reserved = ((((service.get("deploy") or {}).get("resources") or {}).get("reservations") or {}).get("generic_resources")) or []
    needed = {item["discrete_resource_spec"]["kind"]: item["discrete_resource_spec"]["value"] for item in reserved}
    free = {kind: entry["free"] for kind, entry in node.record["resources"].items()}
    numbers = {kind: len(value) if isinstance(value, list) else value for kind, value in free.items()}
    return min((numbers.get(kind, 0) // amount for kind, amount in needed.items()), default=1)


def _former_replicas(file: Any, names: Mapping[str, int]) -> dict[str, int]:
    services = (file or {}).get("services") or {}
    replicas_by_part = {name: ((services.get(name) or {}).get("deploy") or {}).get("replicas") for name in names}
    return {name: number for name, number in replicas_by_part.items() if isinstance(number, int)}


def _check_ports(service: Mapping[str, Any], parts: Mapping[str, Any], where: str) -> None:
    shared = [port for port in service.get("ports") or [] if not isinstance(port, dict) or port.get("mode") != "host"]
    if shared and len(parts) > 1:
        raise GpuSwarmError(
            f"{where}: the service is split into {len(parts)}, but only one of them can publish its ports for the whole swarm. Publish them in mode: "
            "host, or put another service in front of it."
        )


def build_part(service: dict[str, Any], image: str, replicas: int | None, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Build one part. Other services reach all parts by the name of the original service."""
    result = {**service, "image": image, "networks": _networks(service.get("networks"), name, document.get("networks") or {})}
    if replicas is not None:
        result["deploy"] = {**(service.get("deploy") or {}), "replicas": replicas}
    return result


def _networks(networks: Any, alias: str, declared: Mapping[str, Any]) -> dict[str, Any]:
    options_by_network = networks if isinstance(networks, dict) else dict.fromkeys(networks or ["default"])
    result = {}
    for network, options in options_by_network.items():
        is_local = ((declared.get(network) or {}).get("name") or network) in _LOCAL_NETWORKS
        aliases = {**(options or {}), "aliases": [*((options or {}).get("aliases") or []), alias]}
        result[network] = options if is_local else aliases
    return result
