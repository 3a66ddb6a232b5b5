# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One reading of a swarm: its lists, its ledger and its labels at one time. Everything that observes the swarm between two runs shares one reading.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from .._placement.explain import ALL
from .._swarm.manager import Manager
from .._swarm.owned_labels import PREFIX
from .._tasks.tasks import epoch
from .listed import Listed
from .owners import owners_of
from .read import labels_of, ledger_with_findings

# An explanation compares a service with every node. So at most this many pending services are explained, those that wait longest.
MOST_EXPLAINED = 50
# No observer needs these parts of a task. A container's specification may contain secrets: its variables and its command.
_DROPPED_OF_TASK = ("NetworksAttachments",)
_DROPPED_OF_SPEC = ("ContainerSpec", "Networks")


class Reading(NamedTuple):
    """``at`` is the manager's time in seconds since 1970. ``tasks`` are tasks of the API without the specification of their containers.

    ``ledger`` is a result of ``ledger_with_findings`` with ``owners`` and ``swarm``; ``Readings`` adds ``queue``. ``leads``: whether this manager
    leads. ``owners`` are {service name: owner}. Observers share these objects and must not change them.
    """

    at: float
    nodes: Sequence[Mapping[str, Any]]
    tasks: Sequence[Mapping[str, Any]]
    services: Sequence[Mapping[str, Any]]
    spec: Mapping[str, Any]
    ledger: Mapping[str, Any]
    leads: bool
    manager_id: str
    manager_hostname: str
    swarm_id: str
    owners: Mapping[str, str]


def read(manager: Manager, nodes: Sequence[Mapping[str, Any]], leads: bool) -> Reading:
    """Read the swarm. ``nodes`` is the list of nodes that the caller has just read. Raises GpuSwarmError."""
    cluster, now = manager.cluster()
    spec, services = cluster["Spec"], manager.services()
    tasks: list[Mapping[str, Any]] = []
    at = epoch(now)

    listed = Listed(nodes, keeping(manager.tasks(), tasks), services, at)
    owners = owners_of(services)
    result = ledger_with_findings(listed, spec, PREFIX, [ALL], MOST_EXPLAINED)
    result["owners"] = owners
    result["swarm"] = dict(labels_of(spec, now, listed), id=manager.swarm_id, node_id=manager.node_id)
    hostname = next((node.get("Description", {}).get("Hostname", "") for node in nodes if node["ID"] == manager.node_id), "")
    return Reading(at or time.time(), nodes, tasks, services, spec, result, leads, manager.node_id, hostname, manager.swarm_id, owners)


def keeping(tasks: Iterable[Mapping[str, Any]], kept: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the tasks, and keep each of them in ``kept`` without the specification of its container."""
    for task in tasks:
        kept.append(without_container(task))
        yield task


def without_container(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task without the specification of its container and without its networks."""
    spec = {name: value for name, value in (task.get("Spec") or {}).items() if name not in _DROPPED_OF_SPEC}
    return {**{name: value for name, value in task.items() if name not in _DROPPED_OF_TASK}, "Spec": spec}
