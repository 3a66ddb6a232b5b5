# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads what a deployment has to know of the swarm: whether the services fit, what is in the way, and how far the stack is.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Mapping, Sequence

from .._dockerd.local_images import required
from .._ledger.ledger import ledger
from .._ledger.listed import Listed
from .._swarm import stack_command, stack_file, stack_objects
from .._swarm.manager import Manager
from .._swarm.owned_labels import PREFIX
from .._swarm.registry import classify_error
from .._tasks.tasks import epoch, still_allocated
from . import stack
from .clashes import Existing, Wanted, clashes
from .preflight import preflight


def read(manager: Manager, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the module swarm_stack_on_manager. ``params`` are its options."""
    name, tasks, services = params["stack"], list(manager.tasks()), manager.services()
    listed = Listed(manager.nodes(), tasks, services, epoch(manager.time))
    own = stack.of_stack(name, services)
    labelled = listed._replace(nodes=stack.with_labels(listed.nodes, params["labels"]))
    prediction = preflight(name, params["services"], labelled, PREFIX, params["prune"])
    explained = ledger(listed, PREFIX, [service["ID"] for service in own])["explained"] if own else []
    kept = stack_file.read_text(manager, name)
    networks = manager.networks() if params["compared"] or params["networks"] or params["external"].get("networks") else []
    return {
        "nodes": prediction["nodes"],
        "kinds": prediction["kinds"],
        "preflight": prediction["explained"],
        "pending_now": [service for service in explained if service["needed"] or service["without_tasks"]],
        "progress": stack.progress(own, tasks),
        "ending": still_allocated(stack.tasks_of(name, tasks), services, listed.nodes),
        "taken": stack.taken(name, [spec["Name"] for spec in params["services"]], services),
        "networks_taken": stack.networks_taken(name, params["networks"], networks),
        "missing_objects": _missing(manager, params["external"], networks),
        "clashes": _clashes(manager, params, listed, networks),
        "unread": _unread(params["stack_file"], kept),
        "objects": stack_objects.list_objects(manager, name) if params["compared"] is not None else {},
        "images": {image: required(manager.image_environment(image)) for image in params["images"]},
        "refused": _refused(manager, params["query"], params["logins"]),
        "kept": None if kept is None else kept.split("\n"),
    }


def _missing(manager: Manager, external: Mapping[str, Sequence[str]], networks: Sequence[Mapping[str, Any]]) -> list[str]:
    return stack.missing_objects(external, {**manager.names(), "networks": stack.of_swarm(networks)}) if external else []


def _unread(text: str | None, kept: str | None) -> str:
    """Return why Docker cannot read the stack file, or ''. Raises GpuSwarmError if there is no docker command, before anything is created."""
    if text is None:
        return ""
    docker = stack_command.docker_path()
    return "" if text == kept else stack_command.refusal([docker], text)


def _clashes(manager: Manager, params: Mapping[str, Any], listed: Listed, networks: Sequence[Mapping[str, Any]]) -> list[str]:
    compared = params["compared"]
    if compared is None:
        return []
    contents = compared.get("contents") or {}
    wanted = Wanted(params["stack"], params["services"], params["prune"], compared.get("networks") or {}, compared.get("attached") or [], contents)
    configs = manager.configs_labelled() if "configs" in contents else []
    secrets = manager.secrets_labelled() if "secrets" in contents else []
    return clashes(wanted, Existing(listed.nodes, listed.services, networks, configs, secrets, manager.node_id))


def _refused(manager: Manager, images: Mapping[str, str], packed_logins: str | None) -> list[dict[str, str]]:
    logins = json.loads(base64.b64decode(packed_logins)) if packed_logins else None
    refused, silent = [], set()  # a query of a registry that does not answer can take half a minute, so query it only once
    for image, registry in images.items():
        if registry not in silent:
            reason, answered = classify_error(manager.why_unreadable(image, None if logins is None else logins.get(registry, {})))
            refused += [{"image": image, "said": reason}] if reason else []
            silent.update([] if answered else [registry])
    return refused
