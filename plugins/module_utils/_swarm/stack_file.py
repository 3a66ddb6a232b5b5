# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stores the deployed stack file in a config of the swarm, so that the next deployment can show what changes.

'docker stack rm' removes this config too, because of its label. Everyone who can read this config can also read the specifications of the services,
which have the same content.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import base64
import hashlib

from .manager import Manager

NAMESPACE = "com.docker.stack.namespace"
MARK = "gpu-swarm.stack-file"
# Docker's limits for a config and for its name.
MOST_BYTES, MOST_CHARACTERS = 500000, 64


def read_text(manager: Manager, stack: str) -> str | None:
    """Return the stored text, or None. A killed run may leave two configs. In this case, return the text of the newer config."""
    configs = sorted(_configs_of(manager, stack), key=lambda config: config.get("CreatedAt") or "")
    return base64.b64decode(configs[-1]["Spec"].get("Data") or "").decode("utf-8", "replace") if configs else None


def store_text(manager: Manager, stack: str, text: str) -> None:
    """Replace the stored text. If the new text is empty, or too long for a config, only remove the old text."""
    former = _configs_of(manager, stack)
    data = text.encode("utf-8")
    digest = hashlib.sha256(("%s\0%s" % (stack, text)).encode("utf-8")).hexdigest()[:12]
    name = "%s_stack-file-%s" % (stack[: MOST_CHARACTERS - 24], digest)
    if text and len(data) <= MOST_BYTES and name not in [config["Spec"]["Name"] for config in former]:
        manager.create_config(name, data, {NAMESPACE: stack, MARK: "true"})
    for config in former:
        if config["Spec"]["Name"] != name:
            manager.remove_config(config["ID"])


def _configs_of(manager: Manager, stack: str) -> list[dict]:
    return [config for config in manager.configs_labelled(MARK) if (config["Spec"].get("Labels") or {}).get(NAMESPACE) == stack]
