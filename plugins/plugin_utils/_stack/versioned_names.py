# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names configs and secrets of a stack by their content (pure).

Docker cannot change a config or secret: it refuses new content under the same name. So each content gets a different name, as if the user wrote
'name: settings-2'. A new name updates the services, and unused configs and secrets are removed after the deployment.
Private to this collection; it may change without notice.
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
# The length of a name in swarm, and of the digest in it.
MAX_NAME, DIGITS = 64, 12


def name_by_content(stack: Stack, name: str) -> Stack:
    """Return the stack with a name for each content. Names that the file sets do not change, because other stacks may use them."""
    result = dict(stack.document)
    for section in SECTIONS:
        if section in result:
            result[section] = {key: _name_entry(section, key, entry, stack.files, name) for key, entry in result[section].items()}
    return stack._replace(document=result)


def _name_entry(section: str, key: str, entry: dict[str, Any], files: dict[str, bytes], stack: str) -> dict[str, Any]:
    if "file" not in entry or ("name" in entry and section == "configs"):
        return entry
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{stack}_{key}")[: MAX_NAME - DIGITS - 1]
    # Other properties that Docker cannot change.
    properties = json.dumps({option: value for option, value in entry.items() if option not in ("file", "labels")}, sort_keys=True)
    digest = _digest(section, f"{stack}\0{key}\0{properties}\0".encode(), files[entry["file"].removeprefix("./")])
    labels = {label: value or "" for label, value in pairs(entry.get("labels"), f"{section}.{key}.labels").items()}
    if "name" in entry:
        return {**entry, "labels": {**labels, CONTENT: digest}}
    return {**entry, "name": f"{plain}_{digest}", "labels": {**labels, VERSION_OF: plain}}


def _digest(section: str, salt: bytes, content: bytes) -> str:
    """Return the digest for the name. Everyone who can read services sees this digest. So the digest of a secret is slow to compute, which makes it
    hard to guess the secret."""
    if section == "secrets":
        return hashlib.scrypt(content, salt=salt, n=2**14, r=8, p=1, dklen=32).hex()[:DIGITS]
    return hashlib.sha256(salt + content).hexdigest()[:DIGITS]
