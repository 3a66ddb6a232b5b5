# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What else than room is checked before a stack is deployed (pure): names that others have, registries, and drivers for its images.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from . import image_requirement, on_nodes, registries
from .deploy_verdict import NOTHING
from .on_nodes import Seen
from .references import contents, external, networks, of_stack
from .registries import Logins
from .translate import Stack

MADE_WITH = {"config": "docker config create", "network": "docker network create --driver overlay", "secret": "docker secret create"}


class Access(NamedTuple):
    """To registries. ``passed_on``: nodes get the manager's own logins."""

    logins: Logins
    passed_on: bool


def compared(stack: Stack, name: str) -> dict[str, Any]:
    """The parts of the stack that the manager compares with the swarm, besides services."""
    found = external(stack.document).get("networks") or []
    return {"networks": of_stack(stack.document, name), "attached": found, "contents": contents(stack.document, stack.files)}


def queries(document: Mapping[str, Any], stack: str, access: Access, query: bool) -> dict[str, Any]:
    """What of the manager is queried."""
    logins, passed_on = access
    images = sorted({image_of(service) for service in document["services"].values()})
    options: dict[str, Any] = {"images": images, "networks": networks(document, stack), "external": external(document)}
    if query:
        options["query"] = registries.looked_up(images, logins)
    if logins or not passed_on:
        options["logins"] = registries.packed(logins)
    return options


def image_of(service: Mapping[str, Any]) -> str:
    return str(service["image"]).replace("$$", "$")


def judged(
    answer: Mapping[str, Any], document: Mapping[str, Any], stack: str, access: Access, seen: Mapping[str, Seen]
) -> tuple[list[str], list[str]]:
    """(why nothing is deployed, what is to be said). ``seen`` is what is known of the hosts of the inventory."""
    taken, errors = answer["networks_taken"], []
    if taken:
        errors.append(
            f"The networks {', '.join(taken)} are there already, and the stack {stack} does not own them: of another stack, or of a project of "
            f"'docker compose' on the manager. Give the stack another name, or remove them there ('docker network rm'). {NOTHING}"
        )
    if answer["not_there"]:
        made_with = " and ".join(f"'{command}'" for kind, command in MADE_WITH.items() if any(one.startswith(kind) for one in answer["not_there"]))
        errors.append(
            f"The swarm has no {', no '.join(answer['not_there'])}, which the Compose file uses as external. Make what is missing with {made_with}, "
            f"or fix its name. {NOTHING}"
        )
    errors += registries.refusals(answer["refused"], access.logins, access.passed_on)
    notes: list[str] = []
    by_id = {node["id"]: node for node in answer["nodes"]}
    feasible = {one["service"]: [by_id[node] for node in one["feasible"] if node in by_id] for one in answer["preflight"]}
    for key, service in with_gpus(document).items():
        name, image = f"{stack}_{key}", image_of(service)
        own = {key: str(value).replace("$$", "$") for key, value in (service.get("environment") or {}).items()}
        machines = on_nodes.machines(feasible.get(name, []), seen, image, answer["images"].get(image) or {}, own)
        wrong, said = image_requirement.judged(name, image, machines)
        errors += [f"{wrong} {NOTHING}"] if wrong else []
        notes += said
    return errors, notes


def with_gpus(document: Mapping[str, Any]) -> dict[str, Any]:
    """The services that reserve generic resources."""
    return {name: service for name, service in document["services"].items() if _reserved(service).get("generic_resources")}


def _reserved(service: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = ((service.get("deploy") or {}).get("resources") or {}).get("reservations") or {}
    return found


def images_with_gpus(stack: Stack) -> list[str]:
    """The images of these services, and those among which x-gpu chooses."""
    chosen = [entry["image"] for one in stack.wanted.values() for entry in one.matrix]
    return sorted({*chosen, *(image_of(service) for service in with_gpus(stack.document).values())})


def another_stack(answer: Mapping[str, Any], names: Iterable[str], stack: str, file: str) -> str | None:
    """Why nothing is deployed where the name of the stack is that of somebody else's."""
    there = [one["service"] for one in answer["progress"]]
    if not there or set(there).intersection(names):
        return None
    return (
        f"The swarm has a stack {stack} already, with {', '.join(there[:5])}, and of none of its services does {file} say anything. Give yours "
        f"another name; or have those removed that the file has not: gpu_stack_prune: true. {NOTHING}"
    )
