# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``x-gpu`` of a service means on this fleet (pure): constraints, labels of classes for the nodes, and one service for each class of images.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...module_utils._errors import Errors, GpuSwarmError
from ...module_utils._tasks.class_labels import LABEL
from .._classes import classes, images, requirement
from .._classes.constraints import Node, added, class_prefix, constrained, lacking, names_of, with_gpus
from .._classes.constraints import able as able_nodes
from .._classes.requirement import FIELDS, Requirement
from . import divided
from .fields import mapping

IMAGES = "images"
_SHOWN = 5


class Wanted(NamedTuple):
    """The ``x-gpu`` of a service, checked."""

    where: str
    wants: Requirement
    matrix: list[dict[str, Any]]


class Placed(NamedTuple):
    """``labels`` are by node those that are to be added; ``lines`` say what runs where, and ``placement`` is the same as data."""

    document: dict[str, Any]
    labels: dict[str, dict[str, str]]
    lines: list[str]
    placement: list[dict[str, Any]]


class Swarm(NamedTuple):
    """Where services are placed: its nodes with GPUs, the name of the stack, and the stack file that was deployed last, None without one."""

    nodes: list[Node]
    stack: str
    former: Any


def wanted(found: Any, where: str) -> Wanted | None:
    """None where it wants nothing."""
    entry, errors = mapping(found, where), Errors()
    for key in entry:
        if key not in (*FIELDS, IMAGES):
            errors.add(f"{where}.{key} is not known. It takes {', '.join((*FIELDS, IMAGES))}.")
    wants = errors.of(requirement.parse, entry, where)
    matrix = errors.of(images.parse, entry[IMAGES], f"{where}.{IMAGES}", instead=[]) if entry.get(IMAGES) is not None else []
    errors.of(divided.check_names, matrix, f"{where}.{IMAGES}")
    errors.refuse()
    return Wanted(where, wants, matrix) if wants or matrix else None


def placed(document: dict[str, Any], of_services: Mapping[str, Wanted], stack: str, records: Sequence[Mapping[str, Any]], former: Any) -> Placed:
    """``records`` are the ledger's of all nodes, without this stack; ``former`` is the stack file that was deployed last, None without one."""
    result = Placed({**document, "services": {}}, {}, [], [])
    swarm = Swarm([], stack, former)
    replaced: dict[str, list[str]] = {}
    for name, service in document["services"].items():
        want = of_services.get(name)
        if want is None:
            result.document["services"][name] = service
            continue
        swarm = swarm if swarm.nodes else swarm._replace(nodes=with_gpus(records, want.where))
        made = _divided(name, service, want, swarm, result) if want.matrix else {name: _constrained(name, service, want, swarm.nodes, result)}
        taken = [one for one in made if one in result.document["services"] or (one != name and one in document["services"])]
        if taken:
            raise GpuSwarmError(
                f"{want.where}: one of its services would be {taken[0]}, and there is one of that name. Write another name beside the image."
            )
        result.document["services"].update(made)
        replaced[name] = list(made)
    _renamed(result.document["services"], replaced)
    result.lines.extend(added(result.labels, swarm.nodes))
    return result


# -- one image ---------------------------------------------------------------------------------------------------------


def _constrained(name: str, service: dict[str, Any], want: Wanted, nodes: list[Node], result: Placed) -> dict[str, Any]:
    found = constrained(want.wants, want.where, nodes)
    _add_labels(result, found.classes, nodes)
    result.lines.append(f"{name}: {found.line}")
    names = [node.name for node in found.nodes]
    result.placement.append({"service": name, "image": service["image"], "constraints": found.constraints, "nodes": names})
    return with_constraints(service, found.constraints, found.classes)


# -- several images ----------------------------------------------------------------------------------------------------


def _divided(name: str, service: dict[str, Any], want: Wanted, swarm: Swarm, result: Placed) -> dict[str, dict[str, Any]]:
    able = able_nodes(want.wants, want.where, swarm.nodes)
    chosen, unfit = divided.chosen(want.matrix, able)
    clash = next((node for node in able if len(chosen[node.id]) > 1), None)
    if clash:
        both = " and ".join(want.matrix[place][images.IMAGE] for place in chosen[clash.id][:2])
        raise GpuSwarmError(
            f"{want.where}.{IMAGES} is ambiguous: {clash.name} runs {both}, and neither requires more than the other in everything. Add an image "
            "that requires what both do, or have one of them require more."
        )
    if not any(chosen.values()):
        raise GpuSwarmError(f"{want.where}.{IMAGES}: no node runs any of them. {'; '.join(unfit[:_SHOWN])}. Add an image that one of them runs.")
    of_place = {place: [node for node in able if chosen[node.id] == [place]] for place in range(len(want.matrix))}
    names = divided.names(name, want.matrix, swarm.stack)
    parts = divided.parts(service, {names[place]: these for place, these in of_place.items()}, swarm.former, want.where)
    result.lines.extend(f"note: {name}: {one}" for one in unfit)
    made: dict[str, dict[str, Any]] = {}
    for place, part in enumerate(names):
        image, these = want.matrix[place][images.IMAGE], of_place[place]
        if part not in parts:
            result.lines.append(f"note: {part} is left out: {image} is the best for no node now")
            continue
        key, meaning = classes.of_image(want.wants, want.matrix, place, class_prefix(swarm.nodes))
        constraint = f"node.labels.{key}=={classes.TRUE}"
        _add_labels(result, {key: meaning}, able)
        number = "one on each" if parts[part] is None else f"{parts[part]} of the replicas"
        result.lines.append(f"{part}: {image} on {names_of(these) or 'no node yet'}, {number}: {constraint}")
        result.placement.append({"service": part, "image": image, "constraints": [constraint], "nodes": [node.name for node in these]})
        one = divided.part(service, image, parts[part], name, document=result.document)
        made[part] = with_constraints(one, [constraint], {key: meaning})
    return made


# -- both --------------------------------------------------------------------------------------------------------------


def with_constraints(service: dict[str, Any], constraints: list[str], needed: Mapping[str, Any]) -> dict[str, Any]:
    """The service with these constraints, and in a label what the classes mean that they need."""
    deploy = dict(service.get("deploy") or {})
    placement = dict(deploy.get("placement") or {})
    placement["constraints"] = [*(placement.get("constraints") or []), *constraints]
    deploy["placement"] = placement
    if needed:
        deploy["labels"] = {**(deploy.get("labels") or {}), LABEL: classes.written(needed)}
    return {**service, "deploy": deploy}


def _add_labels(result: Placed, needed: Mapping[str, Any], nodes: list[Node]) -> None:
    for node_id, labels in lacking(needed, nodes).items():
        result.labels.setdefault(node_id, {}).update(labels)


def _renamed(services: dict[str, Any], replaced: Mapping[str, list[str]]) -> None:
    for name, service in services.items():
        if service.get("depends_on"):
            services[name] = {**service, "depends_on": [one for other in service["depends_on"] for one in replaced.get(other, [other])]}
