# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file as a service keeps it that reads the list of nodes every few seconds: the leader writes it, any other manager removes it.

The tasks of a swarm cost its manager far more than its nodes: 12 MB and 0.2 s for 4,000 of them, 60 MB and 1 s for 20,000. So they are read once a
minute, and sooner where a node is in another state, but at the most for a hundredth of the time. The thread is the one that pauses nodes: what
takes long for each pending service is done for as many of them as the file names.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Mapping, Sequence

from .._errors import GpuSwarmError
from .._health.label import parse_label, reported_label
from .._ledger.ledger import ledger
from .._ledger.listed import Listed
from .._ledger.read import allocation_findings_of, labels_of
from .._placement.explain import ALL
from .._swarm.owned_labels import PREFIX
from .._tasks.tasks import epoch
from . import file
from .samples import rendered
from .service_metrics import MOST_SERVICES

EVERY_S = 60.0
AT_LEAST_S = 15.0  # between two readings, whatever changes
SHARE = 0.01  # of the time that may go into reading
AT_MOST_S = 600.0  # however long that takes: a file older than 15 minutes counts no more


class Keeper:
    """The file in one directory; nothing is done where that does not exist. ``say`` prints a line."""

    def __init__(self, directory: str, say: Callable[[str], Any], clock: Callable[[], float] = time.monotonic) -> None:
        """``directory`` is known to be there from the start, or the service ends when it is, to be started anew."""
        self._directory = directory
        self._say = say
        self._clock = clock
        self._read_at: float | None = None
        self._took = 0.0
        self._states: object = None
        self._failure: str | None = None
        self._was_there = os.path.isdir(directory)

    def __call__(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        if not self._directory or not os.path.isdir(self._directory):
            return
        if not self._was_there:
            self._say("%s is there now: starting anew, since systemd made everything else read-only at the start" % self._directory)
            raise SystemExit
        try:
            if not leads:
                self._leave()
            elif self._is_due(nodes):
                self._write(manager, nodes)
                self._failure = None
        except GpuSwarmError as problem:  # the manager's too
            self._fail(problem.message)
        except Exception as problem:  # nodes with faults are paused all the same
            self._fail("the metrics could not be made: %r. Please report that." % problem)

    def _leave(self) -> None:
        self._read_at = self._states = None
        if file.remove(self._directory):
            self._say("this manager does not lead: %s is removed" % file.path_in(self._directory))

    def _is_due(self, nodes: Sequence[Mapping[str, Any]]) -> bool:
        if self._read_at is None:
            return True
        waited = self._clock() - self._read_at
        changed = _states(nodes) != self._states
        return waited >= max(AT_LEAST_S if changed else EVERY_S, min(self._took / SHARE, AT_MOST_S))

    def _write(self, manager: Any, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._read_at, self._states = self._clock(), _states(nodes)
        try:
            spec, now = manager.cluster()
            listed = Listed(nodes, manager.tasks(), manager.services(), epoch(now))
            found = ledger(listed, PREFIX, [ALL], MOST_SERVICES)
            found["allocation_findings"] = allocation_findings_of(spec["Spec"], found["nodes"])
            run = labels_of(spec["Spec"], now, listed)
            file.write(self._directory, rendered(dict(found, swarm=dict(run, id=manager.swarm_id)), epoch(now) or time.time(), file.REACTOR))
        finally:
            self._took = self._clock() - self._read_at

    def _fail(self, words: str) -> None:
        """Each once, as long as it stands."""
        if words != self._failure:
            self._say(words)
        self._failure = words


def _states(nodes: Sequence[Mapping[str, Any]]) -> object:
    """What alerts are about, and changes seldom."""
    return [
        (
            node["ID"],
            node.get("Status", {}).get("State"),
            node.get("Spec", {}).get("Availability"),
            *_fault(node),
        )
        for node in nodes
    ]


def _fault(node: Mapping[str, Any]) -> tuple[object, ...]:
    """Not since when, nor anything that a node that lies or flaps could change with each reading."""
    found = parse_label(reported_label(node))
    return found.state, found.card, found.reason
