# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reconciles all jobs of a name in one pass: it submits missing ones, retries failed ones, and saves the logs of finished ones.

A pass may be killed between any two steps, and the next one continues, because a job's whole state is in its service.
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

# Whether to run a finished job once more.
NEVER, FAILED, ALWAYS = "never", "failed", "always"
REMOVED_WITHIN_S = 30
# Networks of the machine itself that a service may use.
OF_EACH_NODE = frozenset(("bridge", "host"))
FORGETS = (
    "The swarm forgets a task as soon as it has ended, and what became of the job %s could not be seen. Have it keep some: "
    "docker swarm update --task-history-limit 5. %s"
)


class Jobs:
    """All jobs of one name."""

    def __init__(self, manager: Manager, name: str, prefix: str, files: logs.LogFiles, check_mode: bool) -> None:
        self._manager, self._name, self._prefix, self._check_mode = manager, name, prefix, check_mode
        self._files = files
        self._labels: Mapping[str, Any] = {}
        self._now = epoch(manager.time)
        self.changed = False
        self.problems: list[str] = []
        self.submitted: list[Job] = []
        self._read()

    def _read(self) -> None:
        """Read tasks before services. Otherwise a service removed in between would look as if swarm had not created its task yet."""
        label = "%s%s=%s" % (self._prefix, JOB, self._name)
        self._tasks: dict[str, list[Mapping[str, Any]]] = {}
        for task in self._manager.tasks_labelled(label):
            self._tasks.setdefault(task.get("ServiceID") or "", []).append(task)
        self._services = {service["Spec"]["Name"]: service for service in self._manager.services_labelled(label)}

    def _record(self, service: Mapping[str, Any]) -> dict[str, Any]:
        return job_progress.record(service, self._tasks.get(service["ID"], []), self._prefix)

    # -- there -----------------------------------------------------------------------------------------------------

    def missing(self, wanted: Sequence[Job]) -> list[Job]:
        """Return the jobs that have no service: never submitted, or removed."""
        return [job for job in wanted if not self._is_there(job)]

    def present(self, wanted: Sequence[Job], retries: int, again: str, labels: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the record of each job, in order, after one pass. ``labels`` are by node the labels that nodes are about to get."""
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
        """Refuse jobs that no node could ever run, since they would wait for ever. Jobs with the same needs are checked once."""
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
        errors.collect(self._refuse_networks, missing)
        for spec in alike.values():
            errors.collect(self._refuse_spec, spec, listed)
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
            # Another run submitted a service of this name. The next listing shows whether it is the same job.
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
        """Return whether a run is removing the service, so that another try would be lost with it.

        If the mark is old by the manager's clock, its remover was killed.
        """
        age = job_progress.age_of(service.get("UpdatedAt"), self._now)
        return self._prefix + REMOVING in service["Spec"]["Labels"] and age is not None and age < REMOVED_WITHIN_S

    def _tried(self, service: Mapping[str, Any], one: Mapping[str, Any], how: str | None) -> dict[str, Any]:
        """Start another try of a finished job. Save its log first, because swarm keeps only the last tasks."""
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
        """Return whether the job would fit on another node now."""
        if not node:
            return False
        elsewhere = dict(job_progress.keeping_off(spec, node, self._prefix), Name="%s-elsewhere" % spec["Name"])
        (one,) = preflight("", [elsewhere], self._listed(), self._prefix)["explained"]
        return bool(one["fits"])

    def _listed(self) -> Listed:
        manager = self._manager
        return Listed(with_labels(manager.nodes(), self._labels), list(manager.tasks()), manager.services(), self._now)

    def _write(self, service: Mapping[str, Any], changed: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bool:
        """Return whether the service was updated. It was not if somebody else restarted or removed it meanwhile."""
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
        """Return the resources that tasks of removed jobs of this name still hold."""
        self._read()
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        return still_allocated(tasks, self._services.values(), self._manager.nodes()) if tasks else []

    def absent(self) -> list[dict[str, Any]]:
        """Remove all jobs of this name, whether they run or not. Save their logs first."""
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
