# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fetches the key that signs a repository, compares its fingerprint, and encodes it for the package manager.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urljoin

from ansible.module_utils.urls import fetch_url

from .._errors import GpuSwarmError
from .._openpgp import Keys, encode_keys, normalize_fingerprint, parse_keys

MAX_BYTES = 1 << 20  # a key has a few thousand bytes
MAX_REDIRECTIONS = 10  # the same limit as in urllib
REDIRECTIONS = (301, 302, 303, 307, 308)


def read_file(path: str) -> bytes | None:
    try:
        with open(path, "rb") as key:
            return key.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None


def required_fingerprint(fingerprint: str) -> str | None:
    """Return the fingerprint that the key must have; None if any key is accepted."""
    wanted = normalize_fingerprint(fingerprint)
    if fingerprint and not wanted:
        text = "%r is not the fingerprint of a key. A fingerprint has 40 hexadecimal digits"
        raise GpuSwarmError(text % fingerprint, problem="fingerprint")
    return wanted


def fetch_key(module: Any, url: str) -> bytes:
    """Return the bytes of the key. Without a fingerprint, only https is accepted."""
    response, info = _fetch_once(module, url) if module.params["fingerprint"] else _fetch_over_https(module, url)
    if info["status"] != 200:
        raise GpuSwarmError("cannot fetch the repository's key from %s: %s" % (url, info["msg"]), problem="url")
    return response.read(MAX_BYTES + 1)


def _fetch_once(module: Any, url: str) -> Any:
    return fetch_url(module, url, timeout=module.params["timeout"])


def _fetch_over_https(module: Any, url: str) -> Any:
    """Fetch ``url``. Refuse each redirection to an unencrypted URL, because an attacker could replace the key on the way."""
    module.params["follow_redirects"] = "none"  # an option of fetch_url
    for _hop in range(MAX_REDIRECTIONS):
        if not url.lower().startswith("https:"):
            text = "%s is not encrypted, so an attacker in the network could replace the key. Set its fingerprint, or use https."
            raise GpuSwarmError(text % url, problem="fingerprint")
        response, info = _fetch_once(module, url)
        if info["status"] not in REDIRECTIONS or not info.get("location"):
            break
        url = urljoin(url, info["location"])
    return response, info


def check_key(data: bytes | None, wanted: str | None, source: str) -> Keys:
    """Return the keys in ``data``. Raises GpuSwarmError unless each key has the fingerprint ``wanted``."""
    try:
        if len(data or b"") > MAX_BYTES:
            raise GpuSwarmError("it is longer than %d bytes" % MAX_BYTES)
        keys = parse_keys(data or b"")
    except GpuSwarmError as problem:
        raise GpuSwarmError("%s is not accepted as the repository's key: %s" % (source, problem.message), problem="fingerprint") from problem
    if wanted and set(keys.fingerprints) != {wanted}:
        text = "%s is not accepted as the repository's key: its fingerprint is %s, not %s"
        raise GpuSwarmError(text % (source, ", ".join(keys.fingerprints), wanted), problem="fingerprint")
    return keys


def is_armored(path: str, keys: Keys, always: bool = False) -> bool:
    """Return whether the key file must be ASCII-armored. apt decides by the ending of the name and ignores other endings. rpm imports only armored
    keys."""
    return always or {".asc": True, ".gpg": False}.get(os.path.splitext(path)[1], keys.armored)


def encode_for(path: str, keys: Keys, armored: bool = False) -> bytes:
    """Return the bytes of a key file at ``path`` with exactly these keys."""
    return encode_keys(keys, is_armored(path, keys, armored))


def read_installed(path: str, wanted: str | None, armored: bool = False) -> Keys | None:
    """Return the keys at ``path``; None if they have the wrong fingerprint or encoding. Line breaks may be anywhere."""
    try:
        keys = check_key(read_file(path), wanted, path)
    except GpuSwarmError:
        return None
    return keys if keys.armored == is_armored(path, keys, armored) else None
