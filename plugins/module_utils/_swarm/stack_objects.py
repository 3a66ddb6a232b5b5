# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a stack in its swarm, and their removal: all of them with the stack, or those that a failed deployment has made.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Sequence

from .manager import Manager, SwarmError
from .stack_file import NAMESPACE

# The order of removal: a network is in use until the tasks of its services have ended.
KINDS = ("services", "configs", "secrets", "networks")
LIMIT_S = 60.0


def listed(manager: Manager, stack: str) -> dict[str, dict[str, str]]:
    """Return the names by kind and id."""
    label = "%s=%s" % (NAMESPACE, stack)
    found = {
        kind: {one["ID"]: one["Spec"]["Name"] for one in read(label)}
        for kind, read in (("services", manager.services_labelled), ("configs", manager.configs_labelled), ("secrets", manager.secrets_labelled))
    }
    return {**found, "networks": {one["Id"]: one["Name"] for one in manager.networks_labelled(label)}}


def remove(manager: Manager, found: Mapping[str, Sequence[str]], clock: Callable[[], float] = time.monotonic, sleep: Any = time.sleep) -> None:
    """Remove these ids by kind. Retry while something still uses them."""
    until = clock() + LIMIT_S
    removers: tuple[Callable[[str], None], ...] = (manager.remove_service, manager.remove_config, manager.remove_secret, manager.remove_network)
    for kind, remover in zip(KINDS, removers):
        for one in found.get(kind) or ():
            while True:
                try:
                    remover(one)
                    break
                except SwarmError:
                    if clock() >= until:
                        raise
                    sleep(1.0)
