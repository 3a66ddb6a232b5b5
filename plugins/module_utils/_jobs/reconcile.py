# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reconciles the jobs of a name, in one pass: what is missing is submitted, what failed is tried again, and logs of what is over are saved.

It may end between any two steps, and the next pass goes on: all that is known of a job is in its service.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from .._deployment.preflight import preflight
from .._deployment.stack import of_swarm, with_labels
from .._errors import Errors, GpuSwarmError
from .._ledger.listed import Listed
from .._mask import mask_values
from .._swarm.manager import Manager, NotFound, Refused, SwarmError, until_written
from .._tasks.tasks import epoch, still_allocated
from . import job_progress, logs
from .definition import DIGEST, JOB, NOTHING, REMOVING, Job, names, values

# Whether a job that is over is run once more.
NEVER, FAILED, ALWAYS = "never", "failed", "always"
REMOVED_WITHIN_S = 30
# The networks of a machine that a service may use.
OF_EACH_NODE = frozenset(("bridge", "host"))
FORGETS = (
    "The swarm forgets a task as soon as it has ended, and what became of the job %s could not be seen. Have it keep some: "
    "docker swarm update --task-history-limit 5. %s"
)


class Jobs:
    """Those of one name."""

    def __init__(self, manager: Manager, name: str, prefix: str, files: logs.Kept, check_mode: bool) -> None:
        self._manager, self._name, self._prefix, self._check_mode = manager, name, prefix, check_mode
        self._files = files
        self._labels: Mapping[str, Any] = {}
        self._now = epoch(manager.time)
        self.changed = False
        self.problems: list[str] = []
        self.submitted: list[Job] = []
        self._read()

    def _read(self) -> None:
        """Tasks first: a service that is removed in between would look like one whose task swarm has not made yet."""
        label = "%s%s=%s" % (self._prefix, JOB, self._name)
        self._tasks: dict[str, list[Mapping[str, Any]]] = {}
        for task in self._manager.tasks_labelled(label):
            self._tasks.setdefault(task.get("ServiceID") or "", []).append(task)
        self._services = {service["Spec"]["Name"]: service for service in self._manager.services_labelled(label)}

    def _record(self, service: Mapping[str, Any]) -> dict[str, Any]:
        return job_progress.record(service, self._tasks.get(service["ID"], []), self._prefix)

    # -- there -----------------------------------------------------------------------------------------------------

    def missing(self, wanted: Sequence[Job]) -> list[Job]:
        """Those that were never submitted, or were removed."""
        return [job for job in wanted if not self._is_there(job)]

    def present(self, wanted: Sequence[Job], retries: int, again: str, labels: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """The record of each job, in their order. ``labels``, by node, are those that nodes are about to get."""
        self._labels = labels or {}
        missing = self.missing(wanted)
        if missing:
            self._refuse_unfit(missing)
        for job in missing:
            self._submit(job)
        if missing and not self._check_mode:
            self._read()
        return [self._advanced(self._services[job.service], retries, again) if job.service in self._services else _planned(job) for job in wanted]

    def _is_there(self, job: Job) -> bool:
        service = self._services.get(job.service)
        return service is not None and service["Spec"]["Labels"].get(self._prefix + DIGEST) == job.digest

    def _refuse_unfit(self, missing: Sequence[Job]) -> None:
        """One that no node could ever run would be queued for ever. Alike ones are checked once."""
        if (self._manager.spec.get("Orchestration") or {}).get("TaskHistoryRetentionLimit") == 0:
            raise GpuSwarmError(FORGETS % (self._name, NOTHING))
        alike = {str(_needs(job.spec)): job.spec for job in missing}
        listed = self._listed()
        own = {job.service for job in missing}
        taken = sorted(service["Spec"]["Name"] for service in listed.services if service["Spec"]["Name"] in own)
        if taken:
            raise GpuSwarmError(
                "The swarm has a service %s that is no such job. Give the job another name than %s. %s" % (taken[0], self._name, NOTHING)
            )
        errors = Errors()
        errors.of(self._refuse_networks, missing)
        for spec in alike.values():
            errors.of(self._refuse_spec, spec, listed)
        if errors.messages:
            raise GpuSwarmError(" ".join([*errors.messages, NOTHING]))

    def _refuse_spec(self, spec: Mapping[str, Any], listed: Listed) -> None:
        found = preflight("", [spec], listed, self._prefix)
        kinds = [item["DiscreteResourceSpec"]["Kind"] for item in spec["TaskTemplate"]["Resources"]["Reservations"]["GenericResources"]]
        for kind in kinds:
            if kind not in found["kinds"]:
                there = ", ".join(sorted(found["kinds"])) or "none"
                raise GpuSwarmError("No node of the swarm advertises %s; there are: %s. Fix kind of the job %s." % (kind, there, self._name))
        (one,) = found["explained"]
        if not one["possible"]:
            raise GpuSwarmError("The job %s %s. No node could ever run it: reserve less, or change its constraints." % (self._name, one["text"]))

    def _refuse_networks(self, missing: Sequence[Job]) -> None:
        wanted = {one["Target"] for job in missing for one in job.spec["TaskTemplate"].get("Networks") or []} - OF_EACH_NODE
        lacking = sorted(wanted.difference(of_swarm(self._manager.networks()))) if wanted else []
        if lacking:
            raise GpuSwarmError(
                "networks of the job %s has %s, which the swarm does not have. Make it with 'docker network create --driver overlay', or fix its "
                "name." % (self._name, ", ".join(lacking))
            )

    def _submit(self, job: Job) -> None:
        self.changed = True
        self.submitted.append(job)
        if self._check_mode:
            return
        try:
            self._manager.create_service(job.spec)
        except SwarmError as problem:
            # Another run submits the same; what is not the same is found in the list afterwards.
            if "name conflicts" in problem.message:
                return
            said = mask_values(problem.message, values(job), names(job))
            if isinstance(problem, Refused):
                done = "%d of its jobs are submitted." % (len(self.submitted) - 1) if len(self.submitted) > 1 else NOTHING
                said = "The job %s is refused. %s Fix what it names in the definition of the job. %s" % (self._name, said, done)
            raise type(problem)(said, **problem.details) from None

    def _advanced(self, service: Mapping[str, Any], retries: int, again: str) -> dict[str, Any]:
        one = self._record(service)
        if one["state"] not in job_progress.OVER:
            if job_progress.is_kept_off_for_long(one, self._now) and not self._check_mode:
                until_written(lambda: self._write(service, lambda spec: job_progress.keeping_off(spec, None, self._prefix)))
            return {**one, "left": True}
        how = job_progress.again(one, retries)
        anew = again == ALWAYS or (again == FAILED and one["state"] != job_progress.COMPLETE)
        if not anew and not (how and job_progress.due(one, self._now)):
            self._save(service)
            return {**one, "left": how is not None}
        return self._tried(service, one, None if anew else how)

    def _is_being_removed(self, service: Mapping[str, Any]) -> bool:
        """Another try would be lost with it. By the manager's clock: whoever removes it was killed where it is there a while later."""
        age = job_progress.age_of(service.get("UpdatedAt"), self._now)
        return self._prefix + REMOVING in service["Spec"]["Labels"] and age is not None and age < REMOVED_WITHIN_S

    def _tried(self, service: Mapping[str, Any], one: Mapping[str, Any], how: str | None) -> dict[str, Any]:
        """Another try of a job that is over. Swarm keeps the last tasks only, so the log comes first."""
        if not self._save(service):
            return {**one, "left": False}
        later = {"exit_code": None, "error": job_progress.LAST_TRY % one["error"] if one["error"] else "", "ended": None, "node": None, "left": True}
        avoid = one["node"] if how == job_progress.RESUBMIT and not self._check_mode and self._fits_off(service["Spec"], one["node"]) else None
        if not self._check_mode and not until_written(
            lambda: self._write(service, lambda spec: job_progress.next_try(spec, how, self._prefix, avoid))
        ):
            return {**one, "left": True}  # the next pass shows what became of it
        self.changed = True
        if self._check_mode:
            return {**one, **later, "state": job_progress.PLANNED}
        return {**one, **later, "state": job_progress.QUEUED, "tries": one["tries"] + 1}

    def _fits_off(self, spec: Mapping[str, Any], node: str | None) -> bool:
        """Whether there is room for it on another node now."""
        if not node:
            return False
        elsewhere = dict(job_progress.keeping_off(spec, node, self._prefix), Name="%s-elsewhere" % spec["Name"])
        (one,) = preflight("", [elsewhere], self._listed(), self._prefix)["explained"]
        return bool(one["fits"])

    def _listed(self) -> Listed:
        manager = self._manager
        return Listed(with_labels(manager.nodes(), self._labels), list(manager.tasks()), manager.services(), self._now)

    def _write(self, service: Mapping[str, Any], changed: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bool:
        """Whether it was changed; not where somebody else has it run again, or removes it."""
        try:
            now = self._manager.service(service["ID"])
            if job_progress.tries(now["Spec"]["TaskTemplate"]) != job_progress.tries(service["Spec"]["TaskTemplate"]) or self._is_being_removed(now):
                return False
            self._manager.update_service(now["ID"], now["Version"]["Index"], changed(now["Spec"]))
        except NotFound:
            return False
        return True

    def _save(self, service: Mapping[str, Any]) -> bool:
        if self._check_mode:
            return True
        try:
            logs.save(self._manager, service, self._tasks.get(service["ID"], []), self._files)
        except GpuSwarmError as problem:
            self.problems.append("%s: %s" % (service["Spec"]["Name"], problem.message))
            return False
        return True

    # -- gone ------------------------------------------------------------------------------------------------------

    def ending(self) -> list[dict[str, Any]]:
        """What tasks of removed jobs of the name still have."""
        self._read()
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        return still_allocated(tasks, self._services.values(), self._manager.nodes()) if tasks else []

    def absent(self) -> list[dict[str, Any]]:
        """All of the name are removed, whatever they do; what they have printed is saved before."""
        found = []
        for service in self._services.values():
            found.append(self._record(service))
            self.changed = True
            if self._check_mode:
                continue
            try:
                logs.save(self._manager, service, self._tasks.get(service["ID"], []), self._files, ended=False)
                self._manager.remove_service(service["ID"])
            except NotFound:
                continue
            except GpuSwarmError as problem:
                self.problems.append("%s was not removed: %s" % (service["Spec"]["Name"], problem.message))
        return found


def _needs(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    template = spec["TaskTemplate"]
    return template["Resources"], template["Placement"], template.get("Networks")


def _planned(job: Job) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(("exit_code", "node", "ended", "queued"))
    empty.update(dict.fromkeys(("tries", "retried", "refused"), 0), **dict.fromkeys(("id", "error", "avoids"), ""))
    return {**empty, "service": job.service, "digest": job.digest, "parameters": job.parameters, "state": job_progress.PLANNED, "left": True}
