# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds GPUs that a new leader counts wrongly, before a task gets such a GPU. Writes these GPUs to the swarm's isolation label.

A new leader, or a leader whose dockerd was restarted, only counts how many GPUs the tasks of a node have. Then the leader marks that many GPUs from
the front of the node's list as allocated (swarmkit manager/scheduler/nodeinfo.go). So the leader may allocate a GPU to a second task until these
tasks end. With ``exclusive``, the guard refuses a task that gets such a GPU.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Mapping, Sequence

from .._isolation_levels import OFF
from .._ledger import claims
from .._printable import printable
from .._swarm import isolation
from .._swarm.manager import SwarmError, until_written

PID = "/run/docker.pid"  # the time is the start of dockerd
MOST_TASKS, MOST_VALUES, LONGEST = 100, 16, 80  # limits for the label: tasks, names per task, characters per name
EVERY_S = 60.0  # check again after this time, because somebody may have changed the level


class LeaderClaims:
    """Called in each round. ``say`` prints a line."""

    def __init__(self, say: Callable[[str], Any], clock: Callable[[], float] = time.monotonic, pid: str = PID) -> None:
        self._say = say
        self._clock = clock
        self._pid = pid
        self._noted_leader: str | None = None  # the leader in the label that this process last read or wrote
        self._noted_at = 0.0
        self._failure: str | None = None

    def __call__(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        leader = "%s/%d" % (manager.node_id, self._dockerd_started()) if leads else None
        now = self._clock()
        if leader is None or (leader == self._noted_leader and now - self._noted_at < EVERY_S):
            self._noted_leader = leader and self._noted_leader
            return
        try:
            for line in until_written(lambda: self._note(manager, nodes, str(leader))):
                self._say(line)
            self._noted_leader, self._noted_at, self._failure = leader, now, None
        except SwarmError as problem:
            self._report_failure(problem.message)
        except Exception as problem:  # do not fail, because nodes with faults must still be paused
            self._report_failure("%r. Please report that." % problem)

    def _report_failure(self, reason: str) -> None:
        """Print a failure once, and again only if the text changes. The next round tries again."""
        if reason != self._failure:
            self._say("the GPUs that this leader counts wrongly could not be noted: %s" % reason)
        self._failure = reason

    def _dockerd_started(self) -> int:
        """Return when dockerd was started; 0 if the time is unknown."""
        try:
            return os.stat(self._pid).st_mtime_ns
        except OSError:
            return 0

    def _note(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leader: str) -> list[str]:
        cluster, _clock = manager.cluster()
        before = isolation.read(cluster["Spec"])
        if before.level in (OFF, isolation.UNKNOWN) or before.leader == leader:
            return []
        counted_as_free = claims.allocatable_again(nodes, manager.tasks())
        # A node may advertise names of any length.
        again = {task: tuple(value[:LONGEST] for value in values[:MOST_VALUES]) for task, values in list(counted_as_free.items())[:MOST_TASKS]}
        after = before._replace(leader=leader, again=again)
        manager.update_cluster(cluster["Version"]["Index"], isolation.write(cluster["Spec"], after))
        return [printable("this leader may allocate %s again, although task %s has it" % (", ".join(values), task)) for task, values in again.items()]
