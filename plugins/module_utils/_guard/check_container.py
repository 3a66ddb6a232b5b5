# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard. It runs before NVIDIA's runtime creates a container that requests a GPU, and exits with GOES_ON if the container may start.

The front (front.py) starts it, passes the runtime's own arguments, and refuses whenever this ends in any other way.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import sys
from collections import namedtuple

from .._isolation_levels import EXCLUSIVE, OFF
from .._replace import replace_json
from . import admission, bundle, call, engine_record, finding_counts, holds, refusal
from .admission import Container
from .bolt import BoltError
from .call import Call
from .task_record import RecordError

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Any

SETTINGS = "settings.json"
RUN = "/run/gpu-swarm-guard"  # not /run/gpu-swarm, which is removed with the watcher
PATIENCE_S = 5.0


class Refused(Exception):
    """The container may not start. ``code`` names the reason."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Ruled(Refused):
    """Refused by the rules, not because of a failure. Counts with ``audit`` too, because only the guard gives tasks with slots their GPUs."""


# data_root: dockerd's directory. run: the guard's directory for files that a reboot may remove. patience_s: how long to wait for a stopping task.
Given = namedtuple("Given", ["settings", "data_root", "run", "patience_s"])


def main() -> int:
    """Run the guard and return its exit code."""
    home, made = sys.argv[1], call.parse(sys.argv[2:])
    read: dict[str, Any] = {}
    try:
        read = _settings(home)
        _guard(made, _given(read))
    except Exception as problem:  # after any error, a container that requests a GPU does not start
        if read.get("level") in admission.LENIENT and not isinstance(problem, Ruled):
            if read["level"] != OFF:
                finding_counts.add(read.get("run", RUN), "", {refusal.BROKEN: str(problem)})
            return call.GOES_ON
        if isinstance(problem, Refused):
            call.refuse(made, refusal.written(problem.code, str(problem)))
            return call.REFUSED
        call.refuse(made, refusal.written(refusal.BROKEN, refusal.failed(problem, os.path.join(home, call.PASS_THROUGH))))
        return call.BROKEN
    return call.GOES_ON


def _settings(home: str) -> dict[str, Any]:
    with open(os.path.join(home, SETTINGS), encoding="utf-8") as stream:
        return dict(json.load(stream))


def _given(read: dict[str, Any]) -> Given:
    with open(read["runtime_config"], encoding="utf-8", errors="replace", newline="") as stream:
        listed = _listed(stream.read(), read)
    return Given(admission.from_json(read, listed), read["data_root"], read.get("run", RUN), read.get("patience_s", PATIENCE_S))


def _listed(config: str, read: dict[str, Any]) -> tuple[str, ...]:
    """Return the variables in config.toml that the settings do not have already."""
    if config == read.get("config"):  # unchanged since the last run, which put its variables into the settings
        return ()
    from . import toolkit_config  # not on top: it would take a fifteenth of the time that all of this takes

    return toolkit_config.listed(config)


def _guard(made: Call, given: Given) -> None:
    path, settings = os.path.join(made.bundle, "config.json"), given.settings
    document = _document(path)
    labels, root = _labels(given.data_root, document, made.container)
    if made.what == call.RESTORE:
        if settings.level == EXCLUSIVE and admission.TASK in labels:
            raise Refused(refusal.RESTORED, refusal.of_checkpoint(made.container))
        return
    container = _container(document, labels, root)
    verdict = admission.decide(settings, container)
    service = admission.service_of(labels)
    if verdict.found and not (verdict.refused and service.startswith(admission.PROBE + "-")):
        finding_counts.add(given.run, service, verdict.found)
    if verdict.refused:
        raise Ruled(verdict.code, refusal.of_service(service, settings.level, verdict.refused, made.container))
    if verdict.holds:
        _hold(made, given, labels, root, verdict.holds)
    if verdict.devices is not None:
        entries = bundle.rewritten(container.entries, settings.listed, verdict.devices, verdict.without)
        entries = bundle.with_values(entries, verdict.variables)
        if entries != container.entries:
            replace_json(path, bundle.with_environment(document, entries), os.lstat(path).st_mode & 0o777)


def _document(path: str) -> dict[str, Any]:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(handle, encoding="utf-8") as stream:
        return json.load(stream)


def _labels(data_root: str, document: dict[str, Any], container: str) -> tuple[dict[str, str], str]:
    """Return the container's labels, and the directory where dockerd keeps them."""
    problem: Exception | None = None
    for root in engine_record.data_roots(data_root, document, container):
        try:
            return engine_record.labels(root, container), root
        except engine_record.EngineRecordError as error:
            problem = problem or error
    raise Refused(refusal.NO_RECORD, refusal.without_record(problem))


def _container(document: dict[str, Any], labels: dict[str, str], root: str) -> Container:
    task, unread = None, None
    if admission.TASK in labels:
        try:
            task = engine_record.task(root, labels[admission.TASK])
        except (BoltError, RecordError, OSError) as problem:
            unread = str(problem)
    return Container(labels, bundle.environment(document), bundle.device_mounts(document), task, unread)


def _stays(root: str, name: str) -> bool:
    """Return whether swarm wants the task to keep running, by the agent's record."""
    try:
        record = engine_record.task(root, name)
    except (BoltError, RecordError, OSError):
        return False
    return bool(record and record.stays)


def _hold(made: Call, given: Given, labels: dict[str, str], root: str, devices: tuple[str, ...]) -> None:
    service, front, folder = admission.service_of(labels), os.getppid(), os.path.join(given.run, "holds")
    mine = holds.Hold(made.container, service, labels[admission.TASK], devices, front, holds.started(front) or 0, made.root)
    refuses = given.settings.level == EXCLUSIVE
    try:
        holder = holds.claim(folder, mine, given.patience_s, lambda one: _stays(root, one.task)) if refuses else holds.share(folder, mine)
    except OSError as problem:  # for example if /run is full. Devices that are held twice are then not counted
        if refuses:
            raise
        finding_counts.add(given.run, service, {refusal.BROKEN: "%s: %s" % (problem.filename or folder, problem.strerror)})
        return
    if holder:
        finding_counts.add(given.run, service, {refusal.TWICE: _held(holder, devices)})
    if holder and refuses:
        raise Ruled(refusal.TWICE, refusal.of_service(service, given.settings.level, _held(holder, devices), made.container))


def _held(holder: holds.Hold, devices: tuple[str, ...]) -> str:
    both = [one for one in devices if one in holder.devices]
    return "task %s of the service %s (container %s) still has %s." % (holder.task, holder.service, holder.container[:12], ", ".join(both))
