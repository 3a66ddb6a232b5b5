# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a leader that began anew counts wrong, found before a task meets it, and noted in the swarm's label of its isolation.

A new leader, or one whose dockerd was restarted, counts the tasks that run by how many GPUs they have, from the front of each node's list, and not
by which (swarmkit manager/scheduler/nodeinfo.go). Nothing corrects that but the end of these tasks; with ``exclusive`` a task is refused which is
given such a GPU.
Private to this collection: no stability is promised to others.
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

PID = "/run/docker.pid"  # as old as the dockerd that wrote it
MOST_TASKS, MOST_VALUES, LONGEST = 100, 16, 80  # of what is kept in the label
EVERY_S = 60.0  # also where nothing has changed: the level may have


class LeaderClaims:
    """Called once a poll. ``say`` prints a line."""

    def __init__(self, say: Callable[[str], Any], clock: Callable[[], float] = time.monotonic, pid: str = PID) -> None:
        self._say = say
        self._clock = clock
        self._pid = pid
        self._known: str | None = None  # which leader noted last, as far as this process knows
        self._read_at = 0.0
        self._failure: str | None = None

    def __call__(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        leader = "%s/%d" % (manager.node_id, self._began()) if leads else None
        now = self._clock()
        if leader is None or (leader == self._known and now - self._read_at < EVERY_S):
            self._known = leader and self._known
            return
        try:
            for words in until_written(lambda: self._note(manager, nodes, str(leader))):
                self._say(words)
            self._known, self._read_at, self._failure = leader, now, None
        except SwarmError as problem:
            self._fail(problem.message)
        except Exception as problem:  # nodes with faults are paused all the same
            self._fail("%r. Please report that." % problem)

    def _fail(self, words: str) -> None:
        """Return each once, as long as it stands; the next poll tries it again."""
        if words != self._failure:
            self._say("what this leader counts wrong could not be noted: %s" % words)
        self._failure = words

    def _began(self) -> int:
        """When dockerd was started, as far as that is known."""
        try:
            return os.stat(self._pid).st_mtime_ns
        except OSError:
            return 0

    def _note(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leader: str) -> list[str]:
        cluster, _clock = manager.cluster()
        before = isolation.read(cluster["Spec"])
        if before.level in (OFF, isolation.UNKNOWN) or before.leader == leader:
            return []
        wrong = claims.allocatable_again(nodes, manager.tasks())
        # A node may advertise names of any length.
        again = {task: tuple(value[:LONGEST] for value in values[:MOST_VALUES]) for task, values in list(wrong.items())[:MOST_TASKS]}
        after = before._replace(leader=leader, again=again)
        manager.update_cluster(cluster["Version"]["Index"], isolation.write(cluster["Spec"], after))
        return [printable("this leader may allocate %s again, which task %s has" % (", ".join(values), task)) for task, values in again.items()]
