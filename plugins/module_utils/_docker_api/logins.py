# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the login of this machine to a registry and returns the API header with this login (X-Registry-Auth).

The docker command stores logins in config.json in DOCKER_CONFIG or ~/.docker, under credHelpers, credsStore and auths. Private to this collection; it
may change without notice.
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
# 'docker login' stores the login for Docker Hub under this key.
DOCKER_HUB_URL = "https://index.docker.io/v1/"
# A login with this user name contains an identity token instead of a password.
TOKEN_USER = "<token>"
LIMIT_S = 60
NO_LOGIN = "credentials not found"  # the error of a credential helper that has no login


def login_header(login: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the headers of a request with this login; empty if ``login`` is None."""
    if login is None:
        return {}
    return {HEADER: base64.urlsafe_b64encode(json.dumps(login).encode("utf-8")).decode("ascii")}


def registry_of(image: str) -> str:
    """Return the registry in an image's reference."""
    first, slash, _rest = image.partition("/")
    return _host(first) if slash and ("." in first or ":" in first or first == "localhost") else DOCKER_HUB


def read_login(image: str, environ: Mapping[str, str] | None = None) -> dict[str, Any] | None:
    """Return this user's login to the registry of the image, or None. Raises LoginUnreadable."""
    folder = (os.environ if environ is None else environ).get("DOCKER_CONFIG")
    path = os.path.join(folder or os.path.join(os.path.expanduser("~"), ".docker"), "config.json")
    config, registry = _read(path), registry_of(image)
    helpers = _mapping(config.get("credHelpers"))
    helper = helpers.get(registry) or (helpers.get(DOCKER_HUB_URL) if registry == DOCKER_HUB else None) or config.get("credsStore")
    login = _login_from_helper(str(helper), registry, path) if helper else None
    return login or _login_from_file(_mapping(config.get("auths")), registry, path)


def _read(path: str) -> Mapping[str, Any]:
    """Return the content of config.json; empty if the file cannot be read. If a login is missing, the registry reports the missing login."""
    try:
        with open(path, encoding="utf-8") as stream:
            return _mapping(json.load(stream))
    except (OSError, ValueError):
        return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _login_from_helper(name: str, registry: str, path: str) -> dict[str, Any] | None:
    program, server = "docker-credential-" + name, DOCKER_HUB_URL if registry == DOCKER_HUB else registry
    where = "%s names %s for the login to %s" % (path, program, registry)
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [program, "get"], input=server.encode("utf-8"), capture_output=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as problem:
        raise LoginUnreadable("%s, which gave no answer within %d s. Run 'docker login %s' there" % (where, LIMIT_S, registry)) from problem
    except (OSError, subprocess.SubprocessError) as problem:
        raise LoginUnreadable("%s, which cannot be run: %s. Install it, or remove it from that file" % (where, problem)) from problem
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    if done.returncode and NO_LOGIN in output:
        return None
    if done.returncode:
        why = output.strip()[:300] or "exit status %d" % done.returncode
        raise LoginUnreadable("%s, which failed: %s. Run 'docker login %s' there" % (where, why, registry))
    try:
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, TypeError, KeyError):
        raise LoginUnreadable("%s, whose answer is not a login. Run 'docker login %s' there" % (where, registry)) from None
    if not user and not secret:
        return None
    login = {"identitytoken": secret} if user == TOKEN_USER else {"username": user, "password": secret}
    return {**login, "serveraddress": server}


def _login_from_file(logins: Mapping[str, Any], registry: str, path: str) -> dict[str, Any] | None:
    server = next((key for key in (registry, *logins) if key in logins and _host(key) == registry), None)
    login = _mapping(logins.get(server)) if server else {}
    if login.get("identitytoken"):
        return {"identitytoken": login["identitytoken"], "serveraddress": server}
    if not login.get("auth"):
        return None
    try:
        user, password = base64.b64decode(login["auth"]).decode("utf-8").split(":", 1)
    except (ValueError, TypeError):
        raise LoginUnreadable("%s: the login to %s is not base64 text. Run 'docker login %s' there" % (path, registry, registry)) from None
    return {"username": user, "password": password, "serveraddress": server}


def _host(key: str) -> str:
    """Return the host of a key in config.json. For some registries docker login writes a whole URL."""
    host = key.replace("http://", "").replace("https://", "").partition("/")[0]
    return DOCKER_HUB if host == "index.docker.io" else host
