# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stack file that was deployed last. It is kept in a config of the swarm, so that the next deployment shows what changes.

'docker stack rm' removes it too, by its label. Everybody who can read it can also read the specifications of the services, which have the same
content.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import base64
import hashlib

from .manager import Manager

NAMESPACE = "com.docker.stack.namespace"
MARK = "gpu-swarm.stack-file"
# Docker's limits for a config and for its name.
MOST_BYTES, MOST_CHARACTERS = 500000, 64


def kept(manager: Manager, stack: str) -> str | None:
    """Return its text, or None if there is none. A killed run may leave two: the newer one counts."""
    found = sorted(_own(manager, stack), key=lambda one: one.get("CreatedAt") or "")
    return base64.b64decode(found[-1]["Spec"].get("Data") or "").decode("utf-8", "replace") if found else None


def keep(manager: Manager, stack: str, text: str) -> None:
    """Replace the kept text. An empty text, or one that is too long for a config, is not kept."""
    former = _own(manager, stack)
    data = text.encode("utf-8")
    digest = hashlib.sha256(("%s\0%s" % (stack, text)).encode("utf-8")).hexdigest()[:12]
    name = "%s_stack-file-%s" % (stack[: MOST_CHARACTERS - 24], digest)
    if text and len(data) <= MOST_BYTES and name not in [one["Spec"]["Name"] for one in former]:
        manager.create_config(name, data, {NAMESPACE: stack, MARK: "true"})
    for one in former:
        if one["Spec"]["Name"] != name:
            manager.remove_config(one["ID"])


def _own(manager: Manager, stack: str) -> list[dict]:
    return [one for one in manager.configs_labelled(MARK) if (one["Spec"].get("Labels") or {}).get(NAMESPACE) == stack]
