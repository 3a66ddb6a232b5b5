# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reconciles all jobs of a name in one pass: submits missing jobs, retries failed jobs, and saves the logs of finished jobs.

A pass may be killed between any two steps. The next pass continues, because a job's whole state is in its service.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from .._deployment.preflight import preflight
from .._deployment.stack import of_swarm, with_labels
from .._errors import Errors, GpuSwarmError
from .._ledger.ledger import swarm_state
from .._ledger.listed import Listed
from .._mask import mask_values
from .._queue import queues
from .._queue.queue_view import view_of
from .._queue.reasons import no_queue
from .._queue.settle import View
from .._queue.submission import why_never
from .._queue.waiting import TIME_LIMIT, shown
from .._swarm.manager import Manager, NotFound, Refused, SwarmError, until_written
from .._swarm.owned_labels import QUEUE
from .._tasks import one_shot
from .._tasks.tasks import epoch, still_allocated
from . import job_progress, logs, queued_job
from .definition import DIGEST, JOB, NOTHING, REMOVING, Job, public_values, variable_values

# When to run a finished job again.
NEVER, FAILED, ALWAYS = "never", "failed", "always"
REMOVED_WITHIN_S = 30
# The networks of each node that a service may use.
OF_EACH_NODE = frozenset(("bridge", "host"))
NO_HISTORY = (
    "The swarm keeps no ended tasks, so the result of the job %s could not be read. Have it keep some: "
    "docker swarm update --task-history-limit 5. %s"
)


class Jobs:
    """All jobs with the same name."""

    def __init__(self, manager: Manager, name: str, prefix: str, files: logs.LogFiles, check_mode: bool) -> None:
        self._manager, self._name, self._prefix, self._check_mode = manager, name, prefix, check_mode
        self._files = files
        self._labels: Mapping[str, Any] = {}
        self._now = epoch(manager.time)
        self._known_queues: Mapping[str, queues.Queue] | None = None
        self.changed = False
        self.problems: list[str] = []
        self.submitted: list[Job] = []
        self.relabelled: dict[str, Mapping[str, tuple[str, str]]] = {}  # changed labels by service
        self._read()

    def _read(self) -> None:
        """Read tasks before services. In the other order, a service that is removed in between would look like a service without a task yet."""
        label = "%s%s=%s" % (self._prefix, JOB, self._name)
        self._tasks: dict[str, list[Mapping[str, Any]]] = {}
        for task in self._manager.tasks_labelled(label):
            self._tasks.setdefault(task.get("ServiceID") or "", []).append(task)
        self._services = {service["Spec"]["Name"]: service for service in self._manager.services_labelled(label)}

    def _record(self, service: Mapping[str, Any]) -> dict[str, Any]:
        tasks = self._tasks.get(service["ID"], [])
        if queued_job.is_queued(service["Spec"]):
            return queued_job.record(service, tasks, self._queues(), self._prefix)
        return job_progress.record(service, tasks, self._prefix)

    def _queues(self) -> Mapping[str, queues.Queue]:
        """Return the queues of the swarm. Raises GpuSwarmError if their label is unreadable."""
        if self._known_queues is None:
            self._known_queues = queues.from_label((self._manager.spec.get("Labels") or {}).get(queues.LABEL))
        return self._known_queues

    # -- jobs that should exist -----------------------------------------------------------------------------------------------------

    def missing(self, wanted: Sequence[Job]) -> list[Job]:
        """Return the jobs that have no service, because nobody submitted them or somebody removed them."""
        return [job for job in wanted if not self._is_there(job)]

    def present(self, wanted: Sequence[Job], retries: int, again: str, labels: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run one pass and return the record of each job, in order. ``labels`` are labels that nodes are about to get, by node id."""
        self._labels = labels or {}
        missing = self.missing(wanted)
        self._refuse_moved(wanted, again)
        self._refuse_unknown_queue(wanted)
        self._refuse_incomplete(wanted)
        if missing:
            self._refuse_unfit(missing, wanted)
        for job in missing:
            self._submit(job)
        if missing and not self._check_mode:
            self._read()
        return [record for unit in _units(wanted) for record in self._advance_unit(unit, retries, again)]

    def explained(self, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the records with the reasons why jobs of a queue wait or are lost. Reads all services and tasks of the swarm."""
        queued = {service["ID"] for service in self._services.values() if queued_job.is_queued(service["Spec"])}
        unexplained = {job["id"] for job in records if job["id"] in queued and queued_job.has_reason(job)}
        if not unexplained:
            return list(records)
        rows = {row["service_id"]: row for row in view_of(self._listed(), self._manager.spec, self._now or 0.0)["work"]}
        return [queued_job.with_reason(job, rows[job["id"]]) if job["id"] in unexplained.intersection(rows) else job for job in records]

    def _is_there(self, job: Job) -> bool:
        service = self._services.get(job.service)
        return service is not None and service["Spec"]["Labels"].get(self._prefix + DIGEST) == job.digest

    def _refuse_moved(self, wanted: Sequence[Job], again: str) -> None:
        """Refuse a job that was submitted without a queue and should now run in one, or the reverse. New labels cannot change this."""
        for job in wanted:
            service = self._services.get(job.service) if self._is_there(job) else None
            if service is None or queued_job.is_queued(service["Spec"]) == queued_job.is_queued(job.spec):
                continue
            if again != NEVER or self._record(service)["state"] not in job_progress.OVER:
                how = "in a queue" if queued_job.is_queued(service["Spec"]) else "without a queue"
                raise GpuSwarmError(
                    "%s of the job %s was submitted %s. Restore queue in the definition, or remove the job with state=absent and submit it again. "
                    "Nothing was changed." % (job.service, self._name, how)
                )

    def _refuse_unknown_queue(self, wanted: Sequence[Job]) -> None:
        """Refuse to move a job into a queue that does not exist. A job whose queue was removed keeps its place."""
        for job in wanted:
            queue = job.spec["Labels"].get(QUEUE)
            if queue and self._is_there(job) and queue not in self._queues() and self._services[job.service]["Spec"]["Labels"].get(QUEUE) != queue:
                raise GpuSwarmError(
                    "The job %s cannot change its queue: %s. Fix queue in the definition. Nothing was changed."
                    % (self._name, no_queue(shown(queue), self._queues()).text)
                )

    def _refuse_incomplete(self, wanted: Sequence[Job]) -> None:
        """Refuse to submit single members of a gang again. An interrupted submission may go on, because no member has ever started."""
        for unit in _units(wanted):
            missing = [job.service for job in unit if not self._is_there(job)]
            existing = [self._services[job.service] for job in unit if self._is_there(job)]
            if missing and not all(queued_job.is_new(service) for service in existing):
                raise GpuSwarmError(
                    "%s of the job %s was removed, and the others of its gang remain. Remove the job with state=absent and submit it again. "
                    "Nothing was submitted." % (", ".join(missing), self._name)
                )

    def _refuse_unfit(self, missing: Sequence[Job], wanted: Sequence[Job]) -> None:
        """Refuse jobs that no node could ever run, because such jobs would wait forever. Jobs with the same needs are checked once."""
        if (self._manager.spec.get("Orchestration") or {}).get("TaskHistoryRetentionLimit") == 0:
            raise GpuSwarmError(NO_HISTORY % (self._name, NOTHING))
        specs_by_needs = {str(_needs(job.spec)): job.spec for job in missing}
        listed = self._listed()
        own = {job.service for job in missing}
        taken = sorted(service["Spec"]["Name"] for service in listed.services if service["Spec"]["Name"] in own)
        # The work of 'gpu-swarm run' has the plain name. It must not be removed with a job of this name.
        taken += sorted(name for name in self._services if (name == self._name) != (self._name in own))
        if taken:
            raise GpuSwarmError(
                "The swarm has a service %s that is not this job. Give the job another name than %s. %s" % (taken[0], self._name, NOTHING)
            )
        errors = Errors()
        errors.collect(self._refuse_networks, missing)
        for spec in specs_by_needs.values():
            errors.collect(self._refuse_spec, spec, listed)
        if not errors.messages:
            units_by_needs = {str(_needs(unit[0].spec)): unit for unit in _units(wanted) if not own.isdisjoint(job.service for job in unit)}
            for unit in units_by_needs.values():
                errors.collect(self._refuse_in_queue, [job.spec for job in unit], listed)
        if errors.messages:
            raise GpuSwarmError(" ".join([*errors.messages, NOTHING]))

    def _refuse_spec(self, spec: Mapping[str, Any], listed: Listed) -> None:
        # A queued service has 0 replicas, which fit anywhere.
        preview = preflight("", [queued_job.as_unqueued(spec)], listed, self._prefix)
        kinds = [item["DiscreteResourceSpec"]["Kind"] for item in spec["TaskTemplate"]["Resources"]["Reservations"]["GenericResources"]]
        for kind in kinds:
            if kind not in preview["kinds"]:
                advertised = ", ".join(sorted(preview["kinds"])) or "none"
                message = "No node of the swarm advertises the resource kind %s. Advertised are: %s. Fix kind of the job %s."
                raise GpuSwarmError(message % (kind, advertised, self._name))
        (explanation,) = preview["explained"]
        if not explanation["possible"]:
            text = explanation["text"]
            raise GpuSwarmError("The job %s %s. No node could ever run it: reserve less, or change its constraints." % (self._name, text))

    def _refuse_in_queue(self, specs: Sequence[Mapping[str, Any]], listed: Listed) -> None:
        if queued_job.is_queued(specs[0]):
            reason = why_never(specs, self._queues(), swarm_state(listed, self._prefix))
            if reason:
                raise GpuSwarmError("The job %s would never start: %s. Change the job, or gpu_swarm_queues." % (self._name, reason))

    def _refuse_networks(self, missing: Sequence[Job]) -> None:
        wanted = {network["Target"] for job in missing for network in job.spec["TaskTemplate"].get("Networks") or []} - OF_EACH_NODE
        lacking = sorted(wanted.difference(of_swarm(self._manager.networks()))) if wanted else []
        if lacking:
            raise GpuSwarmError(
                "networks of the job %s has %s, which the swarm does not have. Create it with 'docker network create --driver overlay', or fix its "
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
            # Another run has submitted a service of this name. The next listing shows whether this service is the same job.
            if "name conflicts" in problem.message:
                return
            message = mask_values(problem.message, variable_values(job), public_values(job))
            if isinstance(problem, Refused):
                submitted = "%d of its jobs are submitted." % (len(self.submitted) - 1) if len(self.submitted) > 1 else NOTHING
                message = "The job %s is refused. %s Fix this in the definition of the job. %s" % (self._name, message, submitted)
            raise type(problem)(message, **problem.details) from None

    def _advance_unit(self, unit: Sequence[Job], retries: int, again: str) -> list[dict[str, Any]]:
        """Return the records of a job, or of all members of a gang."""
        services = [self._services[job.service] for job in unit if job.service in self._services]
        if len(services) < len(unit):  # in check mode, or someone removed a service just now
            return [self._read_only(job) for job in unit]
        if queued_job.is_queued(services[0]["Spec"]):
            return self._advance_queued(unit, services, retries, again)
        return [self._advance(service, retries, again) for service in services]

    def _read_only(self, job: Job) -> dict[str, Any]:
        service = self._services.get(job.service)
        return {**self._record(service), "left": True} if service else _planned(job)

    def _advance(self, service: Mapping[str, Any], retries: int, again: str) -> dict[str, Any]:
        job = self._record(service)
        if job["state"] not in job_progress.OVER:
            if job_progress.has_avoided_for_long(job, self._now) and not self._check_mode:
                until_written(lambda: self._write(service, lambda spec: job_progress.avoiding(spec, None, self._prefix)))
            return {**job, "left": True}
        how = job_progress.how_to_retry(job, retries)
        starts_over = again == ALWAYS or (again == FAILED and job["state"] != one_shot.COMPLETE)
        if not starts_over and not (how and job_progress.is_due(job, self._now)):
            self._save(service)
            return {**job, "left": how is not None}
        return self._try_again(service, job, None if starts_over else how)

    def _advance_queued(self, unit: Sequence[Job], services: Sequence[Mapping[str, Any]], retries: int, again: str) -> list[dict[str, Any]]:
        jobs = [self._record(service) for service in services]
        for service, wanted in zip(services, unit):
            if queued_job.is_waiting(service):
                self._relabel(service, wanted)
        is_partly_back = queued_job.is_partly_waiting(services)
        if any(job["left"] for job in jobs) and not is_partly_back:
            return jobs
        worst = queued_job.worst_of(jobs)
        how = job_progress.how_to_retry(worst, retries)
        starts_over = again == ALWAYS or (again == FAILED and worst["state"] != one_shot.COMPLETE)
        saved = [self._save(service) for service in services]
        if not is_partly_back and not starts_over and not (how and job_progress.is_due(worst, self._now)):
            return [{**job, "left": how is not None} for job in jobs]
        if not all(saved):
            return [{**job, "left": False} for job in jobs]
        retried = max(job["retried"] for job in jobs if job["left"]) if is_partly_back else 0 if starts_over else worst["retried"] + 1
        return self._wait_again(unit, services, jobs, retried)

    def _wait_again(
        self, unit: Sequence[Job], services: Sequence[Mapping[str, Any]], jobs: Sequence[dict[str, Any]], retried: int
    ) -> list[dict[str, Any]]:
        """Let a finished or held job wait again. If this run is killed between two members of a gang, the next pass continues."""
        view = View({one["ID"]: one for one in services}, self._tasks, self._queues(), frozenset(), self._now or 0.0)
        try:
            labels = queued_job.state_labels(view, services[0]["ID"])
        except GpuSwarmError as problem:
            self.problems.append(problem.message)
            return list(jobs)
        pairs = [(service, wanted) for service, wanted in zip(services, unit) if service["ID"] in labels and not self._check_mode]
        written = [self._write_waiting(service, wanted, labels[service["ID"]], retried) for service, wanted in pairs]
        self.changed = self.changed or self._check_mode or any(written)
        if not all(written):  # somebody else restarts or removes the job; the next pass shows the result
            return [{**job, "left": True} for job in jobs]
        state = job_progress.PLANNED if self._check_mode else queued_job.WAITING
        next_try = {"exit_code": None, "ended": None, "node": None, "left": True, "state": state}
        return [{**job, **next_try, "error": job_progress.LAST_TRY % job["error"] if job["error"] else ""} for job in jobs]

    def _write_waiting(self, service: Mapping[str, Any], job: Job, state_label: str, retried: int) -> bool:
        return until_written(lambda: self._write(service, lambda spec: queued_job.waiting_again(spec, job.spec, state_label, retried, self._prefix)))

    def _relabel(self, service: Mapping[str, Any], wanted: Job) -> None:
        """Give a waiting job the queue, priority and owner of the definition. A change of labels starts no task."""
        changed = queued_job.changed_labels(service["Spec"], wanted.spec)
        if not changed:
            return
        if self._check_mode or until_written(lambda: self._write(service, lambda spec: queued_job.with_wanted_labels(spec, wanted.spec))):
            self.changed = True
            self.relabelled[wanted.service] = changed

    def _is_being_removed(self, service: Mapping[str, Any]) -> bool:
        """Return whether a run is removing the service. Another try would be lost with the service.

        If the mark is old by the manager's clock, the run that set the mark was killed.
        """
        age = job_progress.age_of(service.get("UpdatedAt"), self._now)
        return self._prefix + REMOVING in service["Spec"]["Labels"] and age is not None and age < REMOVED_WITHIN_S

    def _try_again(self, service: Mapping[str, Any], job: Mapping[str, Any], how: str | None) -> dict[str, Any]:
        """Start another try of a finished job. Save the job's log first, because swarm keeps only the last tasks."""
        if not self._save(service):
            return {**job, "left": False}
        error = job_progress.LAST_TRY % job["error"] if job["error"] else ""
        next_try = {"exit_code": None, "error": error, "ended": None, "node": None, "left": True}
        is_refused = how == job_progress.RESUBMIT and not self._check_mode
        avoid = job["node"] if is_refused and self._fits_elsewhere(service["Spec"], job["node"]) else None
        if not self._check_mode and not until_written(
            lambda: self._write(service, lambda spec: job_progress.next_try(spec, how, self._prefix, avoid))
        ):
            return {**job, "left": True}  # the next pass shows the result
        self.changed = True
        if self._check_mode:
            return {**job, **next_try, "state": job_progress.PLANNED}
        return {**job, **next_try, "state": one_shot.QUEUED, "tries": job["tries"] + 1}

    def _fits_elsewhere(self, spec: Mapping[str, Any], node: str | None) -> bool:
        """Return whether the job would fit on another node now."""
        if not node:
            return False
        elsewhere = dict(job_progress.avoiding(spec, node, self._prefix), Name="%s-elsewhere" % spec["Name"])
        (explanation,) = preflight("", [elsewhere], self._listed(), self._prefix)["explained"]
        return bool(explanation["fits"])

    def _listed(self) -> Listed:
        manager = self._manager
        return Listed(with_labels(manager.nodes(), self._labels), list(manager.tasks()), manager.services(), self._now)

    def _write(self, service: Mapping[str, Any], change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> bool:
        """Update the service, unless somebody else restarted or removed the service meanwhile. Return whether the service was updated."""
        try:
            current = self._manager.service(service["ID"])
            is_restarted = job_progress.tries(current["Spec"]["TaskTemplate"]) != job_progress.tries(service["Spec"]["TaskTemplate"])
            if is_restarted or queued_job.has_moved(current["Spec"], service["Spec"]) or self._is_being_removed(current):
                return False
            self._manager.update_service(current["ID"], current["Version"]["Index"], change(current["Spec"]))
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

    # -- jobs that should not exist ------------------------------------------------------------------------------------------------------

    def ending(self) -> list[dict[str, Any]]:
        """Return the resources that tasks of removed jobs of this name still have."""
        self._read()
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        return still_allocated(tasks, self._services.values(), self._manager.nodes()) if tasks else []

    def absent(self) -> list[dict[str, Any]]:
        """Remove all jobs of this name, including running jobs. Save their logs first. Return their records."""
        records = []
        for service in self._services.values():
            records.append(self._record(service))
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
        return records


def _units(wanted: Sequence[Job]) -> list[list[Job]]:
    """Return the members of each gang together, and each other job alone, in order."""
    units: dict[str, list[Job]] = {}
    for job in wanted:
        units.setdefault(job.gang or job.service, []).append(job)
    return list(units.values())


def _needs(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    template, labels = spec["TaskTemplate"], spec["Labels"]
    return template["Resources"], template["Placement"], template.get("Networks"), [labels.get(label) for label in (QUEUE, TIME_LIMIT)]


def _planned(job: Job) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(("exit_code", "node", "ended", "queued"))
    empty.update(dict.fromkeys(("tries", "retried", "refused"), 0), **dict.fromkeys(("id", "error", "avoids"), ""))
    own = {"service": job.service, "digest": job.digest, "parameters": job.parameters, "gang": job.gang}
    return {**empty, **own, "state": job_progress.PLANNED, "left": True}
