# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes this node's health label for the managers, while the service runs and after it has ended.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any, Mapping

from .. import _bounded
from .._dockerd.engine import Engine
from .._errors import GpuSwarmError
from .._health import pace
from .._health.label import UNWATCHED, Label, format_label, parse_label
from .._health.verdict import LOST
from .._node import card_metrics_file
from .._node.channel import Channel, shown_label
from .._node.fault import advertised_on_record
from .._node.journal import State
from .._node.watcher_state import ALL

# A run that changes this node holds its lock for as long as dockerd takes to start.
LOCK_S = 10


def write(home: str, settings: Mapping[str, Any], label: str, lock_s: float = LOCK_S) -> dict[str, Any]:
    """Write the label. Return {blocked, waits}: why the label cannot be written now, and why it has to wait. Both are None after a write."""
    state = State(os.path.dirname(home), _move)
    engine = Engine(settings["docker_socket"], settings["docker_unit"], _bounded.run)
    try:
        with state.lock(lock_s):
            if _is_over(state, settings, parse_label(label)):
                return {"waits": None, "blocked": "the node advertises another card by now"}
            label = _with_model(engine, label)
            waits = _waits(engine, settings, label)
            blocked = None if waits else _read_only(settings["daemon_config"]) or Channel(settings, engine, state, _move).write(label)
            return {"waits": waits, "blocked": blocked}
    except (GpuSwarmError, OSError) as problem:
        return {"waits": None, "blocked": str(problem)}


def _with_model(engine: Engine, label: str) -> str:
    """Return the label with the model of the cards, which does not change when the service ends."""
    parsed = parse_label(label)
    shown = shown_label(engine.inspect() or {}) if parsed.state == UNWATCHED else None
    return format_label(parsed._replace(model=parse_label(shown).model)) if shown else label


def _is_over(state: State, settings: Mapping[str, Any], label: Label) -> bool:
    """Return whether the label reports a lost card that the node no longer advertises, because a run has changed the node meanwhile."""
    return label.reason == LOST and label.card not in advertised_on_record(state.record(), settings["daemon_config"])


def _waits(engine: Engine, settings: Mapping[str, Any], label: str) -> str | None:
    """Return why the label has to wait, or None. Some leaders may stop a task at any update of the node. The label of a new fault never waits."""
    inspected = engine.inspect()
    if settings.get("health_report") == ALL or not inspected or not inspected["running"]:
        return None
    shown = shown_label(inspected)
    if pace.is_urgent(parse_label(shown) if shown else None, parse_label(label)):
        return None
    tasks = sorted({item["service"] for item in engine.containers() if item["service"]})
    return "tasks run here (%s), and the swarm's leader may stop one of them for it" % ", ".join(tasks[:5]) if tasks else None


def _read_only(path: str) -> str | None:
    """Return why this service may not replace this file, or None. The service may only write into the directories that its unit named when systemd
    read the unit."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.access(folder, os.W_OK) or not os.path.isdir(folder):
        return None
    return (
        "%s is read-only for gpu-swarm-health. Restart that service. If that does not help, its unit has changed since systemd read it: run "
        "'systemctl daemon-reload' and restart the service in a maintenance window, or reboot" % folder
    )


def stopped(home: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Report that no watcher reads the GPUs any more, so that managers do not rely on the last label. Runs after the service has stopped.
    Remove the metrics of the cards, which would look current.

    Write no label at a shutdown, because dockerd ends too. Write nothing while a run holds the node's lock. Keep the errors that the driver logged,
    because maintenance windows and updates stop the service too.
    """
    card_metrics_file.remove(settings.get("textfile"))
    if _bounded.run(["systemctl", "is-system-running"])[1].strip() == "stopping":
        return {}
    return write(home, settings, format_label(Label(UNWATCHED)), lock_s=0)


def _move(source: str, target: str) -> None:
    """Replace a file and keep its mode, its owner and its SELinux context, if the file has a context."""
    status = os.stat(target)
    shutil.copystat(target, source)
    os.chown(source, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(source, "security.selinux", os.getxattr(target, "security.selinux"))
    os.rename(source, target)
