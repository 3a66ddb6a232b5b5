# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import contextlib
import errno
import math
import os
import re
from collections.abc import Callable
from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils._deployment import saved_ledger
from ..module_utils._errors import ErrorList, Errors, GpuSwarmError
from ..module_utils._mask import mask
from ..module_utils._printable import printable
from ..module_utils._swarm.manager_options import CONNECTION_OPTIONS
from ..module_utils._swarm.stack_command import DOCKER_CONFIG, FILE
from ..module_utils._tasks.tasks import utc
from ..plugin_utils._calls.delegation import Call, call_module
from ..plugin_utils._calls.libraries import zip_file
from ..plugin_utils._calls.managers import reason_of
from ..plugin_utils._classes import labelling
from ..plugin_utils._report import conclusion, last_words, terminal
from ..plugin_utils._rollout.poll import poll, split_options
from ..plugin_utils._settings.values import offered_devices
from ..plugin_utils._stack import (
    attachments,
    deploy_preconditions,
    deploy_verdict,
    image_answers,
    pulling,
    registries,
    replaced,
    secret_values,
    stack_yaml,
)
from ..plugin_utils._stack.attachments import Swarm
from ..plugin_utils._stack.deployment_wait import Steadiness, tolerate_silence, without_former_failures
from ..plugin_utils._stack.document import load_compose
from ..plugin_utils._stack.folder import Folder, decode
from ..plugin_utils._stack.placement import place_services
from ..plugin_utils._stack.references import check_names
from ..plugin_utils._stack.specification import specifications
from ..plugin_utils._stack.translate import DEFAULT_KIND, Stack, translate
from ..plugin_utils._stack.versioned_names import name_by_content

OPTIONS = {
    "name": {"type": "str", "required": True},
    "compose": {"type": "path"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "kind": {"type": "str", "default": DEFAULT_KIND},
    "allow_pending": {"type": "bool", "default": False},
    "wait_timeout": {"type": "int", "default": 300},
    "prune": {"type": "bool", "default": False},
    "with_registry_auth": {"type": "bool", "default": False},
    "registries": {"type": "dict", "default": {}, "no_log": True},
    "query_registries": {"type": "bool", "default": True},
    "ledger": {"type": "path"},
    "pull": {"type": "bool", "default": False},
}
# Docker's rule for the name of a stack. The names of the services and networks of the stack begin with this name.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
# How long the services that attach networks may take to start, if wait_timeout is 0 (seconds). Nodes may have to pull a large image first.
ATTACHING_S = 600
# How long a node may pull an image, if wait_timeout is 0 (seconds).
PULL_S = 600
# The largest saved ledger. Real ones have some megabytes.
LEDGER_BYTES = 100_000_000


class ActionModule(ActionBase):
    """Translates on the controller and deploys on the manager. See the documentation of the module of this name."""

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        _validation, self._args = self.validate_argument_spec(argument_spec={**OPTIONS, **CONNECTION_OPTIONS})
        _own, self._api = split_options(self._task.args, tuple(OPTIONS))
        self._vars, self._who = task_vars, self._task.delegate_to or task_vars["inventory_hostname"]
        # False if the caller should try another manager.
        result["answered"] = True
        self._deployed = False
        self._saved = None  # the swarm of the option ledger, in place of a manager
        self._masked: Callable[[str], str] = mask  # replaced below by a function that also hides values of the stack in Docker's answers
        try:
            self._refuse_arguments()
            self._load_ledger()
            change = self._present if self._args["state"] == "present" else self._absent
            result.update(change())
            verdict = last_words.verdict_of(result.get("waiting", []), result.get("not_ready", []))
            last_words.say(result, last_words.LastWords(verdict, result["summary"], hosts=[task_vars["inventory_hostname"]]))
        except NoManager as problem:
            result.update(failed=True, answered=self._deployed, msg=problem.message)
        except ErrorList as problem:
            result.update(failed=True, msg=mask(problem.message), **problem.details)
        except GpuSwarmError as problem:
            result.update(failed=True, msg=printable(problem.message), **problem.details)
        except AnsibleError as problem:
            result.update(failed=True, msg=printable(f"{self._who}: {problem}"))
        finally:
            self._remove_tmp_path(self._connection._shell.tmpdir)
        return result

    def _refuse_arguments(self):
        name = self._args["name"]
        if not NAME.fullmatch(name):
            raise GpuSwarmError(
                f"The name of the stack is {name!r}. Write at most 40 letters, digits and _ - that begin with a letter or digit: -e stack=train."
            )
        if self._args["state"] == "present" and not self._args["compose"]:
            raise GpuSwarmError(f"There is no Compose file for the stack {name}. Name it in compose: -e compose=compose.yml.")

    def _load_ledger(self):
        if not self._args["ledger"]:
            return
        if self._args["state"] != "present" or not self._task.check_mode:
            raise GpuSwarmError(f"{self._args['ledger']} is a saved ledger, so the stack can only be checked: use check mode and state present.")
        path = Path(self._args["ledger"]).absolute()
        try:
            with path.open("rb") as stream:
                content = stream.read(LEDGER_BYTES + 1)
            if len(content) > LEDGER_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        except OSError as problem:
            raise GpuSwarmError(f"The saved ledger {path} cannot be read on this machine: {problem.strerror}. {saved_ledger.SAVE}") from problem
        self._saved = saved_ledger.load(decode(content, str(path), "utf-8-sig"), path.name)
        self._say(f"compared with the swarm as {path.name} has it, saved at {utc(self._saved.time) or 'an unknown time'}")

    # -- present ---------------------------------------------------------------------------------------------------

    def _present(self):
        name, folder = self._args["name"], Folder(self._args["compose"])
        stack = name_by_content(self._translate(folder), name)
        self._masked = secret_values.build_masker(stack.document, stack.files, name)
        for note in stack.notes:
            self._say(f"note: {note}")
        stack, labels, placement = self._place(stack)
        specs = specifications(stack.document, name)
        queries = self._query_options(stack)
        options = {"labels": labels, "prune": self._args["prune"]}
        before = self._read(services=specs, **options, **queries)
        specs = self._mark_replaced(stack, specs, before)
        if replaced.starts_first(specs):  # query again, because the first query did not have these marks
            before = {**before, "preflight": self._read(services=specs, **options)["preflight"]}
        for line in deploy_verdict.placement_lines(before, specs, deploy_preconditions.without_healthcheck(stack.document, name)):
            self._say(line)
        stack = self._add_attaching(stack, before)
        specs = [*specs, *specifications(stack.document, name)[len(specs) :]]
        result = {**self._describe(stack, before), "placement": placement}
        orphans = deploy_verdict.orphans(before, specs)
        if orphans and not self._args["prune"]:
            self._say(f"note: the stack has {', '.join(orphans)}, which {folder.name} does not have. -e gpu_stack_prune=true removes them")
        refused = self._refusal(stack, specs, before)
        if refused:
            raise ErrorList(refused, f"The stack {name}", deploy_verdict.NOTHING, **{**result, "changed": False})
        labelled = bool(labels) if self._saved else self._label_nodes(labels)
        if self._task.check_mode:
            self._display.display(f"\n# {FILE}\n{result['stack_file']}")
            changed = result["changed"] or labelled
            return {**result, "changed": changed, "summary": conclusion.deployment_check_sentence(self._args["name"], changed)}
        if not result["changed"] and deploy_verdict.has_jobs(specs):
            self._say("nothing has changed, so the stack is not deployed again: its jobs would run once more")
            return {**result, "changed": labelled, **self._wait_until_running(before)}
        kept = stack_yaml.to_yaml(stack.document)
        if self._args["pull"]:
            stack = self._pull(stack, specs[: len(before["preflight"])], options)  # without the services that attach networks
        self._deploy_ahead(stack.document, before)
        after = self._deploy(stack, before, prune=self._args["prune"], keep=kept)
        return {**result, "changed": deploy_verdict.changed(before, after) or labelled, **self._wait_until_running(before)}

    def _translate(self, folder):
        """Return the stack of the Compose file. Report all errors of the file at once."""
        errors = Errors()
        stack = errors.collect(translate, folder.text(), folder.name, folder.read, dict(os.environ), self._args["kind"], self._offered)
        if stack:
            errors.collect(check_names, stack.document, self._args["name"])
        if errors.messages:
            raise ErrorList(errors.messages, folder.name, deploy_verdict.NOTHING)
        return stack

    def _offered(self):
        return offered_devices(self._vars, self._templar.template)

    def _query_options(self, stack):
        """Return options of the query before the deployment: all except the options that check whether the services fit."""
        wanted = deploy_preconditions.query_options(stack.document, self._args["name"], self._access(), self._args["query_registries"])
        compared = deploy_preconditions.objects_to_compare(stack, self._args["name"])
        return {**wanted, "compared": compared, "stack_file": stack_yaml.to_yaml(stack.document)}

    def _refusal(self, stack, specs, before):
        """Return the reasons against the deployment. The list is empty if the stack can be deployed."""
        name, file = self._args["name"], Folder(self._args["compose"]).name
        has_gpus = deploy_preconditions.with_gpus(stack.document)
        host_facts, silent_notes = image_answers.read_answers(self._vars.get("hostvars") or {}) if has_gpus else ({}, [])
        errors, notes = deploy_preconditions.check_answer(before, stack.document, name, self._access(), host_facts)
        for note in silent_notes + notes:
            self._say(f"note: {note}")
        conflict = None if self._args["prune"] else deploy_preconditions.name_conflict(before, [spec["Name"] for spec in specs], name, file)
        if conflict:
            return [conflict]
        unplaced = deploy_verdict.placement_errors(name, before, specs, self._args["allow_pending"])
        return [*deploy_verdict.docker_errors(before, self._masked), *unplaced, *errors]

    def _place(self, stack):
        """Translate x-gpu of the services into constraints. Return the stack with the constraints, the new labels of nodes, and the placement."""
        if not stack.x_gpu:
            return stack, {}, []
        ledger = self._read()
        placed = place_services(stack.document, stack.x_gpu, self._args["name"], ledger["nodes"], _former(ledger))
        for line in placed.lines:
            self._say(line)
        return stack._replace(document=placed.document), placed.labels, placed.placement

    def _label_nodes(self, labels):
        """Add the labels. Return whether any label was missing."""
        return labelling.add(labels, labelling.Manager(self._api, self._call, self._who), deploy_verdict.NOTHING, self._task.check_mode)

    def _mark_replaced(self, stack, specs, before):
        return replaced.mark_replaced(
            specs, self._args["name"], stack.document, _former(before), [service["service"] for service in before["progress"]]
        )

    def _add_attaching(self, stack, before):
        """Return the stack. If the leader needs services that attach networks, add these services to the stack."""
        feasible = {check["service"]: check["feasible"] for check in before["preflight"] if check["fits"]}
        document, notes = attachments.add_attaching_services(stack.document, Swarm(self._args["name"], before["nodes"], feasible, _former(before)))
        for line in notes:
            self._say(line)
        return stack._replace(document=document)

    def _access(self):
        """Return the logins of the task. If the task has none, nodes may get the manager's logins."""
        logins = registries.logins_of(self._args["registries"])
        return deploy_preconditions.Access(logins, self._args["with_registry_auth"] and not logins)

    def _describe(self, stack, before):
        """Compare the stack file with the deployed stack file. Return the difference without secrets."""
        shown, hidden = stack_yaml.to_display(stack.document)
        former = None if before["kept"] is None else "\n".join(before["kept"])
        deployed = stack_yaml.to_display(load_compose(former, "the deployed stack file"))[0] if former else ""
        if hidden and (self._task.check_mode or self._task.diff):
            self._say(f"hidden below: {', '.join(hidden)}")
        changed = former != stack_yaml.to_yaml(stack.document) or len(before["progress"]) < len(stack.document["services"])
        return {
            "changed": changed,
            "stack_file": shown,
            "hidden": hidden,
            "notes": stack.notes,
            "services": [{key: check[key] for key in ("service", "fits", "possible", "text")} for check in before["preflight"]],
            "diff": {"before_header": "deployed", "after_header": FILE, "before": deployed, "after": shown},
        }

    def _pull(self, stack, specs, options):
        """Let nodes pull the images of services with GPUs. Return the stack with the digests of these images."""
        images = pulling.images(stack.document, self._args["name"])
        if not images:
            return stack
        logins = deploy_preconditions.logins_option(self._access())
        plan = self._read(services=specs, pull_for=images, **options, **logins)["pull_plan"]
        pulling.refuse_unknown({image: self._masked(reason) for image, reason in plan["unknown"].items()})
        pulls = pulling.Pulls(plan, self._args["wait_timeout"] or PULL_S)
        if pulls.remaining:
            self._say(pulls.first_line())
            try:
                self._follow(pulls, logins)
            finally:
                with contextlib.suppress(GpuSwarmError):  # else the next run removes them
                    self._read(pulls=[])
            pulls.refuse_missing()
            # Pulls take minutes, and others may have taken the room meanwhile.
            unplaced = deploy_verdict.placement_errors(self._args["name"], self._read(services=specs, **options), specs, self._args["allow_pending"])
            if unplaced:
                raise ErrorList(unplaced, f"The stack {self._args['name']}", deploy_verdict.NOTHING)
        return stack._replace(document=pulling.with_digests(stack.document, plan["images"]))

    def _follow(self, pulls, logins):
        """Wait until each pull has ended. Print a line for a node whenever its state changes."""

        def query():
            answer = self._read(pulls=pulls.remaining, **logins)
            for line in pulls.follow([{**state, "reason": self._masked(state["reason"])} for state in answer["pulls"]]):
                self._say(line)
            return answer

        query_patiently = tolerate_silence(query, {}, NoManager, lambda text: self._say(f"note: {text}"))
        poll(query_patiently, lambda _answer: pulls.waiting(), math.inf, lambda _text: None)

    def _deploy_ahead(self, document, before):
        """Deploy the services that attach networks, and wait until each of their nodes has a task."""
        name, first = self._args["name"], attachments.attaching_part(document)
        if first is None or not attachments.not_running(self._last, first, name):
            return
        self._deploy(Stack(first, {}, [], {}), before, prune=False)
        answer = poll(self._read, lambda answer: attachments.not_running(answer, first, name), self._args["wait_timeout"] or ATTACHING_S, self._say)
        if unfinished := attachments.not_running(answer, first, name):
            raise GpuSwarmError(attachments.not_attached_error(deploy_verdict.progress_lines(answer), unfinished))

    def _deploy(self, stack, before, **options):
        """Deploy on the manager, and return the answer of the manager. If 'docker stack deploy' fails, a part of the stack may already exist.

        The arguments of the module contain the files. So Ansible writes no file with secrets on the manager if pipelining is on.
        """
        files = {FILE: stack_yaml.to_yaml(stack.document).encode("utf-8"), **stack.files}
        logins = self._access().logins
        if logins:
            files[DOCKER_CONFIG] = registries.docker_config(logins)
        archive = base64.b64encode(zip_file(files)).decode("ascii")
        self._deployed = True
        try:
            return self._read(archive=archive, with_registry_auth=self._args["with_registry_auth"] or bool(logins), **options)
        except NoManager as problem:
            problem.message = f"{problem.message.rstrip('.')}. It is not known whether the stack {self._args['name']} was deployed. Run this again."
            raise
        except GpuSwarmError as problem:
            problem.message = f"{problem.message} {self._left_behind(before)}"
            raise

    def _left_behind(self, before):
        """Describe the objects that a failed deployment created. If the stack is new, remove these objects and nothing else."""
        try:
            after = self._read(compared={})
            new_objects = deploy_verdict.new_objects(before["objects"], after["objects"])
            removed = new_objects if not before["objects"]["services"] else {}
            if removed:
                self._read(remove=_ids(removed))
        except GpuSwarmError as problem:
            return f"It is not known what was created, or it was not removed: {problem.message}"
        return deploy_verdict.describe_leftovers(before, after, new_objects, bool(removed))

    def _wait_until_running(self, before):
        """Wait until all services have run for some seconds with the same tasks. Print a line for a service whenever its state changes."""
        reported: dict[str, str] = {}
        timeout, steadiness = self._args["wait_timeout"], Steadiness(before)

        def unsteady(answer):
            return steadiness.unsteady_services(answer) if timeout else []

        def query():
            answer = without_former_failures(before, self._read())
            for service, line in deploy_verdict.progress_lines(answer, unsteady(answer)).items():
                if reported.get(service) != line:
                    reported[service] = line
                    self._say(f"{service}: {line}")
            return answer

        query_patiently = tolerate_silence(query, without_former_failures(before, self._last), NoManager, lambda text: self._say(f"note: {text}"))
        try:
            answer = poll(
                query_patiently, lambda answer: [*deploy_verdict.unfinished_services(answer), *unsteady(answer)], timeout, lambda _text: None
            )
        except NoManager as problem:
            self._deployed = False  # the caller may try another manager, which only waits
            message = f"{problem.message.rstrip('.')}. The stack {self._args['name']} is deployed, but it is not known whether it runs."
            problem.message = f"{message} Run this again when a manager answers."
            raise
        progress = deploy_verdict.progress_lines(answer, unsteady(answer))
        waiting, failed = deploy_verdict.waiting_and_failed(answer, unsteady(answer))
        summary = printable(conclusion.deployment_sentence(self._args["name"], progress, waiting, failed))
        return {"progress": progress, "waiting": waiting, "not_ready": failed, "summary": summary}

    # -- absent ----------------------------------------------------------------------------------------------------

    def _absent(self):
        before = self._read(compared={})
        names = [service["service"] for service in before["progress"]]
        result = {"changed": bool(names), "services": [{"service": name} for name in names], "waiting": [], "not_ready": []}
        result["diff"] = {"before": "".join(f"{name}\n" for name in names), "after": ""}
        subject = f"stack {self._args['name']}"
        if self._task.check_mode:
            return {**result, "summary": conclusion.removal_check_sentence(subject, len(names))}
        self._deployed = bool(names)
        self._read(remove=_ids(before["objects"]) if names else {})  # {} removes only files that a killed run left
        ending = self._wait_until_ended()["ending"] if names or before["ending"] else []
        services = len(names) or (None if before["ending"] else 0)
        return {**result, "waiting": conclusion.allocations_of(ending), "summary": conclusion.removal_sentence(subject, services, ending)}

    def _wait_until_ended(self):
        """Wait until no resource is allocated to a task of the stack. Containers may still be stopping after the services have been removed."""
        query_patiently = tolerate_silence(self._read, self._last, NoManager, lambda text: self._say(f"note: {text}"))
        try:
            return poll(
                query_patiently, lambda answer: conclusion.allocations_on_ready_nodes(answer["ending"]), self._args["wait_timeout"], self._say
            )
        except NoManager as problem:
            self._deployed = False  # the caller may try another manager, which only waits
            message = f"{problem.message.rstrip('.')}. The stack {self._args['name']} is removed, but it is not known whether its tasks have ended."
            problem.message = f"{message} Run this again when a manager answers."
            raise

    # -- the manager -----------------------------------------------------------------------------------------------

    def _read(self, **options):
        options["stack"] = self._args["name"]
        answer = self._saved.answer(options) if self._saved else self._call("fleet.gpu_swarm.swarm_stack_on_manager", {**self._api, **options})
        if answer.get("incomplete"):
            why = deploy_verdict.deployment_error(str(answer.get("msg")), self._masked)
            raise GpuSwarmError(f"{self._who}: the stack {self._args['name']} could not be completely deployed or removed: {why}")
        if "progress" not in answer:
            raise NoManager(self._masked(reason_of(self._who, answer)))
        for service in answer["progress"]:
            service["failed"] = self._masked(service["failed"] or "")
        self._last = answer
        return answer

    def _call(self, module, arguments, checks=False):
        """Call a module without logging, because the answer contains the environment of services, which may contain secrets."""
        return call_module(self, Call(module, arguments, checks), self._vars, self._who)

    def _say(self, line):
        self._display.display(terminal.fit(f"  {printable(line)}", self._display.columns))


def _former(answer):
    """Return the stack file that was deployed last, or None if the swarm has no copy of a stack file."""
    return None if answer["kept"] is None else load_compose("\n".join(answer["kept"]), "the deployed stack file")


def _ids(objects):
    """Return the IDs of objects by kind. ``objects`` has the names of the objects by kind and ID."""
    return {kind: list(names) for kind, names in objects.items()}


class NoManager(GpuSwarmError):
    """This manager does not answer. Another manager may answer."""
