# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lists and removes the objects of a stack in its swarm: either all objects of the stack, or only the objects that a failed deployment has created.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, Sequence

from .manager import Manager, SwarmError
from .stack_file import NAMESPACE

# In the order of removal. Networks are last, because a network is in use until the tasks of its services have ended.
KINDS = ("services", "configs", "secrets", "networks")
LIMIT_S = 60.0  # how long to retry


def list_objects(manager: Manager, stack: str) -> dict[str, dict[str, str]]:
    """Return the names of the stack's objects, by kind and id."""
    label = "%s=%s" % (NAMESPACE, stack)
    names = {
        kind: {item["ID"]: item["Spec"]["Name"] for item in read(label)}
        for kind, read in (("services", manager.services_labelled), ("configs", manager.configs_labelled), ("secrets", manager.secrets_labelled))
    }
    return {**names, "networks": {network["Id"]: network["Name"] for network in manager.networks_labelled(label)}}


def remove_objects(manager: Manager, ids: Mapping[str, Sequence[str]], clock: Callable[[], float] = time.monotonic, sleep: Any = time.sleep) -> None:
    """Remove these objects. ``ids`` lists their ids by kind. Retry while something still uses an object."""
    deadline = clock() + LIMIT_S
    removers: tuple[Callable[[str], None], ...] = (manager.remove_service, manager.remove_config, manager.remove_secret, manager.remove_network)
    for kind, remover in zip(KINDS, removers):
        for object_id in ids.get(kind) or ():
            while True:
                try:
                    remover(object_id)
                    break
                except SwarmError:
                    if clock() >= deadline:
                        raise
                    sleep(1.0)
