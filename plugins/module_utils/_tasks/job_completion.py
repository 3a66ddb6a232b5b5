# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a job is finished (pure): no task of the job runs or waits, and enough tasks are complete.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .tasks import ENDED, is_job_service


def why_unfinished(service: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why this service is not a finished job; None for a finished job. ``tasks`` are all tasks of the service."""
    if not is_job_service(service):
        return "it is not a job"
    unfinished = sum(task["Status"]["State"] not in ENDED for task in tasks)
    if unfinished:
        return unfinished_text(unfinished)
    iteration = (service.get("JobStatus") or {}).get("JobIteration") or {}
    complete = sum(task["Status"]["State"] == "complete" and _iteration(task) == iteration.get("Index", 0) for task in tasks)
    wanted = _completions(service["Spec"]["Mode"])
    return None if complete >= wanted else incomplete_text(complete, wanted)


def unfinished_text(count: int) -> str:
    return "%d of its tasks %s" % (count, "runs or waits" if count == 1 else "run or wait")


def incomplete_text(complete: int, wanted: int) -> str:
    return "%d of %d of its tasks are complete" % (complete, wanted)


def _completions(mode: Mapping[str, Any]) -> int:
    """Return how many tasks must complete. A global job has one task per node, but this code requires only one complete task."""
    replicated = mode.get("ReplicatedJob")
    if replicated is None:
        return 1
    return replicated.get("TotalCompletions") or replicated.get("MaxConcurrent") or 1


def _iteration(task: Mapping[str, Any]) -> int:
    return (task.get("JobIteration") or {}).get("Index", 0)
