# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Registries with a login (pure): which images to look up, with which login, and the errors if a registry refuses.

The first part of an image name is a registry if it has a dot or a port, or is localhost. Other images are on Docker Hub (distribution/reference).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._errors import GpuSwarmError

HUB = "docker.io"
# The name of Docker Hub in Docker's own configuration.
HUB_KEY = "https://index.docker.io/v1/"
_HUBS = (HUB, "index.docker.io", "registry-1.docker.io", HUB_KEY)

LOGIN_FORM = "{username: NAME, password: VAULT VARIABLE}"
Logins = dict[str, dict[str, str]]


def registry_of(image: str) -> str:
    first, slash, _rest = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") and first not in _HUBS else HUB


def logins_of(registries: Any) -> Logins:
    """Check the logins. Return the user name and password of each registry. Messages show no values."""
    result: Logins = {}
    for name, entry in (registries or {}).items():
        bare = str(name).removeprefix("https://").removeprefix("http://").rstrip("/")
        registry = HUB if name in _HUBS or bare in _HUBS or bare == "index.docker.io/v1" else bare
        where = f"The login to the registry {registry} in gpu_stack_registries"
        if not isinstance(entry, Mapping) or set(entry) != {"username", "password"}:
            raise GpuSwarmError(f"{where} must have username and password, and nothing else. Write {LOGIN_FORM}.")
        texts = {key: str(value) for key, value in entry.items()}
        empty = next((key for key, value in texts.items() if not value), None)
        if empty or ":" in texts["username"]:
            raise GpuSwarmError(f"{where}: its {empty or 'username'} {'is empty' if empty else 'has a colon'}. Correct it.")
        result[registry] = texts
    return result


def docker_config(logins: Logins) -> bytes:
    """Return the logins as Docker's config.json."""
    auths = {
        HUB_KEY if registry == HUB else registry: {"auth": base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode("ascii")}
        for registry, login in logins.items()
    }
    return json.dumps({"auths": auths}).encode("utf-8")


def images_to_query(images: Iterable[str], logins: Logins) -> dict[str, str]:
    """Return the images to look up, with their registries. Include Docker Hub only if there is a login, because an image without a registry may exist
    only on the nodes.
    """
    return {image: registry_of(image) for image in sorted(set(images)) if registry_of(image) != HUB or HUB in logins}


def pack_logins(logins: Logins) -> str:
    """Encode the logins in one string for a module. Otherwise Ansible would mask each user name everywhere in its output."""
    return base64.b64encode(json.dumps(logins).encode("utf-8")).decode("ascii")


def refusal_errors(refused: Iterable[Mapping[str, str]], logins: Logins, passed_on: bool) -> list[str]:
    """Return an error for each image that a registry refuses."""
    errors = []
    for refusal in refused:
        registry = registry_of(refusal["image"])
        if registry in logins:
            remedy = "Correct the login in gpu_stack_registries, or give that user read access to the image."
        elif passed_on:
            remedy = "Log in on the manager again ('docker login'), or add a login to gpu_stack_registries."
        else:
            remedy = f"Add a login to gpu_stack_registries: {{{registry}: {LOGIN_FORM}}}."
        errors.append(
            f"The registry {registry} refuses the image {refusal['image']}: {refusal['said'].rstrip('.')}. {remedy} "
            "If all nodes already have the image, set gpu_stack_query_registries: false. Nothing was deployed."
        )
    return errors
