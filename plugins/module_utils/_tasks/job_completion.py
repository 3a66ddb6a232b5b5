# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a job is finished (pure): nothing of it runs or waits, and as much of it is complete as there was to do.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .tasks import ENDED, is_job_service


def unfinished(service: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> str | None:
    """Why the service is no finished job, or None. ``tasks`` are all of its tasks."""
    if not is_job_service(service):
        return "it is no job"
    left = sum(task["Status"]["State"] not in ENDED for task in tasks)
    if left:
        return still_there(left)
    iteration = (service.get("JobStatus") or {}).get("JobIteration") or {}
    complete = sum(task["Status"]["State"] == "complete" and _iteration(task) == iteration.get("Index", 0) for task in tasks)
    wanted = _completions(service["Spec"]["Mode"])
    return None if complete >= wanted else incomplete(complete, wanted)


def still_there(left: int) -> str:
    return "%d of its tasks %s" % (left, "runs or waits" if left == 1 else "run or wait")


def incomplete(complete: int, wanted: int) -> str:
    return "%d of %d of its tasks are complete" % (complete, wanted)


def _completions(mode: Mapping[str, Any]) -> int:
    """A global job has a task on each node that it came to; one at least."""
    replicated = mode.get("ReplicatedJob")
    if replicated is None:
        return 1
    return replicated.get("TotalCompletions") or replicated.get("MaxConcurrent") or 1


def _iteration(task: Mapping[str, Any]) -> int:
    return (task.get("JobIteration") or {}).get("Index", 0)
