# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names for the configs and secrets of a stack that change with their content (pure).

Docker changes neither of them: under the same name another content is refused. So each content has a name of its own, as people write it by
hand with 'name: settings-2'. Services update when the name does, and what no service uses any more is removed after the deployment.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from ...module_utils._swarm.owned_labels import CONTENT, VERSION_OF
from .fields import pairs
from .translate import Stack

SECTIONS = ("configs", "secrets")
# Of a name in swarm, and of the digest in it.
MOST_CHARACTERS, DIGITS = 64, 12


def versioned(stack: Stack, name: str) -> Stack:
    """The stack, of this name, with a name for each content that it carries. A name that the file gives stays: others may know it."""
    made = dict(stack.document)
    for section in SECTIONS:
        if section in made:
            made[section] = {key: _named(section, key, entry, stack.files, name) for key, entry in made[section].items()}
    return stack._replace(document=made)


def _named(section: str, key: str, entry: dict[str, Any], files: dict[str, bytes], stack: str) -> dict[str, Any]:
    if "file" not in entry or ("name" in entry and section == "configs"):
        return entry
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{stack}_{key}")[: MOST_CHARACTERS - DIGITS - 1]
    # What else of it Docker does not change.
    fixed = json.dumps({one: value for one, value in entry.items() if one not in ("file", "labels")}, sort_keys=True)
    digest = _digest(section, f"{stack}\0{key}\0{fixed}\0".encode(), files[entry["file"].removeprefix("./")])
    labels = {one: value or "" for one, value in pairs(entry.get("labels"), f"{section}.{key}.labels").items()}
    if "name" in entry:
        return {**entry, "labels": {**labels, CONTENT: digest}}
    return {**entry, "name": f"{plain}_{digest}", "labels": {**labels, VERSION_OF: plain}}


def _digest(section: str, salt: bytes, content: bytes) -> str:
    """Names can be read by all who read services, so that of a secret is one by which guesses at a short password take long."""
    if section == "secrets":
        return hashlib.scrypt(content, salt=salt, n=2**14, r=8, p=1, dklen=32).hex()[:DIGITS]
    return hashlib.sha256(salt + content).hexdigest()[:DIGITS]
