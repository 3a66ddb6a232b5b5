# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes old versions of a stack's configs and secrets that no service uses. The name of each version contains the digest of its content.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping

from .manager import Manager, SwarmError
from .owned_labels import VERSION_OF
from .stack_file import NAMESPACE


def remove_unused(manager: Manager, stack: str) -> list[str]:
    """Remove the versions of this stack that no service uses now or would use after 'docker service rollback'. Return their names."""
    used = set(referenced_ids(manager.services()))
    removed = []
    kinds: Iterable[tuple[Callable[[str], list], Callable[[str], None]]] = (
        (manager.configs_labelled, manager.remove_config),
        (manager.secrets_labelled, manager.remove_secret),
    )
    for labelled, remove in kinds:
        for version in labelled(VERSION_OF):
            if (version["Spec"].get("Labels") or {}).get(NAMESPACE) != stack or version["ID"] in used:
                continue
            try:
                remove(version["ID"])
            except SwarmError:  # a service that was just created uses this object; a later deployment removes the object
                continue
            removed.append(version["Spec"]["Name"])
    return sorted(removed)


def referenced_ids(services: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the ids of configs and secrets in the services' current and previous specifications."""
    for service in services:
        for spec in (service["Spec"], service.get("PreviousSpec") or {}):
            container = (spec.get("TaskTemplate") or {}).get("ContainerSpec") or {}
            yield from (reference.get("ConfigID", "") for reference in container.get("Configs") or [])
            yield from (reference.get("SecretID", "") for reference in container.get("Secrets") or [])
            privileges = container.get("Privileges") or {}
            yield (privileges.get("CredentialSpec") or {}).get("Config") or ""
