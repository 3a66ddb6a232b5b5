# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The login of this machine to a registry, as the docker command keeps it, and as a request of the API carries it (X-Registry-Auth).

Reads config.json in DOCKER_CONFIG or ~/.docker: credHelpers, credsStore, auths. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from typing import Any, Mapping

from .problems import LoginUnreadable

HEADER = "X-Registry-Auth"
DOCKER_HUB = "docker.io"
# As which docker login keeps it.
DOCKER_HUB_URL = "https://index.docker.io/v1/"
# As which user a helper returns an identity token.
TOKEN_USER = "<token>"
LIMIT_S = 60
NO_LOGIN = "credentials not found"  # what a helper says then, with an exit status that is not 0


def header(login: Mapping[str, Any] | None) -> dict[str, str]:
    """The header that carries this login; none without one."""
    if login is None:
        return {}
    return {HEADER: base64.urlsafe_b64encode(json.dumps(login).encode("utf-8")).decode("ascii")}


def registry_of(image: str) -> str:
    """The registry of an image, by its reference."""
    first, slash, _rest = image.partition("/")
    return _host(first) if slash and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB


def login_of(image: str, environ: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """This user's login to the registry of the image; None without one. Raises LoginUnreadable."""
    folder = (os.environ if environ is None else environ).get("DOCKER_CONFIG")
    path = os.path.join(folder or os.path.join(os.path.expanduser("~"), ".docker"), "config.json")
    config, registry = _read(path), registry_of(image)
    helpers = _mapping(config.get("credHelpers"))
    helper = helpers.get(registry) or (helpers.get(DOCKER_HUB_URL) if registry == DOCKER_HUB else None) or config.get("credsStore")
    kept = _of_helper(str(helper), registry, path) if helper else None
    return kept or _of_file(_mapping(config.get("auths")), registry, path)


def _read(path: str) -> Mapping[str, Any]:
    """Empty if there is no such file. Without a login to a registry that needs one, the registry says so."""
    try:
        with open(path, encoding="utf-8") as stream:
            return _mapping(json.load(stream))
    except (OSError, ValueError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _of_helper(name: str, registry: str, path: str) -> dict[str, Any] | None:
    program, server = "docker-credential-" + name, DOCKER_HUB_URL if registry == DOCKER_HUB else registry
    where = "%s names %s for the login to %s" % (path, program, registry)
    try:
        done = subprocess.run([program, "get"], input=server.encode("utf-8"), capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as problem:
        raise LoginUnreadable("%s, which gave no answer within %d s. Run 'docker login %s' there" % (where, LIMIT_S, registry)) from problem
    except (OSError, subprocess.SubprocessError) as problem:
        raise LoginUnreadable("%s, which cannot be run: %s. Install it, or remove it from that file" % (where, problem)) from problem
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.returncode and NO_LOGIN in said:
        return None
    if done.returncode:
        why = said.strip()[:300] or "exit status %d" % done.returncode
        raise LoginUnreadable("%s, which failed: %s. Run 'docker login %s' there" % (where, why, registry))
    try:
        found = json.loads(done.stdout)
        user, secret = str(found["Username"]), str(found["Secret"])
    except (ValueError, TypeError, KeyError):
        raise LoginUnreadable("%s, whose answer is no login. Run 'docker login %s' there" % (where, registry)) from None
    if not user and not secret:
        return None
    login = {"identitytoken": secret} if user == TOKEN_USER else {"username": user, "password": secret}
    return {**login, "serveraddress": server}


def _of_file(logins: Mapping[str, Any], registry: str, path: str) -> dict[str, Any] | None:
    found = next((key for key in (registry, *logins) if key in logins and _host(key) == registry), None)
    login = _mapping(logins.get(found)) if found else {}
    if login.get("identitytoken"):
        return {"identitytoken": login["identitytoken"], "serveraddress": found}
    if not login.get("auth"):
        return None
    try:
        user, password = base64.b64decode(login["auth"]).decode("utf-8").split(":", 1)
    except (ValueError, TypeError):
        raise LoginUnreadable("%s: the login to %s is no base64 text. Run 'docker login %s' there" % (path, registry, registry)) from None
    return {"username": user, "password": password, "serveraddress": found}


def _host(key: str) -> str:
    """docker login writes a whole URL for some registries."""
    host = key.replace("http://", "").replace("https://", "").partition("/")[0]
    return DOCKER_HUB if host == "index.docker.io" else host
