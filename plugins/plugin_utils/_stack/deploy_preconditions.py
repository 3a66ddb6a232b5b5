# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks a stack before it is deployed (pure): name conflicts, registries, and drivers for its images. Placement is checked elsewhere.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from . import image_answers, image_requirement, registries
from .deploy_verdict import NOTHING
from .image_answers import HostFacts
from .references import content_digests, external_names, network_names, stack_networks
from .registries import Logins
from .translate import Stack

CREATE_COMMANDS = {"config": "docker config create", "network": "docker network create --driver overlay", "secret": "docker secret create"}


class Access(NamedTuple):
    """Access to registries. ``passed_on``: nodes get the manager's own logins."""

    logins: Logins
    passed_on: bool


def objects_to_compare(stack: Stack, name: str) -> dict[str, Any]:
    """Return the networks, configs and secrets of the stack. The manager compares them with the networks, configs and secrets of the swarm."""
    external_networks = external_names(stack.document).get("networks") or []
    return {"networks": stack_networks(stack.document, name), "attached": external_networks, "contents": content_digests(stack.document, stack.files)}


def query_options(document: Mapping[str, Any], stack: str, access: Access, query: bool) -> dict[str, Any]:
    """Return the options for the module that queries the manager."""
    logins = access.logins
    images = sorted({image_of(service) for service in document["services"].values()})
    options: dict[str, Any] = {"images": images, "networks": network_names(document, stack), "external": external_names(document)}
    if query:
        options["query"] = registries.images_to_query(images, logins)
    return {**options, **logins_option(access)}


def logins_option(access: Access) -> dict[str, Any]:
    """Return the option with the logins. Without it, the module uses the manager's own logins."""
    return {"logins": registries.pack_logins(access.logins)} if access.logins or not access.passed_on else {}


def image_of(service: Mapping[str, Any]) -> str:
    return str(service["image"]).replace("$$", "$")


def check_answer(
    answer: Mapping[str, Any], document: Mapping[str, Any], stack: str, access: Access, host_facts: Mapping[str, HostFacts]
) -> tuple[list[str], list[str]]:
    """Return (errors that prevent the deployment, notes for the user). ``host_facts`` has the facts of each host of the inventory."""
    taken, errors = answer["networks_taken"], []
    if taken:
        errors.append(
            f"The networks {', '.join(taken)} exist already and do not belong to the stack {stack}. Another stack owns them, or a project of "
            f"'docker compose' on the manager. Give the stack another name, or remove the networks ('docker network rm'). {NOTHING}"
        )
    if answer["missing_objects"]:
        missing = answer["missing_objects"]
        commands = " and ".join(f"'{command}'" for kind, command in CREATE_COMMANDS.items() if any(name.startswith(kind) for name in missing))
        errors.append(
            f"The swarm has no {', no '.join(answer['missing_objects'])}, but the Compose file declares it as external. Create it with {commands}, "
            f"or correct its name. {NOTHING}"
        )
    errors += registries.refusal_errors(answer["refused"], access.logins, access.passed_on)
    notes: list[str] = []
    by_id = {node["id"]: node for node in answer["nodes"]}
    feasible = {check["service"]: [by_id[node] for node in check["feasible"] if node in by_id] for check in answer["preflight"]}
    for key, service in with_gpus(document).items():
        name, image = f"{stack}_{key}", image_of(service)
        own_variables = {key: str(value).replace("$$", "$") for key, value in (service.get("environment") or {}).items()}
        of_image = image_answers.variables_of_image(image, answer["images"].get(image) or {}, host_facts)
        machines = image_answers.machines(feasible.get(name, []), host_facts, image, of_image, own_variables)
        error, image_notes = image_requirement.check_image(name, image, machines)
        errors += [f"{error} {NOTHING}"] if error else []
        video_note = image_requirement.video_note(name, service, {**of_image, **own_variables})
        notes += [*image_notes, *([video_note] if video_note else [])]
    return errors, notes


def with_gpus(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the services that reserve generic resources."""
    return {name: service for name, service in document["services"].items() if _reserved(service).get("generic_resources")}


def without_healthcheck(document: Mapping[str, Any], stack: str) -> set[str]:
    """Return the services with GPUs whose health no command of the file checks. Their images may have such a command."""
    return {f"{stack}_{key}" for key, service in with_gpus(document).items() if not _is_checked(service.get("healthcheck") or {})}


def _is_checked(healthcheck: Mapping[str, Any]) -> bool:
    return bool(healthcheck.get("test")) and healthcheck["test"] != ["NONE"]  # NONE removes the command of the image too


def _reserved(service: Mapping[str, Any]) -> Mapping[str, Any]:
    reservations: Mapping[str, Any] = ((service.get("deploy") or {}).get("resources") or {}).get("reservations") or {}
    return reservations


def images_with_gpus(stack: Stack) -> list[str]:
    """Return the images of services with generic resources, including all choices of x-gpu."""
    x_gpu_images = [entry["image"] for request in stack.x_gpu.values() for entry in request.matrix]
    return sorted({*x_gpu_images, *(image_of(service) for service in with_gpus(stack.document).values())})


def name_conflict(answer: Mapping[str, Any], names: Iterable[str], stack: str, file: str) -> str | None:
    """Return an error if another stack in the swarm has this name, or else None."""
    existing = [service["service"] for service in answer["progress"]]
    if not existing or set(existing).intersection(names):
        return None
    return (
        f"The swarm already has a stack {stack}, with the services {', '.join(existing[:5])}. {file} contains none of them. Give your stack another "
        f"name. To replace the existing stack, set gpu_stack_prune: true, which removes these services. {NOTHING}"
    )
