# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard runs before NVIDIA's runtime creates a container that requests a GPU. It exits with MAY_START if the container may start.

The front (front.py) starts the guard with the runtime's own arguments. On any other exit code, the front refuses the container.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import namedtuple

from .._isolation_levels import EXCLUSIVE, OFF
from .._replace import replace_json
from . import admission, bundle, call, engine_record, finding_counts, holds, refusal
from .admission import Container
from .bolt import BoltError
from .call import Call
from .task_record import RecordError

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any

SETTINGS = "settings.json"
RUN = "/run/gpu-swarm-guard"  # not /run/gpu-swarm, because that directory is removed with the watcher
PATIENCE_S = 5.0


class Refused(Exception):
    """The container must not start. ``code`` names the reason."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class RefusedByRules(Refused):
    """The rules refuse the container; nothing has failed. The container is refused at ``audit`` too, because only the guard gives tasks with slots
    their GPUs."""


# data_root: dockerd's directory. run: the guard's directory for files that a reboot may remove. patience_s: how long to wait for a task that is
# stopping (seconds). offered: {name: globs} of the devices that the node offers by name, not checked yet.
NodeSettings = namedtuple("NodeSettings", ["settings", "data_root", "run", "patience_s", "offered"])


def main() -> int:
    """Run the guard and return its exit code."""
    home, runtime_call = sys.argv[1], call.parse(sys.argv[2:])
    settings: dict[str, Any] = {}
    try:
        settings = _read_settings(home)
        _check(runtime_call, _node_settings(settings))
    except Exception as problem:  # after any error, a container that requests a GPU or another device does not start
        if settings.get("level") in admission.LENIENT and not isinstance(problem, RefusedByRules):
            if settings["level"] != OFF:
                finding_counts.add(settings.get("run", RUN), "", {refusal.BROKEN: str(problem)})
            if not _seems_to_ask(runtime_call):
                return call.MAY_START
        if isinstance(problem, Refused):
            call.refuse(runtime_call, refusal.with_code(problem.code, str(problem)))
            return call.REFUSED
        call.refuse(runtime_call, refusal.with_code(refusal.BROKEN, refusal.failure_message(problem, os.path.join(home, call.PASS_THROUGH))))
        return call.BROKEN
    return call.MAY_START


def _read_settings(home: str) -> dict[str, Any]:
    with open(os.path.join(home, SETTINGS), encoding="utf-8") as stream:
        return dict(json.load(stream))


def _node_settings(raw: dict[str, Any]) -> NodeSettings:
    with open(raw["runtime_config"], encoding="utf-8", errors="replace", newline="") as stream:
        variables = _changed_variables(stream.read(), raw)
    settings, run, patience_s = admission.from_json(raw, variables), raw.get("run", RUN), raw.get("patience_s", PATIENCE_S)
    return NodeSettings(settings, raw["data_root"], run, patience_s, raw.get("offered", {}))


def _changed_variables(config: str, settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the variables that config.toml names, if the file has changed since the last run. If not, the settings contain these variables."""
    if config == settings.get("config"):
        return ()
    from . import toolkit_config  # imported here, because the import takes a fifteenth of the guard's run time

    return toolkit_config.listed_variables(config)


def _check(runtime_call: Call, node: NodeSettings) -> None:
    path, settings = os.path.join(runtime_call.bundle, "config.json"), node.settings
    document = _read_document(path)
    labels, root = _read_labels(node.data_root, document, runtime_call.container)
    if runtime_call.action == call.RESTORE:
        if settings.level == EXCLUSIVE and admission.TASK in labels:
            raise Refused(refusal.RESTORED, refusal.checkpoint_message(runtime_call.container))
        return
    container = _read_container(document, labels, root)
    verdict = admission.decide(settings, container)
    service = admission.service_name(labels)
    if verdict.found and not (verdict.refused and service.startswith(admission.PROBE + "-")):
        finding_counts.add(node.run, service, verdict.found)
    if verdict.refused:
        raise RefusedByRules(verdict.code, refusal.rules_message(service, settings.level, verdict.refused, runtime_call.container))
    changed = _with_named_devices(runtime_call, node, document, container, root)
    if verdict.holds:
        _hold(runtime_call, node, labels, root, verdict.holds)
    if verdict.devices is not None:
        entries = bundle.with_devices(container.entries, settings.listed, verdict.devices, verdict.without)
        entries = bundle.with_values(entries, verdict.variables)
        if entries != container.entries:
            changed = bundle.with_environment(changed, entries)
    if changed is not document:
        replace_json(path, changed, os.lstat(path).st_mode & 0o777)


def _with_named_devices(runtime_call: Call, node: NodeSettings, document: dict[str, Any], container: Container, root: str) -> dict[str, Any]:
    """Return the document with the devices that the service asks for by name; the same document if it asks for none. Raises RefusedByRules.

    Only the record of swarm's agent says what a service asks for. An image may set the same variable, so the container's variables only say that
    this record must be read. If the record cannot be read, nobody knows whether the service asks, so the container does not start. Without a record,
    the task has ended: somebody starts its container by hand, and gets no device. The same holds for a container of 'docker run' with a task's label.
    """
    if admission.TASK not in container.labels or not any(bundle.name_of(entry) == bundle.OFFERED for entry in container.entries):
        return document
    if engine_record.is_by_hand(root, runtime_call.container):
        return document
    from . import offered  # imported here, because few containers ask for devices

    if container.unread:
        answer = offered.unreadable(container.unread) if offered.requested(container.entries) else offered.NOTHING
    else:
        answer = offered.resolve(offered.requested(container.task.environment if container.task else ()), node.offered, document)
    if answer.code:
        # Not counted: a level would neither cause nor prevent it.
        service = admission.service_name(container.labels)
        raise RefusedByRules(answer.code, refusal.rules_message(service, node.settings.level, answer.reason, runtime_call.container))
    return offered.with_devices(document, answer.devices) if answer.devices else document


def _seems_to_ask(runtime_call: Call) -> bool:
    """Return whether the container has the variable for devices by name. Its service or its image has set the variable."""
    try:
        with open(os.path.join(runtime_call.bundle, "config.json"), "rb") as stream:
            return re.search(b'"%s=[^"]' % bundle.OFFERED.encode("ascii"), stream.read()) is not None
    except OSError:
        return False


def _read_document(path: str) -> dict[str, Any]:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(handle, encoding="utf-8") as stream:
        return json.load(stream)


def _read_labels(data_root: str, document: dict[str, Any], container: str) -> tuple[dict[str, str], str]:
    """Return the container's labels, and the directory where dockerd keeps the labels."""
    problem: Exception | None = None
    for root in engine_record.data_roots(data_root, document, container):
        try:
            return engine_record.labels(root, container), root
        except engine_record.EngineRecordError as error:
            problem = problem or error
    raise Refused(refusal.NO_RECORD, refusal.no_record_message(problem))


def _read_container(document: dict[str, Any], labels: dict[str, str], root: str) -> Container:
    task, problem_text = None, None
    if admission.TASK in labels:
        try:
            task = engine_record.task(root, labels[admission.TASK])
        except (BoltError, RecordError, OSError) as problem:
            problem_text = str(problem)
    return Container(labels, bundle.environment(document), bundle.device_mounts(document), task, problem_text)


def _keeps_running(root: str, name: str) -> bool:
    """Return whether the record of swarm's agent says that the task should keep running."""
    try:
        record = engine_record.task(root, name)
    except (BoltError, RecordError, OSError):
        return False
    return bool(record and record.keeps_running)


def _hold(request: Call, node: NodeSettings, labels: dict[str, str], root: str, devices: tuple[str, ...]) -> None:
    service, front, folder = admission.service_name(labels), os.getppid(), os.path.join(node.run, "holds")
    own_hold = holds.Hold(request.container, service, labels[admission.TASK], devices, front, holds.started(front) or 0, request.root)
    refuses = node.settings.level == EXCLUSIVE
    try:
        if refuses:
            holder = holds.claim(folder, own_hold, node.patience_s, lambda hold: _keeps_running(root, hold.task))
        else:
            holder = holds.share(folder, own_hold)
    except OSError as problem:  # for example if /run is full. In this case, the guard does not report devices that two containers hold
        if refuses:
            raise
        finding_counts.add(node.run, service, {refusal.BROKEN: "%s: %s" % (problem.filename or folder, problem.strerror)})
        return
    if holder:
        finding_counts.add(node.run, service, {refusal.TWICE: _describe_holder(holder, devices)})
    if holder and refuses:
        text = refusal.rules_message(service, node.settings.level, _describe_holder(holder, devices), request.container)
        raise RefusedByRules(refusal.TWICE, text)


def _describe_holder(holder: holds.Hold, devices: tuple[str, ...]) -> str:
    conflicting = [device for device in devices if device in holder.devices]
    return "task %s of the service %s (container %s) still has %s." % (holder.task, holder.service, holder.container[:12], ", ".join(conflicting))
