# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Has the swarm's managers see a label of this node; what is left to see when the service ends.

Private to this collection: no stability is promised to others.
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
from .._node.channel import Channel, shown
from .._node.fault import expected
from .._node.journal import State
from .._node.watcher_seen import ALL

# Whoever changes this node has its lock for as long as dockerd takes to start.
LOCK_S = 10


def write(home: str, settings: Mapping[str, Any], label: str, lock_s: float = LOCK_S) -> dict[str, Any]:
    """``blocked``, the reason why it cannot be written now, or ``waits``, what it waits for; else None."""
    state = State(os.path.dirname(home), _move)
    engine = Engine(settings["docker_socket"], settings["docker_unit"], _bounded.run)
    try:
        with state.lock(lock_s):
            if _is_over(state, settings, parse_label(label)):
                return {"waits": None, "blocked": "the node advertises another card by now"}
            label = _with_model(engine, label)
            waits = _waits(engine, settings, label)
            return {"waits": waits, "blocked": None if waits else Channel(settings, engine, state, _move).write(label)}
    except (GpuSwarmError, OSError) as problem:
        return {"waits": None, "blocked": str(problem)}


def _with_model(engine: Engine, label: str) -> str:
    """The cards are of the same model when the service has ended."""
    found = parse_label(label)
    there = shown(engine.inspect() or {}) if found.state == UNWATCHED else None
    return format_label(found._replace(model=parse_label(there).model)) if there else label


def _is_over(state: State, settings: Mapping[str, Any], label: Label) -> bool:
    """Whether a card is to be reported as lost that a run, which had the lock since it was judged, advertises no more."""
    return label.reason == LOST and label.card not in expected(state.record(), settings["daemon_config"])


def _waits(engine: Engine, settings: Mapping[str, Any], label: str) -> str | None:
    """What it has to wait for under a leader that may stop a task at any update of the node. A fault that is new waits for nothing."""
    now = engine.inspect()
    if settings.get("health_report") == ALL or not now or not now["running"]:
        return None
    there = shown(now)
    if pace.is_urgent(parse_label(there) if there else None, parse_label(label)):
        return None
    tasks = sorted({item["service"] for item in engine.containers() if item["service"]})
    return "tasks run here (%s), and the swarm's leader may stop one of them for it" % ", ".join(tasks[:5]) if tasks else None


def stopped(home: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """After the service: nobody is to take the last thing that it said for what is so now.

    A run that changes the node has its lock and knows what it does; at a shutdown dockerd ends too. The errors that the driver logged stay: the
    service is stopped by windows and by updates that have to do with no card.
    """
    if _bounded.run(["systemctl", "is-system-running"])[1].strip() == "stopping":
        return {}
    return write(home, settings, format_label(Label(UNWATCHED)), lock_s=0)


def _move(source: str, target: str) -> None:
    """Replaces a file, with the mode and owner that it has, and its security context where there are any."""
    status = os.stat(target)
    shutil.copystat(target, source)
    os.chown(source, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError, AttributeError):
        os.setxattr(source, "security.selinux", os.getxattr(target, "security.selinux"))
    os.rename(source, target)
