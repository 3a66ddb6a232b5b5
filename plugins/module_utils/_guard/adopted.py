# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes holds for tasks that started before the guard was installed. Without these holds, other tasks would get the same GPUs.

A run calls this code when it installs the guard or changes its level. The guard itself does not use it.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterator, Mapping, NamedTuple

from . import admission, engine_record, holds, toolkit_config
from .bolt import BoltError
from .holds import Hold
from .task_record import RecordError


class _Running(NamedTuple):
    """A running container of a task."""

    container: str
    labels: Mapping[str, str]
    pid: int
    started: int


def adopt(raw_settings: Mapping[str, Any], folder: str) -> list[str]:
    """Write a hold for each task. ``raw_settings`` are the guard's settings, ``folder`` is the directory of holds.

    Return the containers whose task cannot be read. Raises OSError or ValueError.
    """
    with open(raw_settings["runtime_config"], encoding="utf-8", errors="replace") as stream:
        settings = admission.from_json(raw_settings, toolkit_config.listed_variables(stream.read()))
    adopted_holds, unreadable = [], []
    for container in _running_containers(raw_settings["data_root"]):
        try:
            hold = _hold(settings, raw_settings["data_root"], container)
        except (BoltError, RecordError, OSError):
            unreadable.append(container.container)
            continue
        if hold:
            adopted_holds.append(hold)
    if adopted_holds:
        holds.adopt(folder, adopted_holds)
    return unreadable


def _running_containers(data_root: str) -> Iterator[_Running]:
    folder = os.path.join(data_root, "containers")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        try:
            with open(os.path.join(folder, name, "config.v2.json"), encoding="utf-8", errors="replace") as stream:
                config = json.load(stream)
            state, labels = config["State"], config["Config"]["Labels"] or {}
            pid = int(state["Pid"]) if state["Running"] is True and admission.TASK in labels else 0
        except (OSError, ValueError, KeyError, TypeError):  # the container is being created or removed
            continue
        started = holds.started(pid) if pid and _is_in_container(pid, name) else None
        if started is not None:
            yield _Running(name, {str(key): str(value) for key, value in labels.items()}, pid, started)


def _is_in_container(pid: int, container: str) -> bool:
    """Return whether the process is in this container. The process id may belong to another process by now."""
    try:
        with open("/proc/%d/cgroup" % pid, encoding="ascii", errors="replace") as stream:
            return container in stream.read()
    except OSError:
        return False


def _hold(settings: admission.Settings, data_root: str, running: _Running) -> Hold | None:
    """Return the hold of a running container. The hold names the container's first process, because this code does not know the directory of runc's
    or crun's state."""
    task = engine_record.task(data_root, running.labels[admission.TASK])
    devices = admission.reserved_names(settings, admission.Container(running.labels, (), (), task)) if task else ()
    if not devices:
        return None
    return Hold(running.container, admission.service_name(running.labels), running.labels[admission.TASK], devices, running.pid, running.started, "")
