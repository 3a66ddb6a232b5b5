# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds out why swarm has not created all tasks of a service yet (pure). The scheduler cannot place a task before it is created.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple

from .._printable import shortened
from .._tasks.tasks import epoch, is_global
from .availability import PAUSED
from .census import Tally
from .pending import Place, matches

PAUSED_UPDATES = {"paused": "its update is paused", "rollback_paused": "its rollback is paused"}
REPLICATED, JOB, GLOBAL_JOB = "Replicated", "ReplicatedJob", "GlobalJob"
# Docker's message begins by repeating the state of the update.
_STATE_PREFIX = re.compile(r"\A(update|rollback) paused( due to)? ?")


class Size(NamedTuple):
    """How many tasks a service wants: in total, and at the same time. None for a global service, which wants one task on each node."""

    mode: str
    wanted: int | None
    at_once: int | None


def size_of(service: Mapping[str, Any]) -> Size:
    ((mode, options),) = list(service["Spec"]["Mode"].items())[:1] or [(REPLICATED, {})]
    options = options or {}
    if mode == REPLICATED:
        replicas = options.get("Replicas", 1)
        return Size(mode, replicas, replicas)
    if mode == JOB:
        total = options.get("TotalCompletions") or options.get("MaxConcurrent") or 1
        return Size(mode, total, options.get("MaxConcurrent") or total)
    return Size(mode, None, None)


def still_needed(service: Mapping[str, Any], tally: Tally) -> int:
    """Return how many tasks need a node now. For a global service, only tasks that already wait count."""
    size = size_of(service)
    if size.wanted is None or size.at_once is None:
        return tally.waiting
    if tally.stopped:
        return 0
    unfinished = size.wanted - (tally.complete if size.mode == JOB else len(_ended_slots(service, tally)))
    return max(tally.waiting, min(unfinished, size.at_once) - tally.live, 0)


def is_short(service: Mapping[str, Any], tally: Tally) -> bool:
    """Return whether the service has fewer tasks than it wants. A service that is over is never short."""
    return bool(still_needed(service, tally) or tally.delayed or _paused_update(service)) and not is_over(service, tally)


def is_over(service: Mapping[str, Any], tally: Tally) -> bool:
    """Return whether swarm starts no more tasks of the service: it is scaled to 0, a queue stopped it, or its tasks have ended for good, with or
    without an error."""
    size = size_of(service)
    if tally.live or tally.waiting:
        return False
    if tally.stopped:
        return True
    if size.mode == GLOBAL_JOB:
        return tally.complete > 0
    if size.wanted is None:
        return False
    if size.mode == JOB:
        return tally.complete >= size.wanted
    created = list(_ended_slots(service, tally).values())
    return size.wanted == 0 or (len(created) >= size.wanted and not _is_update_unfinished(service, created))


def _ended_slots(service: Mapping[str, Any], tally: Tally) -> dict[int, str]:
    """Return the creation time of the last task of each slot in which swarm starts no other task.

    With the restart condition ``none`` swarm restarts no task. With ``on-failure`` swarm does not restart complete tasks (shouldRestart in swarmkit's
    manager/orchestrator/restart/restart.go).
    """
    condition = (service["Spec"]["TaskTemplate"].get("RestartPolicy") or {}).get("Condition")
    if condition not in ("none", "on-failure") or is_global(service):
        return {}
    empty_slots = {slot: task for slot, task in tally.last.items() if slot not in tally.slots}
    return {slot: created for slot, (created, state) in empty_slots.items() if condition == "none" or state == "complete"}


def _is_update_unfinished(service: Mapping[str, Any], created: Iterable[str]) -> bool:
    """Return whether the service's update was paused before it reached all slots. ``created`` are the creation times of the slots' last tasks."""
    started = epoch((service.get("UpdateStatus") or {}).get("StartedAt"))
    return _paused_update(service) is not None and (started is None or any((epoch(stamp) or 0) < started for stamp in created))


def without_tasks(service: Mapping[str, Any], tally: Tally, places: Iterable[Place]) -> list[str]:
    """Return texts about tasks that the scheduler cannot place yet, because swarm has not created or prepared them."""
    texts = []
    paused = _paused_update(service)
    if paused:
        texts.append(paused)
    if tally.unallocated:
        texts.append("%s yet (state new)" % _tasks(tally.unallocated, "has no address in its networks", "have no address in their networks"))
    if tally.delayed:
        texts.append(_tasks(tally.delayed, "starts after its restart delay", "start after their restart delay"))
    size = size_of(service)
    if size.mode == GLOBAL_JOB and is_over(service, tally):
        texts.append(_finished(tally.complete, tally.complete))
    elif is_global(service):
        texts += _missing_global_tasks(service, tally, places)
    elif size.mode == JOB:
        texts += _missing_job_tasks(size, tally)
    elif size.wanted == 0:
        texts.append("it is scaled to 0 replicas")
    elif tally.stopped:
        texts.append("its queue stopped it")
    elif not paused:
        texts += _missing_replicas(service, size, tally)
    return texts


def _paused_update(service: Mapping[str, Any]) -> str | None:
    """Return a text that says why the service's update is paused; None if the update is not paused."""
    status = service.get("UpdateStatus") or {}
    if status.get("State") not in PAUSED_UPDATES:
        return None
    message = str(status.get("Message") or "")
    return "%s: %s" % (PAUSED_UPDATES[status["State"]], _STATE_PREFIX.sub("", message) or message or "no reason given")


def _missing_global_tasks(service: Mapping[str, Any], tally: Tally, places: Iterable[Place]) -> list[str]:
    # On these nodes swarm also does not restart failed tasks (swarmkit orchestrator/global/global.go).
    hostnames = [
        place.record["hostname"]
        for place in places
        if place.record["availability"] == PAUSED and place.node["ID"] not in tally.nodes and matches(service["Spec"]["TaskTemplate"], place.node)
    ]
    return ["swarm creates no tasks of a global service on paused nodes: %s" % shortened(hostnames)] if hostnames else []


def _missing_job_tasks(size: Size, tally: Tally) -> list[str]:
    wanted, at_once = size.wanted or 0, size.at_once or 0
    if tally.complete >= wanted:
        return [_finished(tally.complete, wanted)]
    not_created = wanted - tally.complete - tally.live - tally.waiting
    if not_created > 0 and tally.live + tally.waiting >= at_once:
        return ["%s once others have ended: it has at most %d at a time" % (_tasks(not_created, "follows", "follow"), at_once)]
    if tally.failure[1] and not tally.live + tally.waiting:
        return ["%d of %d tasks are complete, and none runs; the last failed with: %s" % (tally.complete, wanted, tally.failure[1])]
    return []


def _missing_replicas(service: Mapping[str, Any], size: Size, tally: Tally) -> list[str]:
    wanted = size.wanted or 0
    missing = wanted - tally.live - tally.waiting
    if missing <= 0:
        return []
    complete = sum(state == "complete" for slot, (dummy_created, state) in tally.last.items() if slot not in tally.slots)
    if is_over(service, tally) and complete >= wanted:
        return [_finished(complete, wanted)]
    policy = service["Spec"]["TaskTemplate"].get("RestartPolicy") or {}
    condition, attempts = policy.get("Condition") or "any", policy.get("MaxAttempts")
    last = "; the last failed with: %s" % tally.failure[1] if tally.failure[1] else ""
    if tally.ended and condition != "any":
        text = _tasks(missing, "has ended and is not started again", "have ended and are not started again")
        return ["%s (restart condition %s)%s" % (text, condition, last)]
    if tally.ended and attempts:
        return ["%s (%d)%s" % (_tasks(missing, "has used up its restart attempts", "have used up their restart attempts"), attempts, last)]
    return []  # swarm is about to create the tasks


def _finished(complete: int, wanted: int) -> str:
    return "it has finished: %d of %d tasks are complete" % (complete, wanted)


def _tasks(count: int, singular: str, plural: str) -> str:
    return "1 task %s" % singular if count == 1 else "%d tasks %s" % (count, plural)
