# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the metrics file up to date in a service that reads the list of nodes every few seconds.

The leader writes the file. Other managers remove it.

Reading a swarm's tasks costs the manager much more than reading its nodes: 12 MB and 0.2 s for 4,000 tasks, 60 MB and 1 s for 20,000. So this code
reads the tasks once a minute, or sooner if a node's state changes, but for at most a hundredth of the time. Explaining a pending service takes long,
so this code explains only the services that the file names.
Private to this collection; it may change without notice.
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
AT_LEAST_S = 15.0  # shortest time between two readings
SHARE = 0.01  # largest part of the time to spend on reading
AT_MOST_S = 600.0  # longest time between two readings; a file older than 15 minutes counts as outdated


class Keeper:
    """Keeps the file in one directory. Does nothing if the directory does not exist. ``say`` prints a line."""

    def __init__(self, directory: str, say: Callable[[str], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._say = say
        self._clock = clock
        self._read_at: float | None = None
        self._reading_took_s = 0.0
        self._states: object = None
        self._failure: str | None = None

    def __call__(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        if not self._directory or not os.path.isdir(self._directory):
            return
        try:
            if not leads:
                self._remove_file()
            elif self._is_due(nodes):
                self._write(manager, nodes)
                self._failure = None
        except GpuSwarmError as problem:  # this includes errors of the manager
            self._report_failure(problem.message)
        except Exception as problem:  # do not fail, because nodes with faults must still be paused
            self._report_failure("the metrics could not be computed: %r. Please report that." % problem)

    def _remove_file(self) -> None:
        self._read_at = self._states = None
        if file.remove(self._directory):
            self._say("this manager does not lead: %s is removed" % file.path_in(self._directory))

    def _is_due(self, nodes: Sequence[Mapping[str, Any]]) -> bool:
        if self._read_at is None:
            return True
        elapsed = self._clock() - self._read_at
        changed = _states(nodes) != self._states
        return elapsed >= max(AT_LEAST_S if changed else EVERY_S, min(self._reading_took_s / SHARE, AT_MOST_S))

    def _write(self, manager: Any, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._read_at, self._states = self._clock(), _states(nodes)
        try:
            spec, now = manager.cluster()
            listed = Listed(nodes, manager.tasks(), manager.services(), epoch(now))
            result = ledger(listed, PREFIX, [ALL], MOST_SERVICES)
            result["allocation_findings"] = allocation_findings_of(spec["Spec"], result["nodes"])
            swarm = labels_of(spec["Spec"], now, listed)
            file.write(self._directory, rendered(dict(result, swarm=dict(swarm, id=manager.swarm_id)), epoch(now) or time.time(), file.REACTOR))
        finally:
            self._reading_took_s = self._clock() - self._read_at

    def _report_failure(self, message: str) -> None:
        """Report a failure once, and again only if the text changes."""
        if message != self._failure:
            self._say(message)
        self._failure = message


def _states(nodes: Sequence[Mapping[str, Any]]) -> object:
    """Return the states that alerts use. They change rarely."""
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
    """Return the fault without its time, which a lying or flapping node could change with each reading."""
    report = parse_label(reported_label(node))
    return report.state, report.card, report.reason
