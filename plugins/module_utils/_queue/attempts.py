# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the progress of an admitted service (pure): whether its task has a node, runs, ended, or was refused.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Mapping, NamedTuple, Sequence

from .._guard import refusal
from .._printable import printable
from .._tasks import one_shot
from .._tasks.tasks import ALLOCATED, WAITING, epoch
from .queue_state import State
from .queues import Queue, shown_duration
from .waiting import limit_of_admitted

STARTS, RUNS, LOST, UNPLACED, TOO_LONG, UNRECORDED = "starts", "runs", "lost", "unplaced", "too-long", "unrecorded"
COMPLETE, FAILED, REFUSED = "complete", "failed", "refused"
TAKEN_BACK = "taken back"
RAN_TOO_LONG = "stopped: it ran for longer than its time limit of %s"
STARTED_TOO_LATE = "stopped: it did not run within its time limit of %s"
UNPLACED_S = 60  # admitted work without a node is taken back after this time
UNRECORDED_S = 600  # if swarm shows no task after this time, nobody knows whether the work ran


class Progress(NamedTuple):
    """``text`` says how the attempt ended, or why it has to be stopped. ``age_s`` is the time since the last update of the service."""

    kind: str
    node: str = ""
    text: str = ""
    age_s: float = 0.0


def progress_of(
    service: Mapping[str, Any], state: State, tasks: Sequence[Mapping[str, Any]], queue: Queue | None, unreachable: Collection[str], now: float
) -> Progress:
    """Return the progress of an admitted service. ``tasks`` are all its tasks, ``unreachable`` the ids of nodes that do not answer.

    If the node does not answer, the work is lost, but its container may still run. Swarm sets the task to *orphaned* after 24 hours, or when the
    node has left the swarm.
    """
    template = service["Spec"]["TaskTemplate"]
    age = max(0.0, now - (epoch(service.get("UpdatedAt")) or now))
    task = one_shot.latest(template, tasks)
    if task is None:
        text = "swarm has no record of its task, so nobody knows whether it ran"
        return Progress(UNRECORDED, text=text, age_s=age) if age >= UNRECORDED_S else Progress(STARTS, age_s=age)
    task_state, node = task["Status"]["State"], task.get("NodeID") or ""
    if task_state in WAITING:
        why = printable(" ".join((task["Status"].get("Err") or "").split()))
        text = "%s: swarm gave it no node within %d s%s" % (TAKEN_BACK, UNPLACED_S, why and " (%s)" % why)
        return Progress(UNPLACED, text=text, age_s=age) if age >= UNPLACED_S else Progress(STARTS, age_s=age)
    if task_state in ALLOCATED:
        return _of_allocated(service, state, task, queue, node in unreachable, now)._replace(node=node, age_s=age)
    return _of_ended(template, state, task)._replace(node=node, age_s=age)


def _of_allocated(
    service: Mapping[str, Any], state: State, task: Mapping[str, Any], queue: Queue | None, is_unreachable: bool, now: float
) -> Progress:
    if is_unreachable:
        return Progress(LOST)
    runs = one_shot.state_of_try(service["Spec"]["TaskTemplate"], task)[0] == one_shot.RUNNING
    limit, since = limit_of_admitted(service, state, queue), epoch(task.get("CreatedAt"))  # the limit counts from the admission
    if limit is not None and since is not None and now >= since + limit:
        return Progress(TOO_LONG, text=(RAN_TOO_LONG if runs else STARTED_TOO_LATE) % shown_duration(limit))
    return Progress(RUNS if runs else STARTS)


def _of_ended(template: Mapping[str, Any], state: State, task: Mapping[str, Any]) -> Progress:
    ended, error = one_shot.state_of_try(template, task)
    if ended == one_shot.COMPLETE:
        return Progress(COMPLETE, text="complete")
    refused = refusal.parse_refusal(error)
    if refused and refused.code not in refusal.PERMANENT and len(state.avoids) < one_shot.MOST_REFUSED:
        return Progress(REFUSED, text="refused: %s" % printable(refused.text))
    return Progress(FAILED, text="failed: %s" % printable(error))
