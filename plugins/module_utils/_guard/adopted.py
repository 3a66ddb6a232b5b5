# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes holds for tasks that started before the guard was installed. Without them, other tasks would get the same GPUs.

It is written when the guard is installed or set to another level, and is no part of what is kept on a node.
Private to this collection: no stability is promised to others.
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


def adopt(read: Mapping[str, Any], folder: str) -> list[str]:
    """Write a hold for each task. ``read`` are the guard's settings, ``folder`` is the directory of holds.

    Returns the containers whose task cannot be read. Raises OSError or ValueError.
    """
    with open(read["runtime_config"], encoding="utf-8", errors="replace") as stream:
        settings = admission.from_json(read, toolkit_config.listed(stream.read()))
    found, unread = [], []
    for one in _running(read["data_root"]):
        try:
            hold = _hold(settings, read["data_root"], one)
        except (BoltError, RecordError, OSError):
            unread.append(one.container)
            continue
        if hold:
            found.append(hold)
    if found:
        holds.adopt(folder, found)
    return unread


def _running(data_root: str) -> Iterator[_Running]:
    folder = os.path.join(data_root, "containers")
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        try:
            with open(os.path.join(folder, name, "config.v2.json"), encoding="utf-8", errors="replace") as stream:
                one = json.load(stream)
            state, labels = one["State"], one["Config"]["Labels"] or {}
            pid = int(state["Pid"]) if state["Running"] is True and admission.TASK in labels else 0
        except (OSError, ValueError, KeyError, TypeError):  # it is being created or removed
            continue
        began = holds.started(pid) if pid and _is_of(pid, name) else None
        if began is not None:
            yield _Running(name, {str(key): str(value) for key, value in labels.items()}, pid, began)


def _is_of(pid: int, container: str) -> bool:
    """Return whether the process is in this container. Another process may have its id now."""
    try:
        with open("/proc/%d/cgroup" % pid, encoding="ascii", errors="replace") as stream:
            return container in stream.read()
    except OSError:
        return False


def _hold(settings: admission.Settings, data_root: str, one: _Running) -> Hold | None:
    """Return the hold of a running container, identified by its first process: only the guard's own calls know where runc or crun keep its state."""
    task = engine_record.task(data_root, one.labels[admission.TASK])
    devices = admission.held(settings, admission.Container(one.labels, (), (), task)) if task else ()
    if not devices:
        return None
    return Hold(one.container, admission.service_of(one.labels), one.labels[admission.TASK], devices, one.pid, one.started, "")
