# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds a job's progress from its service and tasks, and decides whether to try the job again (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from .._guard import refusal
from .._tasks.one_shot import COMPLETE, FAILED, MOST_REFUSED, QUEUED, REFUSED_BY_GUARD, TIMED_OUT, forced, latest, state_of_try
from .._tasks.tasks import ENDED, epoch
from .definition import AVOIDS, DIGEST, PARAMETERS, REFUSED, RETRIED

PLANNED = "to be submitted"
OVER = frozenset([COMPLETE, FAILED, TIMED_OUT, REFUSED_BY_GUARD])
# How to try an incomplete job again. RETRY uses up one of the job's retries, RESUBMIT does not.
RETRY, RESUBMIT = "retry", "resubmit"

LAST_TRY = "the last try: %s"
LONGEST_PAUSE_S = 60
# How long a queued job avoids the node that refused it (seconds).
AVOIDED_S = 30


def record(service: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], prefix: str) -> dict[str, Any]:
    """Return the job's record in the form of the module's result. ``tasks`` are the tasks of the job's service, from all tries."""
    spec, labels = service["Spec"], service["Spec"].get("Labels") or {}
    template = spec["TaskTemplate"]
    tasks = list(tasks)
    task = latest(template, tasks)
    status = task["Status"] if task else {}
    state, error = state_of_try(template, task)
    if state == QUEUED and not error:
        error = _previous_error(template, tasks)
    container = status.get("ContainerStatus") or {}
    return {
        "service": spec["Name"],
        "id": service["ID"],
        "digest": labels.get(prefix + DIGEST, ""),
        "parameters": labels.get(prefix + PARAMETERS, ""),
        "state": state,
        "exit_code": container.get("ExitCode", 0) if state in OVER and container.get("ContainerID") else None,
        "tries": tries(template),
        "retried": _number(labels.get(prefix + RETRIED)),
        "refused": _number(labels.get(prefix + REFUSED)),
        "node": task.get("NodeID") if task else None,
        "error": error,
        "ended": status.get("Timestamp") if state in OVER else None,
        "queued": task.get("CreatedAt") if task and state == QUEUED else None,
        "avoids": labels.get(prefix + AVOIDS, ""),
        "gang": "",
    }


def _previous_error(template: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]]) -> str:
    """Return why the previous try failed."""
    ended = [task for task in tasks if task["Status"]["State"] in ENDED]
    last = max(ended, key=lambda task: task.get("CreatedAt") or "", default=None)
    error = state_of_try(template, last)[1] if last else ""
    return LAST_TRY % error if error else ""


def tries(template: Mapping[str, Any]) -> int:
    return forced(template) + 1


def _number(text: str | None) -> int:
    return int(text) if text and re.fullmatch("[0-9]{1,9}", text) else 0


def how_to_retry(job: Mapping[str, Any], retries: int) -> str | None:
    """Return RETRY or RESUBMIT; None if the job still runs, is complete, or has no retries left."""
    if job["state"] == REFUSED_BY_GUARD:
        refused = refusal.parse_refusal(job["error"])
        is_final = refused is not None and refused.code in refusal.PERMANENT
        return None if is_final or job["refused"] >= MOST_REFUSED else RESUBMIT
    return RETRY if job["state"] in (FAILED, TIMED_OUT) and job["retried"] < retries else None


def age_of(stamp: str | None, now: float | None) -> float | None:
    then = epoch(stamp)
    return None if then is None or now is None else now - then


def is_due(job: Mapping[str, Any], now: float | None) -> bool:
    """Return whether it is time for the next try. The pause grows with each try, because a job that failed at once will probably fail again."""
    age = age_of(job["ended"], now)
    return age is None or age >= min(LONGEST_PAUSE_S, 2 ** min(job["retried"] + job["refused"], 10) - 1)


def has_avoided_for_long(job: Mapping[str, Any], now: float | None) -> bool:
    age = age_of(job["queued"], now)
    return bool(job["avoids"]) and job["state"] == QUEUED and age is not None and age >= AVOIDED_S


def avoiding(spec: Mapping[str, Any], node: str | None, prefix: str) -> dict[str, Any]:
    """Return the specification with a constraint that excludes only this node. If ``node`` is None, no node is excluded.

    Without the constraint, swarm would choose the same card again, because swarm counts that card as free.
    """
    labels, template = dict(spec.get("Labels") or {}), spec["TaskTemplate"]
    placement = template.get("Placement") or {}
    former = "node.id!=%s" % labels.pop(prefix + AVOIDS, "")
    constraints = [constraint for constraint in placement.get("Constraints") or [] if constraint != former]
    if node:
        labels[prefix + AVOIDS] = node
        constraints.append("node.id!=%s" % node)
    return dict(spec, Labels=labels, TaskTemplate=dict(template, Placement=dict(placement, Constraints=constraints)))


def next_try(spec: Mapping[str, Any], how: str | None, prefix: str, avoid: str | None = None) -> dict[str, Any]:
    """Return the service's specification for one more try that avoids the node ``avoid``.

    If ``how`` is None, the job starts over with all its retries.
    """
    spec = avoiding(spec, avoid, prefix)
    labels = dict(spec.get("Labels") or {})
    counts = {key: _number(labels.get(prefix + key)) for key in (RETRIED, REFUSED)}
    counts = {RETRIED: counts[RETRIED] + (how == RETRY), REFUSED: counts[REFUSED] + (how == RESUBMIT)} if how else {RETRIED: 0, REFUSED: 0}
    labels.update({prefix + key: str(count) for key, count in counts.items()})
    template = dict(spec["TaskTemplate"], ForceUpdate=forced(spec["TaskTemplate"]) + 1)
    return dict(spec, Labels=labels, TaskTemplate=template)
