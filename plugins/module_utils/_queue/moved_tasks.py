# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds tasks of services without a queue that a run of provision or maintain moved, and that wait for room (pure).

Swarm starts such a task as soon as one node has room for it. Without a kept node, queued work would take that room piece by piece, and the run would
stop. A run may last for hours, but a moved task has room at the latest after the change of its former node. So nodes are kept only for tasks
that have waited for less than half an hour. A run does not delay the queue for longer.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._placement.census import Census
from .._placement.scheduler import demand_of
from .._swarm import lease
from .._tasks.tasks import WAITING, WANTED, epoch, is_movable
from .waiting import Work, shown

MOST = 20  # services for which nodes are kept
LONGEST_S = 1800.0


def moved_since(swarm: Mapping[str, Any], now: float) -> float | None:
    """Return the time after which a run may have created waiting tasks (seconds since 1970); None if no run changes the swarm now.

    ``swarm`` is the specification of the swarm.
    """
    run = lease.read(swarm)
    if not run or run.since is None or not lease.is_in_force(run, int(now)):
        return None
    return max(run.since, now - LONGEST_S)


def may_be_moved(task: Mapping[str, Any], since: float | None) -> bool:
    """Return whether the task waits for a node and was created after the time ``since``. None means that no run changes the swarm."""
    if since is None or task["Status"]["State"] not in WAITING or task.get("NodeID") or task.get("DesiredState") not in WANTED:
        return False
    return (epoch(task.get("CreatedAt")) or 0.0) >= since


def moved_work(tasks: Iterable[Mapping[str, Any]], services: Iterable[Mapping[str, Any]], census: Census) -> list[Work]:
    """Return the first waiting task of each service as work without a queue, the oldest first. Only a task that replaces another one was moved."""
    by_id = {service["ID"]: service for service in services}
    found: dict[str, Work] = {}
    for task in sorted(tasks, key=lambda task: (task.get("CreatedAt") or "", task["ID"])):
        service = by_id.get(task.get("ServiceID") or "")
        if service and is_movable(task, service) and (task.get("Slot") or 0) in census.tally_of(service["ID"]).last:
            work = Work(service["ID"], shown(service["Spec"]["Name"]), "", "", epoch(task.get("CreatedAt")) or 0.0, demand_of(service))
            found.setdefault(service["ID"], work)
    return list(found.values())[:MOST]
