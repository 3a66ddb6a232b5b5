# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the swarm from time to time in the service on a manager, and passes each reading to the observers: metrics, record and page.

Reading a swarm's tasks costs the manager much more than reading its nodes: 12 MB and 0.2 s for 4,000 tasks, 60 MB and 1 s for 20,000. So the leader
reads the tasks once a minute, or sooner if a node's state changes. The other managers read every ten minutes, or a minute after a reading that
failed. Reading and observing take at most a hundredth of the time.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._health.label import parse_label, reported_label
from .._ledger.ledger import without_garbage_collection
from .._ledger.listed import Listed
from .._ledger.reading import Reading, read
from .._queue.read_queue import queue_in

EVERY_S = 60.0  # on the leader
AT_LEAST_S = 15.0  # shortest time between two readings
SHARE = 0.01  # largest part of the time to spend on readings
AT_MOST_S = 600.0  # longest time between two readings, and the time on other managers. A metrics file older than 15 minutes counts as outdated
_READING, _QUEUES = "the reading of the swarm", "the view of the queues"


class Observer(NamedTuple):
    """``name`` says in messages what fails. ``observe`` returns lines for the journal. ``is_needed(leads)``: whether it needs readings now."""

    name: str
    observe: Callable[[Reading], Sequence[str]]
    is_needed: Callable[[bool], bool] = lambda dummy_leads: True


class Readings:
    """Called in each round. An observer that fails does not stop the others. ``say`` prints a line."""

    def __init__(self, observers: Sequence[Observer], say: Callable[[str], Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._observers = observers
        self._say = say
        self._clock = clock
        self._read_at: float | None = None
        self._took_s = 0.0
        self._led = False
        self._failed = False  # whether the last reading failed
        self._states: object = None
        self._said: dict[str, Sequence[str]] = {}  # what each observer reported last

    def __call__(self, manager: Any, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        needing = [observer for observer in self._observers if observer.is_needed(leads)]
        if not needing or not self._is_due(nodes, leads):
            return
        self._read_at, self._led = self._clock(), leads
        try:
            with without_garbage_collection():
                self._read_and_observe(needing, manager, nodes, leads)
        finally:
            self._took_s = self._clock() - self._read_at

    def _is_due(self, nodes: Sequence[Mapping[str, Any]], leads: bool) -> bool:
        if self._read_at is None:
            return True
        return self._clock() - self._read_at >= max(self._interval_s(nodes, leads), min(self._took_s / SHARE, AT_MOST_S))

    def _interval_s(self, nodes: Sequence[Mapping[str, Any]], leads: bool) -> float:
        if leads != self._led or (leads and _states(nodes) != self._states):
            return AT_LEAST_S
        return EVERY_S if leads or self._failed else AT_MOST_S

    def _read_and_observe(self, observers: Sequence[Observer], manager: Any, nodes: Sequence[Mapping[str, Any]], leads: bool) -> None:
        self._states, self._failed = _states(nodes), True
        try:
            reading = read(manager, nodes, leads)
        except Exception as problem:  # do not fail, because jobs must still be removed
            self._report(_READING, [_message(_READING, problem)])
            return
        self._failed = False
        self._report(_READING, [])
        reading = self._with_queue(reading)
        for observer in observers:
            try:
                lines = observer.observe(reading)
            except Exception as problem:  # do not fail, because the other observers must continue
                lines = [_message(observer.name, problem)]
            self._report(observer.name, lines)

    def _with_queue(self, reading: Reading) -> Reading:
        """Return the reading with the view of the queues in its ledger. It is computed once for all observers."""
        queue, lines = None, []
        try:
            queue = queue_in(Listed(reading.nodes, reading.tasks, reading.services, reading.at), reading.spec, reading.at)
        except Exception as problem:  # do not fail, because the observers show more than queues
            lines = [_message(_QUEUES, problem)]
        self._report(_QUEUES, lines)
        return reading._replace(ledger=dict(reading.ledger, queue=queue))

    def _report(self, name: str, lines: Sequence[str]) -> None:
        """Print each line once, and again only if it was gone in between."""
        for line in lines:
            if line not in self._said.get(name, ()):
                self._say(line)
        self._said[name] = lines


def _message(name: str, problem: Exception) -> str:
    if isinstance(problem, GpuSwarmError):  # this includes errors of the manager
        return problem.message
    return "%s failed: %r. Please report that." % (name, problem)


def _states(nodes: Sequence[Mapping[str, Any]]) -> object:
    """Return the states of nodes that alerts use. They change rarely."""
    return [(node["ID"], node.get("Status", {}).get("State"), node.get("Spec", {}).get("Availability"), *_fault(node)) for node in nodes]


def _fault(node: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the fault without its time, which a lying or flapping node could change with each reading."""
    report = parse_label(reported_label(node))
    return report.state, report.card, report.reason
