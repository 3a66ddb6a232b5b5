# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Registries that want a login (pure): which images are looked up there, by which login, and what is said of a refusal.

A name's first part is a registry if it has a dot or a port, or is localhost; all others are of Docker Hub (distribution/reference).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._errors import GpuSwarmError

HUB = "docker.io"
# The name by which Docker's own configuration has it.
HUB_KEY = "https://index.docker.io/v1/"
_HUBS = (HUB, "index.docker.io", "registry-1.docker.io", HUB_KEY)

FORM = "{username: NAME, password: a variable of a vault}"
Logins = dict[str, dict[str, str]]


def registry_of(image: str) -> str:
    first, slash, _rest = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") and first not in _HUBS else HUB


def logins_of(found: Any) -> Logins:
    """By registry, its user name and password. No message shows a value."""
    made: Logins = {}
    for name, entry in (found or {}).items():
        bare = str(name).removeprefix("https://").removeprefix("http://").rstrip("/")
        registry = HUB if name in _HUBS or bare in _HUBS or bare == "index.docker.io/v1" else bare
        where = f"The login to the registry {registry} in gpu_stack_registries"
        if not isinstance(entry, Mapping) or set(entry) != {"username", "password"}:
            raise GpuSwarmError(f"{where} has to have username and password, and nothing else. Write {FORM}.")
        texts = {key: str(value) for key, value in entry.items()}
        empty = next((key for key, value in texts.items() if not value), None)
        if empty or ":" in texts["username"]:
            raise GpuSwarmError(f"{where}: its {empty or 'username'} is {'empty' if empty else 'not one: it has a colon'}. Fix it.")
        made[registry] = texts
    return made


def docker_config(logins: Logins) -> bytes:
    """As Docker's command reads it: config.json."""
    auths = {
        HUB_KEY if registry == HUB else registry: {"auth": base64.b64encode(f"{one['username']}:{one['password']}".encode()).decode("ascii")}
        for registry, one in logins.items()
    }
    return json.dumps({"auths": auths}).encode("utf-8")


def looked_up(images: Iterable[str], logins: Logins) -> dict[str, str]:
    """The images that a registry is queried for. Of Docker Hub only with a login: what has no registry in its name may be on the nodes alone."""
    return {image: registry_of(image) for image in sorted(set(images)) if registry_of(image) != HUB or HUB in logins}


def packed(logins: Logins) -> str:
    """As the argument of a module, in one text, so that no part of it is masked wherever it occurs."""
    return base64.b64encode(json.dumps(logins).encode("utf-8")).decode("ascii")


def refusals(refused: Iterable[Mapping[str, str]], logins: Logins, passed_on: bool) -> list[str]:
    """Why nothing is deployed, for each image that a registry refuses."""
    found = []
    for one in refused:
        registry = registry_of(one["image"])
        if registry in logins:
            remedy = "Fix its login in gpu_stack_registries, or have that user allowed to read it."
        elif passed_on:
            remedy = "Log in on the manager again ('docker login'), or write a login into gpu_stack_registries."
        else:
            remedy = f"Write its login into gpu_stack_registries: {{{registry}: {FORM}}}."
        found.append(
            f"The registry {registry} refuses the image {one['image']}: {one['said'].rstrip('.')}. {remedy} "
            "Where all nodes have the image already, set gpu_stack_query_registries: false. Nothing was deployed."
        )
    return found
