# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a task could run on a node other than its own (pure), by the requirements of its service.

Compares the same as ``pending``, but with the total resources of nodes, since the free ones change all the time.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, Mapping, Sequence

from .._tasks.tasks import is_global
from . import pending


def set_elsewhere(records: Sequence[Mapping[str, Any]], nodes: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]]) -> None:
    """Set ``elsewhere`` of each task in ``records``, the ledger's records of nodes."""
    by_id = {record["id"]: record for record in records}
    opened = [(node, by_id[node["ID"]]) for node in nodes if pending.is_open(by_id[node["ID"]])]
    by_name = {service["Spec"]["Name"]: service for service in services}
    homes = {}
    for record in records:
        for task in record["tasks"]:
            name = task["service"]
            if name not in homes:
                homes[name] = _homes(by_name.get(name), opened)
            task["elsewhere"] = None if homes[name] is None else any(node_id != record["id"] for node_id in homes[name])


def _homes(service: Mapping[str, Any] | None, opened: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[str] | None:
    """Up to two nodes that could run the service's tasks. Two are enough: wherever a task is, there is another one.

    None for a global service, whose tasks belong to their nodes, and for a removed service.
    """
    if service is None or is_global(service):
        return None
    spec = service["Spec"]["TaskTemplate"]
    wants = pending.wanted_by(spec)
    return list(islice((node["ID"] for node, record in opened if pending.fits(spec, node) and _is_large_enough(wants, node, record)), 2))


def _is_large_enough(wants: Mapping[str, float], node: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    if not wants:
        return True
    total = pending.place(node, record, {}).total
    return all(total.get(kind, 0) >= pending.least(amount) for kind, amount in wants.items())
