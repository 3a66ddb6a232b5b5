# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes finished services, but no service that somebody restarts at the same time.

Docker's API does not check the version when it removes a service. So this code first updates a label of the service, because Docker checks the
version of an update. After this update, a writer who read the service earlier can no longer write the service. Then this code reads the service once
more and removes it. A write in the few milliseconds between reading and removing would still be lost.

If the service is a job of swarm itself, an update would run the job again. So this code does not update such a job. Instead, it reads the job twice
and compares the results.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Iterable, Mapping, NamedTuple

from .._errors import GpuSwarmError
from .._queue import queue_state
from .._queue.waiting import GANG, owner_of
from .._swarm.manager import Manager, NotFound, OutOfSequence
from .._swarm.owned_labels import QUEUE
from .._tasks.tasks import is_job_service
from . import finished, logs
from .definition import JOB, REMOVING
from .finished import Candidate, TaskSummary

CHANGED = "it was changed by someone else just now"


class Kept(NamedTuple):
    """Why a service was not removed. ``unsaved``: a log of the service could not be saved."""

    reason: str
    unsaved: bool = False


class Wanted(NamedTuple):
    """Selects services by name or by label. If both are None, it selects all jobs of this collection and all work of queues. An empty list selects
    none.
    """

    services: Collection[str] | None
    labels: Collection[str] | None
    prefix: str

    @property
    def is_own(self) -> bool:
        return self.services is None and self.labels is None


def candidates(manager: Manager, wanted: Wanted) -> list[Candidate]:
    """Return the selected services, each with a verdict.

    This code keeps only the needed fields in memory, because a swarm may have tens of thousands of services.
    """
    selected: dict[str, dict[str, Any]] = {}
    for label in (wanted.prefix + JOB, QUEUE) if wanted.is_own else ("",):
        for service in manager.each_service(label):
            if _is_selected(service, wanted):
                selected[service["ID"]] = _needed_fields(service)
    tasks: dict[str, list[TaskSummary]] = {service_id: [] for service_id in selected}
    for task in manager.tasks() if selected else ():
        if task.get("ServiceID") in tasks:
            tasks[task["ServiceID"]].append(finished.summarise(task))
    result = []
    for service_id, service in selected.items():
        labels = service["Spec"]["Labels"]
        gang = (labels.get(GANG) or "").partition(":")[0]
        name = labels.get(wanted.prefix + JOB) or gang or service["Spec"]["Name"]
        verdict = finished.verdict_on(service, tasks[service_id])
        result.append(Candidate(service_id, service["Spec"]["Name"], name, verdict, gang and "%s of %s" % (gang, owner_of(service))))
    return finished.with_verdicts_of_gangs(result)


def _needed_fields(service: Mapping[str, Any]) -> dict[str, Any]:
    spec = service["Spec"]
    template = {key: spec["TaskTemplate"][key] for key in ("RestartPolicy", "ForceUpdate") if key in spec["TaskTemplate"]}
    needed_spec = {"Name": spec["Name"], "Labels": dict(spec.get("Labels") or {}), "Mode": spec["Mode"], "TaskTemplate": template}
    statuses = {key: service[key] for key in ("JobStatus", "UpdateStatus", "UpdatedAt") if key in service}
    former = (service.get("PreviousSpec") or {}).get("Labels") or {}
    if queue_state.LABEL in former:
        statuses["PreviousSpec"] = {"Labels": {queue_state.LABEL: former[queue_state.LABEL]}}
    return {"ID": service["ID"], "Spec": needed_spec, **statuses}


def _is_selected(service: Mapping[str, Any], wanted: Wanted) -> bool:
    spec = service["Spec"]
    labels = spec.get("Labels") or {}
    if wanted.is_own:
        return wanted.prefix + JOB in labels or QUEUE in labels
    return spec["Name"] in (wanted.services or ()) or any(_has_label(labels, selector) for selector in wanted.labels or ())


def _has_label(labels: Mapping[str, str], selector: str) -> bool:
    key, equals, value = selector.partition("=")
    return key in labels and (not equals or labels[key] == value)


def remove(manager: Manager, candidate: Candidate, failed: bool, prefix: str, files: logs.LogFiles) -> Kept | None:
    """Remove the service, unless the service changed meanwhile. Return why the service was kept, or None if it no longer exists.

    Raises the manager's errors.
    """
    try:
        service = manager.service(candidate.service_id)
        tasks = manager.tasks_of(candidate.service_id)
        reason = _why_not_removed(service, tasks, failed)
        if reason:
            return Kept(reason)
        try:
            logs.save(manager, service, tasks, files)
        except GpuSwarmError as problem:
            return Kept(problem.message, unsaved=True)
        if not is_job_service(service):
            manager.update_service(service["ID"], service["Version"]["Index"], _with_new_label(service["Spec"], prefix))
        reason = _why_changed(manager, service, tasks, failed)
        if reason:
            return Kept(reason)
        manager.remove_service(candidate.service_id)
    except OutOfSequence:
        return Kept(CHANGED)
    except NotFound:
        return None  # somebody else removed it first
    return None


def _with_new_label(spec: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the specification with a changed label, since an update without a change may not increase the version."""
    labels = dict(spec.get("Labels") or {})
    former = re.fullmatch("[0-9]{1,9}", labels.get(prefix + REMOVING, ""))
    return dict(spec, Labels=dict(labels, **{prefix + REMOVING: str(int(former.group()) + 1 if former else 1)}))


def _why_changed(manager: Manager, before: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], failed: bool) -> str | None:
    """Return why the service changed since ``before``; None without a change.

    Read the service after its tasks, because swarm creates the task of an updated service a moment after the update.
    """
    later = manager.tasks_of(before["ID"])
    now = manager.service(before["ID"])
    is_job = is_job_service(before)
    if is_job and (now["Version"], now.get("JobStatus")) != (before["Version"], before.get("JobStatus")):
        return CHANGED
    if not is_job and now["Spec"]["TaskTemplate"] != before["Spec"]["TaskTemplate"]:
        return CHANGED
    if {task["ID"] for task in later} - {task["ID"] for task in tasks}:
        return CHANGED
    return _why_not_removed(now, later, failed)


def _why_not_removed(service: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], failed: bool) -> str | None:
    verdict = finished.verdict_on(service, [finished.summarise(task) for task in tasks])
    if verdict.state == finished.FAILED and not failed:
        return "it failed: %s" % verdict.text
    return verdict.text if verdict.state is None else None
