# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that everything that services use is declared, under names that swarm accepts (pure).

'docker stack deploy' removes services, creates networks, secrets and configs, and only then checks the services. An error there leaves a stack half
deployed (RunDeploy in cli/command/stack, cli/compose/convert/service.go and volume.go of docker/cli).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from ...module_utils._errors import Errors, GpuSwarmError
from ...module_utils._swarm.owned_labels import CONTENT, VERSION_OF
from .fields import kind_of
from .mounts import is_path

DEFAULT = "default"
# Networks that every machine has. Docker does not look for them in the swarm.
LOCAL_NETWORKS = frozenset(("bridge", "default", "host", "none"))
# From swarmkit's manager/controlapi/common.go: names of services and networks, and names of configs and secrets.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_FILE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_KEY = re.compile(r"[A-Za-z0-9._-]+")
_MAX_NAME, _MAX_FILE_NAME = 63, 64


def check_declared(document: Mapping[str, Any], file: str) -> None:
    """Refuse services that use something undeclared. Docker itself creates the network ``default``. If a section is None, it was unreadable and is
    not checked.
    """
    errors = Errors()
    for name, service in document["services"].items():
        for key, section, used in errors.collect(_references, service, f"{file}: services.{name}", instead=[]):
            if document.get(section, {}) is not None and used not in document.get(section, {}) and (section, used) != ("networks", DEFAULT):
                errors.add(
                    f"{file}: services.{name}.{key} has {used}, but the file declares no such {section[:-1]}. Declare it under {section}, or correct "
                    "the name."
                )
    errors.refuse()


def _references(service: Mapping[str, Any], where: str) -> list[tuple[str, str, str]]:
    """Return (key of the service, section of the declaration, name) for everything that the service uses."""
    errors = Errors()
    references = [("networks", "networks", str(name)) for name in service.get("networks") or []]
    references += [("volumes", "volumes", name) for mount in service.get("volumes") or [] if (name := _volume(mount))]
    for section in ("configs", "secrets"):
        references += [(section, section, name) for name in errors.collect(_file_sources, service.get(section), f"{where}.{section}", instead=[])]
    credentials = service.get("credential_spec")
    if isinstance(credentials, dict) and credentials.get("config"):
        references.append(("credential_spec", "configs", str(credentials["config"])))
    errors.refuse(references)
    return references


def _volume(mount: Any) -> str | None:
    """Return the volume of a mount, or None for a path or an anonymous volume."""
    if isinstance(mount, str):
        source, colon, _target = mount.partition(":")
        return source if colon and not is_path(mount) else None
    if mount.get("type") == "cluster" and str(mount.get("source")).startswith("group:"):
        return None  # volume groups are not declared
    return str(mount["source"]) if mount.get("type") in ("volume", "cluster") and mount.get("source") else None


def _file_sources(entries: Any, where: str) -> list[str]:
    if entries is not None and not isinstance(entries, list):
        raise GpuSwarmError(f"{where} is {kind_of(entries)}, but must be a list. Begin each entry with '- '.")
    errors = Errors()
    names = [entry.get("source") if isinstance(entry, dict) else entry for entry in entries or []]
    for number, name in enumerate(names):
        if not isinstance(name, str):
            errors.add(f"{where}[{number}] must be a name, or a mapping with source. Correct it.")
    result = [name for name in names if isinstance(name, str)]
    errors.refuse(result)
    return result


def network_names(document: Mapping[str, Any], stack: str) -> list[str]:
    """Return the names of the networks that 'docker stack deploy' creates, because services use them and they are not external."""
    used = {key for service in document["services"].values() for key in service.get("networks") or [DEFAULT]}
    entries = {key: (document.get("networks") or {}).get(key) or {} for key in used}
    return sorted(str(entry.get("name") or f"{stack}_{key}") for key, entry in entries.items() if not entry.get("external"))


def stack_networks(document: Mapping[str, Any], stack: str) -> dict[str, dict[str, Any]]:
    """Return the driver and subnets of the networks that 'docker stack deploy' creates, by name."""
    result = {}
    for key, entry in (document.get("networks") or {}).items():
        configs = ((entry or {}).get("ipam") or {}).get("config") or []
        name = str((entry or {}).get("name") or f"{stack}_{key}")
        result[name] = {"driver": (entry or {}).get("driver") or "", "subnets": [config["subnet"] for config in configs if config.get("subnet")]}
    return {name: result.get(name, {}) for name in network_names(document, stack)}


def content_digests(document: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """Return the digests of configs and secrets that have their own ``name:``, by section and name."""
    digests: dict[str, dict[str, str]] = {"configs": {}, "secrets": {}}
    for section, names in digests.items():
        for entry in (document.get(section) or {}).values():
            path, labels = str((entry or {}).get("file") or "").removeprefix("./"), (entry or {}).get("labels") or {}
            if path in files and VERSION_OF not in labels and entry.get("name"):
                names[entry["name"]] = labels.get(CONTENT) or hashlib.sha256(files[path]).hexdigest()
    return {section: names for section, names in digests.items() if names}


def external_names(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the external configs, networks and secrets that services use, by section. The names are those in the swarm."""
    names_by_section: dict[str, set[str]] = {}
    for name, service in document["services"].items():
        default = [] if service.get("networks") else [("networks", DEFAULT)]
        for section, used in [*((section, used) for _key, section, used in _references(service, name)), *default]:
            entry = (document.get(section) or {}).get(used) or {}
            if section in ("configs", "networks", "secrets") and entry.get("external"):
                former_name = entry["external"].get("name") if isinstance(entry["external"], dict) else None
                names_by_section.setdefault(section, set()).add(str(entry.get("name") or former_name or used))
    return {
        section: external
        for section, names in names_by_section.items()
        if (external := sorted(names - LOCAL_NETWORKS if section == "networks" else names))
    }


def is_key(name: str) -> bool:
    """Return whether a service, or an entry of another section, may have this key."""
    return bool(_KEY.fullmatch(name))


def check_names(document: Mapping[str, Any], stack: str) -> None:
    """Refuse names that swarm does not accept. Other code has already refused invalid keys."""
    errors = Errors()
    for name in filter(is_key, document["services"]):
        errors.collect(_refuse_name, "service", f"{stack}_{name}", _NAME, _MAX_NAME, "letters, digits, - and _")
    for name in network_names(document, stack):
        errors.collect(_refuse_name, "network", name, _NAME, _MAX_NAME, "letters, digits, - and _")
    for section in ("configs", "secrets"):
        for key, entry in (document.get(section) or {}).items():
            if is_key(key) and not entry.get("external"):
                name = str(entry.get("name") or f"{stack}_{key}")
                errors.collect(_refuse_name, section[:-1], name, _FILE_NAME, _MAX_FILE_NAME, "letters, digits, ., - and _")
    errors.refuse()


def _refuse_name(what: str, name: str, pattern: re.Pattern[str], max_length: int, characters: str) -> None:
    if pattern.fullmatch(name) and len(name) <= max_length:
        return
    raise GpuSwarmError(
        f"The name of the {what} {name} is invalid. It may have at most {max_length} characters and has {len(name)}. It may contain {characters}. "
        "The first and last must be a letter or digit. Use another name."
    )
