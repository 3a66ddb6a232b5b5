# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Translates ``x-gpu`` for this fleet (pure): into constraints, class labels for nodes, and one service for each image.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError
from ...module_utils._tasks.class_labels import LABEL
from .._classes import classes, images, requirement
from .._classes.constraints import Node, able_nodes, class_prefix, constraints_for, describe_labels, missing_labels, names_of, with_gpus
from .._classes.requirement import FIELDS, Requirement
from . import split_by_image
from .fields import mapping

IMAGES = "images"
_MAX_SHOWN = 5


class XGpu(NamedTuple):
    """The ``x-gpu`` of a service, checked."""

    where: str
    requirement: Requirement
    matrix: list[dict[str, Any]]


class Placed(NamedTuple):
    """``labels`` are the labels to add to each node. ``lines`` describe which tasks run on which nodes. ``placement`` has the same content as data.
    """

    document: dict[str, Any]
    labels: dict[str, dict[str, str]]
    lines: list[str]
    placement: list[dict[str, Any]]


class Swarm(NamedTuple):
    """The GPU nodes of the swarm, the name of the stack, and the stack file that was deployed last, or None."""

    nodes: list[Node]
    stack: str
    former: Any


def parse_x_gpu(value: Any, where: str) -> XGpu | None:
    """Check an ``x-gpu`` value. Return None if it is empty."""
    entry, errors = mapping(value, where), Errors()
    for key in entry:
        if key not in (*FIELDS, IMAGES):
            errors.add(f"{where}.{key} is not known. x-gpu supports {', '.join((*FIELDS, IMAGES))}.")
    required = errors.collect(requirement.parse, entry, where)
    matrix = errors.collect(images.parse, entry[IMAGES], f"{where}.{IMAGES}", instead=[]) if entry.get(IMAGES) is not None else []
    errors.collect(split_by_image.check_names, matrix, f"{where}.{IMAGES}")
    errors.refuse()
    return XGpu(where, required, matrix) if required or matrix else None


def place_services(document: dict[str, Any], requests: Mapping[str, XGpu], stack: str, records: Sequence[Mapping[str, Any]], former: Any) -> Placed:
    """Apply ``x-gpu`` to all services. ``records`` has all nodes of the ledger, without this stack. ``former`` is the last stack file, or None."""
    result = Placed({**document, "services": {}}, {}, [], [])
    swarm = Swarm([], stack, former)
    replaced: dict[str, list[str]] = {}
    for name, service in document["services"].items():
        request = requests.get(name)
        if request is None:
            result.document["services"][name] = service
            continue
        swarm = swarm if swarm.nodes else swarm._replace(nodes=with_gpus(records, request.where))
        parts = _divide(name, service, request, swarm, result) if request.matrix else _constrain(name, service, request, swarm.nodes, result)
        taken = [part for part in parts if part in result.document["services"] or (part != name and part in document["services"])]
        if taken:
            raise GpuSwarmError(
                f"{request.where}: one of its services would be {taken[0]}, but another service has that name. Set another name beside the image."
            )
        result.document["services"].update(parts)
        replaced[name] = list(parts)
    _rename_dependencies(result.document["services"], replaced)
    result.lines.extend(describe_labels(result.labels, swarm.nodes))
    return result


# -- one image ---------------------------------------------------------------------------------------------------------


def _constrain(name: str, service: dict[str, Any], x_gpu: XGpu, nodes: list[Node], result: Placed) -> dict[str, dict[str, Any]]:
    constrained = constraints_for(x_gpu.requirement, x_gpu.where, nodes)
    _add_labels(result, constrained.classes, nodes)
    result.lines.append(f"{name}: {constrained.line}")
    names = [node.name for node in constrained.nodes]
    result.placement.append({"service": name, "image": service["image"], "constraints": constrained.constraints, "nodes": names})
    return {name: with_constraints(service, constrained.constraints, constrained.classes)}


# -- several images ----------------------------------------------------------------------------------------------------


def _divide(name: str, service: dict[str, Any], x_gpu: XGpu, swarm: Swarm, result: Placed) -> dict[str, dict[str, Any]]:
    able = able_nodes(x_gpu.requirement, x_gpu.where, swarm.nodes)
    chosen, unfit = split_by_image.best_images(x_gpu.matrix, able)
    ambiguous = next((node for node in able if len(chosen[node.id]) > 1), None)
    if ambiguous:
        two_images = " and ".join(x_gpu.matrix[place][images.IMAGE] for place in chosen[ambiguous.id][:2])
        raise GpuSwarmError(
            f"{x_gpu.where}.{IMAGES} is ambiguous: {ambiguous.name} can run {two_images}, and neither requires at least as much as the other. Add an "
            "image with the requirements of both, or let one of them require more."
        )
    if not any(chosen.values()):
        reasons = "; ".join(unfit[:_MAX_SHOWN])
        raise GpuSwarmError(f"{x_gpu.where}.{IMAGES}: no node can run any of them. {reasons}. Add an image for one of these nodes.")
    nodes_by_place = {place: [node for node in able if chosen[node.id] == [place]] for place in range(len(x_gpu.matrix))}
    names = split_by_image.name_parts(name, x_gpu.matrix, swarm.stack)
    nodes_by_part = {names[place]: nodes_of_part for place, nodes_of_part in nodes_by_place.items()}
    parts = split_by_image.replicas_of_parts(service, nodes_by_part, swarm.former, x_gpu.where)
    result.lines.extend(f"note: {name}: {reason}" for reason in unfit)
    definitions: dict[str, dict[str, Any]] = {}
    for place, part in enumerate(names):
        image, nodes_of_part = x_gpu.matrix[place][images.IMAGE], nodes_by_place[place]
        if part not in parts:
            result.lines.append(f"note: {part} is not created: {image} is not the best image for any node")
            continue
        key, meaning = classes.class_of_image(x_gpu.requirement, x_gpu.matrix, place, class_prefix(swarm.nodes))
        constraint = f"node.labels.{key}=={classes.LABEL_VALUE}"
        _add_labels(result, {key: meaning}, able)
        number = "one on each" if parts[part] is None else f"{parts[part]} of the replicas"
        result.lines.append(f"{part}: {image} on {names_of(nodes_of_part) or 'no node yet'}, {number}: {constraint}")
        result.placement.append({"service": part, "image": image, "constraints": [constraint], "nodes": [node.name for node in nodes_of_part]})
        definition = split_by_image.build_part(service, image, parts[part], name, document=result.document)
        definitions[part] = with_constraints(definition, [constraint], {key: meaning})
    return definitions


# -- shared by both --------------------------------------------------------------------------------------------------------------


def with_constraints(service: dict[str, Any], constraints: list[str], needed: Mapping[str, Any]) -> dict[str, Any]:
    """Add constraints to the service, and a label that defines the classes in them."""
    deploy = dict(service.get("deploy") or {})
    placement = dict(deploy.get("placement") or {})
    placement["constraints"] = [*(placement.get("constraints") or []), *constraints]
    deploy["placement"] = placement
    if needed:
        deploy["labels"] = {**(deploy.get("labels") or {}), LABEL: classes.to_label(needed)}
    return {**service, "deploy": deploy}


def _add_labels(result: Placed, needed: Mapping[str, Any], nodes: list[Node]) -> None:
    for node_id, labels in missing_labels(needed, nodes).items():
        result.labels.setdefault(node_id, {}).update(labels)


def _rename_dependencies(services: dict[str, Any], replaced: Mapping[str, list[str]]) -> None:
    for name, service in services.items():
        if service.get("depends_on"):
            services[name] = {
                **service,
                "depends_on": [part for dependency in service["depends_on"] for part in replaced.get(dependency, [dependency])],
            }
