# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes services whose work is over, so that nothing queued or running goes with them.

Docker's API removes a service whatever its version. So its label is updated first, by version: whoever read it before and writes afterwards
fails. Then it is read once more. Between that and the removal are some milliseconds in which a writer who read it after the label would
be lost.
A job of swarm's own is never updated, which would run it again: it is read twice instead, and has to be the same.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Iterable, Mapping, NamedTuple

from .._errors import GpuSwarmError
from .._swarm.manager import Manager, NotFound, OutOfSequence
from .._tasks.tasks import is_job_service
from . import finished, logs
from .definition import JOB, REMOVING
from .finished import Candidate, TaskSummary

CHANGED = "it was changed by someone else just now"


class Stays(NamedTuple):
    """Why a service stays, and whether that is since a log of its tasks could not be saved."""

    reason: str
    unsaved: bool = False


class Wanted(NamedTuple):
    """Which services: by name or by a label, or where both are None those of this collection. An empty list chooses none."""

    services: Collection[str] | None
    labels: Collection[str] | None
    prefix: str

    @property
    def is_own(self) -> bool:
        return self.services is None and self.labels is None


def candidates(manager: Manager, wanted: Wanted) -> list[Candidate]:
    """The services that are meant, with a verdict on each. Of tens of thousands only as much is kept as that takes."""
    found: dict[str, dict[str, Any]] = {}
    for service in manager.each_service(wanted.prefix + JOB if wanted.is_own else ""):
        if _is_meant(service, wanted):
            found[service["ID"]] = _brief(service)
    tasks: dict[str, list[TaskSummary]] = {service_id: [] for service_id in found}
    for task in manager.tasks() if found else ():
        if task.get("ServiceID") in tasks:
            tasks[task["ServiceID"]].append(finished.seen(task))
    made = []
    for service_id, service in found.items():
        name = service["Spec"]["Labels"].get(wanted.prefix + JOB) or service["Spec"]["Name"]
        made.append(Candidate(service_id, service["Spec"]["Name"], name, finished.judge(service, tasks[service_id])))
    return made


def _brief(service: Mapping[str, Any]) -> dict[str, Any]:
    spec = service["Spec"]
    template = {key: spec["TaskTemplate"][key] for key in ("RestartPolicy", "ForceUpdate") if key in spec["TaskTemplate"]}
    brief = {"Name": spec["Name"], "Labels": dict(spec.get("Labels") or {}), "Mode": spec["Mode"], "TaskTemplate": template}
    kept = {key: service[key] for key in ("JobStatus", "UpdateStatus") if key in service}
    return {"ID": service["ID"], "Spec": brief, **kept}


def _is_meant(service: Mapping[str, Any], wanted: Wanted) -> bool:
    spec = service["Spec"]
    labels = spec.get("Labels") or {}
    if wanted.is_own:
        return wanted.prefix + JOB in labels
    return spec["Name"] in (wanted.services or ()) or any(_has(labels, one) for one in wanted.labels or ())


def _has(labels: Mapping[str, str], selector: str) -> bool:
    key, equals, value = selector.partition("=")
    return key in labels and (not equals or labels[key] == value)


def remove(manager: Manager, one: Candidate, failed: bool, prefix: str, kept: logs.Kept) -> Stays | None:
    """Why it stays after all, or None once it is gone. Raises what concerns the manager and not this service."""
    try:
        service = manager.service(one.service_id)
        tasks = manager.tasks_of(one.service_id)
        reason = _not_over(service, tasks, failed)
        if reason:
            return Stays(reason)
        try:
            logs.save(manager, service, tasks, kept)
        except GpuSwarmError as problem:
            return Stays(problem.message, unsaved=True)
        if not is_job_service(service):
            manager.update_service(service["ID"], service["Version"]["Index"], _marked(service["Spec"], prefix))
        reason = _changed(manager, service, tasks, failed)
        if reason:
            return Stays(reason)
        manager.remove_service(one.service_id)
    except OutOfSequence:
        return Stays(CHANGED)
    except NotFound:
        return None  # somebody was faster
    return None


def _marked(spec: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Another label than before in any case: an update that changes nothing may not count as one."""
    labels = dict(spec.get("Labels") or {})
    former = re.fullmatch("[0-9]{1,9}", labels.get(prefix + REMOVING, ""))
    return dict(spec, Labels=dict(labels, **{prefix + REMOVING: str(int(former.group()) + 1 if former else 1)}))


def _changed(manager: Manager, before: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], failed: bool) -> str | None:
    """Why it is not as it was. The service comes last: swarm makes the task of one that was written just now a moment later."""
    later = manager.tasks_of(before["ID"])
    now = manager.service(before["ID"])
    is_job = is_job_service(before)
    if is_job and (now["Version"], now.get("JobStatus")) != (before["Version"], before.get("JobStatus")):
        return CHANGED
    if not is_job and now["Spec"]["TaskTemplate"] != before["Spec"]["TaskTemplate"]:
        return CHANGED
    if {task["ID"] for task in later} - {task["ID"] for task in tasks}:
        return CHANGED
    return _not_over(now, later, failed)


def _not_over(service: Mapping[str, Any], tasks: Iterable[Mapping[str, Any]], failed: bool) -> str | None:
    verdict = finished.judge(service, [finished.seen(task) for task in tasks])
    if verdict.state == finished.FAILED and not failed:
        return "it failed: %s" % verdict.text
    return verdict.text if verdict.state is None else None
