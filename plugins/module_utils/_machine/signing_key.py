# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key that signs a repository: fetched, compared with the fingerprint that it has to have, and in the form that its reader takes.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urljoin

from ansible.module_utils.urls import fetch_url

from .._errors import GpuSwarmError
from .._openpgp import Keys, encoded, normalized, parsed

LIMIT = 1 << 20  # bytes; a key has a few thousand
HOPS = 10  # as urllib
REDIRECTIONS = (301, 302, 303, 307, 308)


def read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as key:
            return key.read(LIMIT + 1)
    except FileNotFoundError:
        return None


def pinned(fingerprint: str) -> str | None:
    """The fingerprint that the key has to have; None where any key is taken."""
    wanted = normalized(fingerprint)
    if fingerprint and not wanted:
        text = "%r is no fingerprint of a key: that has 40 hexadecimal digits"
        raise GpuSwarmError(text % fingerprint, problem="fingerprint")
    return wanted


def fetch(module: Any, url: str) -> bytes:
    """The key's bytes, from where it is to come."""
    response, info = fetched(module, url) if module.params["fingerprint"] else fetched_encrypted(module, url)
    if info["status"] != 200:
        raise GpuSwarmError("cannot fetch the repository's key from %s: %s" % (url, info["msg"]), problem="url")
    return response.read(LIMIT + 1)


def fetched(module: Any, url: str) -> Any:
    return fetch_url(module, url, timeout=module.params["timeout"])


def fetched_encrypted(module: Any, url: str) -> Any:
    """As fetched(), but each URL on the way is judged: whoever can change one answer of a redirection names the next URL."""
    module.params["follow_redirects"] = "none"  # of fetch_url
    for _hop in range(HOPS):
        if not url.lower().startswith("https:"):
            text = "%s is read without encryption, so that anybody on the way could replace the key. Set its fingerprint, or use https."
            raise GpuSwarmError(text % url, problem="fingerprint")
        response, info = fetched(module, url)
        if info["status"] not in REDIRECTIONS or not info.get("location"):
            break
        url = urljoin(url, info["location"])
    return response, info


def checked(data: bytes | None, wanted: str | None, source: str) -> Keys:
    """The keys in a file. Raises GpuSwarmError unless all are the one that is wanted."""
    try:
        if len(data or b"") > LIMIT:
            raise GpuSwarmError("it is longer than %d bytes" % LIMIT)
        keys = parsed(data or b"")
    except GpuSwarmError as problem:
        raise GpuSwarmError("%s is not taken for the repository's key: %s" % (source, problem.message), problem="fingerprint") from problem
    if wanted and set(keys.fingerprints) != {wanted}:
        text = "%s is not taken for the repository's key: its fingerprint is %s, and not %s"
        raise GpuSwarmError(text % (source, ", ".join(keys.fingerprints), wanted), problem="fingerprint")
    return keys


def is_armored(path: str, keys: Keys, always: bool = False) -> bool:
    """Whether a file there has to be. apt goes by the ending, and ignores what is otherwise; rpm imports nothing else."""
    return always or {".asc": True, ".gpg": False}.get(os.path.splitext(path)[1], keys.armored)


def form(path: str, keys: Keys, armored: bool = False) -> bytes:
    """The bytes of a file at that path with exactly these keys."""
    return encoded(keys, is_armored(path, keys, armored))


def installed(path: str, wanted: str | None, armored: bool = False) -> Keys | None:
    """The keys that are there, whoever put them there and however he broke their lines; None where they are not as they have to be."""
    try:
        keys = checked(read(path), wanted, path)
    except GpuSwarmError:
        return None
    return keys if keys.armored == is_armored(path, keys, armored) else None
