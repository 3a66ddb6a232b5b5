# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a job or one-shot service is over, and whether a run removes it (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Iterable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._queue import attempts, queue_state
from .._tasks.job_completion import incomplete_text, unfinished_text, why_unfinished
from .._tasks.one_shot import forced
from .._tasks.tasks import ALLOCATED, ENDED, epoch, is_job_service, is_queued

COMPLETE, FAILED = "complete", "failed"

AGE = re.compile(r"([0-9]{1,9})\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> int:
    """Return an age such as 24h in seconds."""
    match = AGE.fullmatch(text.strip().lower())
    if not match:
        raise GpuSwarmError("older_than is %r. Write an age such as 90s, 30m, 24h or 7d. No job was removed." % text)
    return int(match.group(1)) * _SECONDS[match.group(2)]


class Verdict(NamedTuple):
    """Whether a service is over. ``state`` is None if the service is not over, or if this is uncertain.

    ``text`` is the reason for the verdict, or how the service failed. ``ended`` is when the last task of the service ended.
    """

    state: str | None
    text: str = ""
    ended: float | None = None


class TaskSummary(NamedTuple):
    """The few fields of a task that this file needs. A swarm may have many thousand tasks."""

    state: str
    slot: int
    forced: int
    iteration: int
    since: float | None
    created: str


def summarise(task: Mapping[str, Any]) -> TaskSummary:
    status, iteration = task["Status"], task.get("JobIteration") or {}
    return TaskSummary(
        status["State"],
        task.get("Slot") or 0,
        forced(task.get("Spec") or {}),
        iteration.get("Index", 0),
        epoch(status.get("Timestamp")),
        task.get("CreatedAt") or "",
    )


def why_not_one_shot(service: Mapping[str, Any]) -> str | None:
    """Return why the service is neither a job nor a one-shot service; None for a job or a one-shot service."""
    spec = service["Spec"]
    if is_job_service(service):
        return None
    if "Replicated" not in spec["Mode"]:
        return "it is not a job"
    condition = (spec["TaskTemplate"].get("RestartPolicy") or {}).get("Condition") or "any"
    return None if condition == "none" else "it is not a job: swarm starts its tasks again (restart condition %s)" % condition


def verdict_on(service: Mapping[str, Any], tasks: Sequence[TaskSummary]) -> Verdict:
    """Return the verdict on a service. ``tasks`` are all tasks of the service."""
    problem = why_not_one_shot(service)
    if problem:
        return Verdict(None, problem)
    if is_queued(service):
        return _verdict_on_queued(service, tasks)
    ended = max((task.since for task in tasks if task.since is not None), default=None)
    if is_job_service(service):
        return _verdict_on_job(service, tasks, ended)
    unfinished = sum(task.state not in ENDED for task in tasks)
    if unfinished:
        return Verdict(None, unfinished_text(unfinished))
    if (service.get("UpdateStatus") or {}).get("State") in ("updating", "rollback_started"):
        return Verdict(None, "it is being updated")
    spec = service["Spec"]
    wanted = spec["Mode"]["Replicated"].get("Replicas", 1)
    # If the service was created or forced to run again just now, swarm has not created the new task yet.
    oldest_first = sorted(tasks, key=lambda task: task.created)
    newest = {task.slot: task for task in oldest_first if task.forced == forced(spec["TaskTemplate"])}
    if not wanted or len(newest) < wanted:
        return Verdict(None, "%d of %d of its tasks have begun" % (len(newest), wanted))
    complete = sum(task.state == "complete" for task in newest.values())
    if complete < wanted:
        return Verdict(FAILED, incomplete_text(complete, wanted), ended)
    return Verdict(COMPLETE, "", ended)


def _verdict_on_queued(service: Mapping[str, Any], tasks: Sequence[TaskSummary]) -> Verdict:
    """Return the verdict on work of a queue. Only the label with the work's state says whether the work runs again."""
    state = queue_state.state_of(service)
    if state.state != queue_state.OVER:
        return Verdict(None, "its queue has not finished with it: it is %s" % state.state)
    unfinished = sum(task.state in ALLOCATED for task in tasks)  # after a stop, swarm keeps a task without a node until the service is removed
    if unfinished:
        return Verdict(None, unfinished_text(unfinished))
    ended = max((task.since for task in tasks if task.state in ENDED and task.since is not None), default=epoch(service.get("UpdatedAt")))
    return Verdict(COMPLETE, "", ended) if state.result == attempts.COMPLETE else Verdict(FAILED, state.result or "it has no result", ended)


def _verdict_on_job(service: Mapping[str, Any], tasks: Sequence[TaskSummary], ended: float | None) -> Verdict:
    """Return the verdict on a job of swarm. Only a complete job is certainly over, because swarm itself may retry a failed job."""
    reason = why_unfinished(service, [{"Status": {"State": task.state}, "JobIteration": {"Index": task.iteration}} for task in tasks])
    return Verdict(None, reason) if reason else Verdict(COMPLETE, "", ended)


class Candidate(NamedTuple):
    """A service that may be removed. ``name`` is the name of its job. All entries of an array have the same name.

    If the job runs on several nodes, ``gang`` has the name and the owner of its gang.
    """

    service_id: str
    service: str
    name: str
    verdict: Verdict
    gang: str = ""


def with_verdicts_of_gangs(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates. All members of a gang get the same verdict, so a gang stays or is removed as a whole."""
    gangs: dict[str, list[Verdict]] = {}
    for candidate in candidates:
        gangs.setdefault(candidate.gang or candidate.service, []).append(candidate.verdict)
    return [candidate._replace(verdict=_verdict_of_gang(gangs[candidate.gang or candidate.service])) for candidate in candidates]


def _verdict_of_gang(verdicts: Sequence[Verdict]) -> Verdict:
    decisive = min(verdicts, key=lambda verdict: (None, FAILED, COMPLETE).index(verdict.state))
    return decisive._replace(ended=max((verdict.ended for verdict in verdicts if verdict.ended is not None), default=None))


class Rules(NamedTuple):
    """Which finished services to remove: services that ended at least ``older_than`` seconds ago, except the last ``keep_last`` of each name.

    ``failed``: also remove failed services.
    """

    older_than: int
    keep_last: int
    failed: bool


def split_by_rules(
    candidates: Iterable[Candidate], named: Collection[str], rules: Rules, now: float | None
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Return (services to remove, services to keep with the reason). The limits of ``rules`` on age and number do not apply to services that the user
    named."""
    removed: list[Candidate] = []
    kept: list[tuple[Candidate, str]] = []
    units_by_name: dict[str, set[str]] = {}  # a gang counts once
    for candidate in sorted(candidates, key=lambda item: (-(item.verdict.ended or 0.0), item.service)):
        reason = candidate.verdict.text if candidate.verdict.state is None else None
        if candidate.verdict.state == FAILED and not rules.failed:
            reason = "it failed: %s" % candidate.verdict.text
        if not reason and candidate.service not in named:
            units = units_by_name.setdefault(candidate.name, set())
            units.add(candidate.gang or candidate.service)
            age = None if now is None or candidate.verdict.ended is None else now - candidate.verdict.ended
            if len(units) <= rules.keep_last:
                reason = "it is one of the last %d of %s" % (rules.keep_last, candidate.name)
            elif rules.older_than and (age is None or age < rules.older_than):
                reason = "it ended less than %d s ago" % rules.older_than
        if reason:
            kept.append((candidate, reason))
        else:
            removed.append(candidate)
    return removed, kept
