# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lets nodes pull images: reads digests, creates the services that pull, and removes them, also the services of a killed run.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Iterable, Mapping, Sequence

from .._docker_api.logins import registry_of
from .._errors import GpuSwarmError
from .._ledger.listed import Listed
from .._swarm.image_name import with_digest
from .._swarm.manager import Manager
from .._swarm.owned_labels import PULL
from .._tasks.tasks import is_pull
from . import pulls


def plan(manager: Manager, params: Mapping[str, Any], explained: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``pull_plan`` of the module swarm_stack_on_manager. ``params`` are its options, ``explained`` its preflight."""
    resolved, unknown = _resolve(manager, params["pull_for"].values(), params["logins"])
    images = {service: resolved[image] for service, image in params["pull_for"].items() if image in resolved}
    listed = Listed(manager.nodes(), list(manager.tasks()), manager.services())
    return dict(pulls.plan(images, params["services"], explained, listed), images=resolved, unknown=unknown)


def _resolve(manager: Manager, images: Iterable[str], packed_logins: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return (the images with their digests, why the digests of other images could not be read). Ask no registry about an image with a digest."""
    resolved: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for image in sorted(set(images)):
        try:
            resolved[image] = image if "@" in image else with_digest(image, manager.image_digest(image, _login_of(image, packed_logins)))
        except GpuSwarmError as exc:
            unknown[image] = exc.message
    return resolved, unknown


def _login_of(image: str, packed_logins: str | None) -> Mapping[str, str] | None:
    """Return the login for an image, {} to use none, or None to use the login of this process's user on this machine."""
    return json.loads(base64.b64decode(packed_logins)).get(registry_of(image), {}) if packed_logins else None


def step(manager: Manager, stack: str, wanted: Sequence[Mapping[str, Any]], packed_logins: str | None) -> list[dict[str, Any]]:
    """Go on with these pulls, and return their states: ``node``, ``image``, ``state`` and ``reason``.

    Remove the service of each pull that has ended or is no longer wanted, then start as many others as may run at the same time. A pull that has
    ended starts again if it is wanted in the next step.
    """
    services = [service for service in manager.services_labelled("%s=%s" % (PULL, stack)) if is_pull(service)]
    tasks = {task["ServiceID"]: task for task in (manager.tasks_labelled("%s=%s" % (PULL, stack)) if services else ())}
    states, running = [], set()
    for pull in wanted:
        service = next((service for service in services if pulls.is_for(service["Spec"], pull)), None)
        state, reason = pulls.outcome(tasks.get(service["ID"])) if service else (pulls.QUEUED, "")
        states.append({"node": pull["node"], "image": pull["image"], "state": state, "reason": reason})
        running.update([service["ID"]] if service and state == pulls.PULLING else [])
    for service in services:
        if service["ID"] not in running:
            manager.remove_service(service["ID"])
    queued = [pull for pull in states if pull["state"] == pulls.QUEUED]
    for pull in queued[: max(0, pulls.AT_ONCE - len(running))]:
        manager.create_service(pulls.service(stack, pull["node"], pull["image"]), _login_of(pull["image"], packed_logins))
        pull["state"] = pulls.PULLING
    return states


def sweep(manager: Manager, stack: str) -> None:
    """Remove the services with which nodes pull images of this stack."""
    step(manager, stack, [], None)
