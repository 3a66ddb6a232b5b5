# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time

from ansible.plugins.action import ActionBase

from ..module_utils._errors import ErrorList, Errors, GpuSwarmError
from ..module_utils._jobs.definition import NOTHING
from ..module_utils._jobs.job_options import JOB_OPTIONS
from ..module_utils._mask import mask
from ..module_utils._printable import printable
from ..module_utils._swarm.manager_options import CONNECTION_OPTIONS
from ..plugin_utils._calls.delegation import Call, call_module
from ..plugin_utils._calls.managers import reason_of
from ..plugin_utils._classes import for_job, labelling
from ..plugin_utils._report import conclusion, last_words, terminal
from ..plugin_utils._report import jobs as report
from ..plugin_utils._rollout.poll import poll, split_options
from ..plugin_utils._stack.deployment_wait import tolerate_silence
from ..plugin_utils._stack.job_file import check_options, read_job_file

OWN = {
    "file": {"type": "path"},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 3600},
}
MODULE = "fleet.gpu_swarm.swarm_job"
DELAY_S = 2.0
EXPLAIN_S = 30.0  # how often to ask why jobs wait


class ActionModule(ActionBase):
    """Reads the user's file and waits, on the controller; see the documentation of the module of this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        own_options, self._options = split_options(self._task.args, tuple(OWN))
        self._vars, self._who = task_vars, self._task.delegate_to or task_vars["inventory_hostname"]
        self._placement = {}
        # False if the caller should try another manager.
        result["answered"] = True
        try:
            validated = self._validate_own(own_options)
            self._read_options()
            result.update(self._submit_and_wait(validated))
            last_words.say(result, self._run_words._replace(hosts=[task_vars["inventory_hostname"]]))
        except NoManager as problem:
            result.update(failed=True, answered=False, msg=problem.message)
        except ErrorList as problem:
            result.update(failed=True, msg=mask(problem.message))
        except GpuSwarmError as problem:
            result.update(failed=True, msg=printable(mask(problem.message)))
        return result

    def _validate_own(self, own_options):
        """Validate the action's own options. The module validates the others."""
        former, self._task.args = self._task.args, own_options
        try:
            return self.validate_argument_spec(argument_spec=OWN)[1]
        finally:
            self._task.args = former

    def _read_options(self):
        path, errors = self._task.args.get("file"), Errors()
        from_file = errors.collect(read_job_file, str(path)) if path else {}
        if from_file is None:
            errors.refuse()
        self._options = {**from_file, **self._options}
        if self._options.get("state") == "absent":  # a removal needs only the name
            self._options = {key: value for key, value in self._options.items() if key == "name" or key not in JOB_OPTIONS}
            errors = Errors()
        self._x_gpu = errors.collect(check_options, self._options)
        if errors.messages:
            raise ErrorList(errors.messages, os.path.basename(path) if path else f"The job {self._options.get('name') or ''}".rstrip(), NOTHING)
        self._options.pop("x_gpu", None)
        self._options.update({"x_gpu": self._x_gpu} if self._x_gpu else {})

    def _submit_and_wait(self, options):
        first = self._reconcile(self._options)
        problems = [*first["problems"]]
        # The first pass submits the jobs that should run again. Later passes must not submit them once more.
        later = {**self._options, "again": "never"}
        absent = self._options.get("state") == "absent"
        waits = options["wait"] and not self._task.check_mode
        reported: dict[str, str] = {}
        answers, reasons, explained_at = [first], report.Reasons(), time.monotonic()

        def query():
            nonlocal explained_at
            explains = bool(answers) or time.monotonic() - explained_at >= EXPLAIN_S
            explained_at = time.monotonic() if explains else explained_at
            answer = answers.pop() if answers else self._ending(later) if absent else self._reconcile({**later, "explain": explains})
            answer = reasons.fill(answer, explains)
            for line in report.state_changes(answer, reported):
                self._show(line)
            problems.extend(problem_text for problem_text in answer["problems"] if problem_text not in problems)
            return answer

        query_patiently = tolerate_silence(query, first, NoManager, lambda text: self._show(f"note: {text}"))
        try:
            last = poll(query_patiently, _unfinished, options["wait_timeout"] if waits else 0, lambda _text: None, DELAY_S)
        except NoManager as problem:
            if first["changed"] and self._options.get("again", "never") != "never":
                # Do not try another manager, because it would submit the job once more.
                raise GpuSwarmError(
                    f"{problem.message.rstrip('.')}. The job {self._options['name']} was submitted, but its progress is not known. "
                    "Run this again without 'again' when a manager answers."
                ) from None
            raise
        for text in problems:
            self._display.warning(printable(f"{self._who}: {text}"))
        changed = first["changed"] or last["changed"]
        result = {**last, "changed": changed, "diff": first["diff"], "problems": problems}
        result.update({"jobs": first["jobs"], "waiting": conclusion.allocations_of(result["ending"])} if absent else {})
        summary = printable(self._removal_summary(result, first, waits) if absent else conclusion.jobs_sentence(self._options["name"], result, waits))
        table = report.table(result, terminal.width(self._display.columns))
        verdict = last_words.verdict_of(result["waiting"] if waits else [], result["not_ready"] + problems)
        self._run_words = last_words.LastWords(verdict, summary, table)
        return {**result, "summary": summary}

    def _removal_summary(self, result, first, waits):
        subject, services = f"job {self._options['name']}", len(first["jobs"]) or (None if first["ending"] else 0)
        if self._task.check_mode:
            return conclusion.removal_check_sentence(subject, len(first["jobs"]))
        if result["problems"]:
            return conclusion.partial_removal_sentence(subject, result["problems"], result["ending"])
        return conclusion.removal_sentence(subject, services, result["ending"], waits)

    def _ending(self, arguments):
        """Query which resources tasks of removed jobs still have. Remove nothing, because a user may have submitted new jobs with this name."""
        return {**self._queried(arguments, checks=True), "jobs": [], "changed": False}

    def _reconcile(self, arguments):
        """Make one pass over the jobs. If a job must be submitted and has x_gpu, first translate x_gpu for the current nodes, once."""
        answer = self._queried({**arguments, **self._placement})
        if answer["unplaced"]:
            self._placement = {"placement": self._on_this_fleet(arguments)}
            answer = self._queried({**arguments, **self._placement})
        return answer

    def _show(self, line):
        self._display.display(terminal.fit(f"  {printable(line)}", self._display.columns))

    def _on_this_fleet(self, arguments):
        """Return the placement, and add missing labels to nodes. If the job is refused, no label is added."""
        api = {key: value for key, value in self._options.items() if key in CONNECTION_OPTIONS}
        ledger = self._call("fleet.gpu_swarm.swarm_stack_on_manager", {**api, "stack": self._options["name"]})
        if "nodes" not in ledger:
            raise NoManager(reason_of(self._who, ledger))
        placed = for_job.place_job(self._x_gpu, self._options["name"], ledger["nodes"])
        for line in placed.lines:
            self._show(line)
        if placed.labels:
            self._queried({**arguments, "placement": placed.placement}, checks=True)
            labelling.add(placed.labels, labelling.Manager(api, self._call, self._who), NOTHING, self._task.check_mode)
        return placed.placement

    def _queried(self, arguments, checks=False):
        answer = self._call(MODULE, arguments, checks)
        if "jobs" in answer:
            answer.pop("invocation", None)  # Ansible would show the arguments with -vvv
            return answer
        failure = GpuSwarmError if answer.get("wrong") else NoManager
        raise failure(reason_of(self._who, answer))

    def _call(self, module, arguments, checks=False):
        """Call a module without logging, because the arguments contain environment variables of jobs. The answers do not contain them."""
        return call_module(self, Call(module, arguments, checks), self._vars, self._who)


def _unfinished(answer):
    """Return the services of jobs that have not ended. Without such jobs, return the resources that tasks of removed jobs still have."""
    return answer["waiting"] or conclusion.allocations_on_ready_nodes(answer["ending"])


class NoManager(GpuSwarmError):
    """This manager does not answer. Another manager may answer."""
