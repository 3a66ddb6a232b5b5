# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the processes on the cards with the cards of their tasks, and writes the findings for the next run that assesses this node.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from .._guard.admission import is_allowed
from .._health.allocation_findings import Finding, as_lists, short_text
from .._program.clock import Clock
from .._program.lifetime import publish
from . import process_owner
from .allocation_comparison import Comparison, Held, Snapshot, Use, holdings
from .container_files import Container, Containers, cards_of
from .written import Written

PATH = "/run/gpu-swarm/allocations.json"
# One minute is enough for faults that last hours. Each comparison costs more than all other work of the service.
EVERY_S = 60
# Two comparisons must agree. The second comparison starts after a shorter time.
CONFIRM_S = 10
DATA_ROOT = "/var/lib/docker"
# The server of MPS, which computes nothing itself. The kernel shortens its name to this text.
_MPS_SERVER = "nvidia-cuda-mps"
_OUTSIDE_SWARM = "container %s"


class AllocationCheck:
    """Compares once a minute. ``query()`` returns what _gpu/processes reads, or None."""

    def __init__(self, settings: Mapping[str, Any], query: Callable[[], Sequence[Mapping[str, Any]] | None], clock: Clock) -> None:
        self._query = query
        self._clock = clock
        self._allow = settings.get("isolation_allow") or ()
        self._containers = Containers(settings.get("data_root") or DATA_ROOT)
        self._users = process_owner.Users()
        self._comparison = Comparison(settings.get("idle_after") or 0)
        self._compared: float | None = None
        self._computed: dict[str, bool] = {}  # {card: whether it has computed since the last comparison}; without a card whose utilisation is unknown
        self._published: list[list[Any]] = []
        self._failure = ""

    def note(self, activity: Iterable[Mapping[str, Any]]) -> None:
        """Note which cards compute, from the rows of _gpu/activity. Every few seconds is enough, because idle times are hours."""
        for card in activity:
            if card["utilisation_percent"] is not None:
                self._computed[card["uuid"]] = self._computed.get(card["uuid"], False) or card["utilisation_percent"] > 0

    def compare(self, readable: bool, written: Written) -> str:
        """Compare if a comparison is due. Return an error only the first time; the service continues. ``readable`` says whether the cards can be
        read."""
        try:
            self._compare(readable, written)
        except Exception as problem:
            before, self._failure = self._failure, "processes cannot be compared with reservations: %r" % problem
            return self._failure if self._failure != before else ""
        return ""

    def _compare(self, readable: bool, written: Written) -> None:
        now = self._clock.monotonic()
        if self._compared is not None and now - self._compared < (EVERY_S if self._comparison.settled else CONFIRM_S):
            return
        self._compared = now
        computed, self._computed = self._computed, {}
        cards = self._query() if readable else None
        if cards is None:
            self._publish([])
            return
        try:
            running = self._containers.running()
        except OSError:  # dockerd is no longer installed, or its data moved; the next run records the new directory
            self._publish([])
            return
        self._publish(self._comparison.compare(self._snapshot(cards, running, written)._replace(computed=computed), now, int(self._clock.time())))

    def _snapshot(self, cards: Sequence[Mapping[str, Any]], running: Mapping[str, Container], written: Written) -> Snapshot:
        # A container that may see all cards holds no card, even if its service reserves some.
        with_tasks = [container for container in running.values() if container.task and not self._containers.is_over(container.task)]
        tasks = {container.task: self._is_allowed(container) for container in with_tasks}
        held = {task: () if allowed else self._holdings_of(task, written) for task, allowed in tasks.items()}
        readable = [card["uuid"] for card in cards if card["pids"] is not None]
        return Snapshot(list(self._uses(cards, running)), held, written.expected, readable, list(self._assigned_outside_swarm(cards, running)))

    def _is_allowed(self, container: Container) -> bool:
        return is_allowed(self._allow, container.labels)

    def _holdings_of(self, task: str, written: Written) -> Sequence[Held] | None:
        assigned = self._containers.assigned(task)
        return None if assigned is None else holdings(assigned, written.inserted)

    def _uses(self, cards: Sequence[Mapping[str, Any]], running: Mapping[str, Container]) -> Iterator[Use]:
        for card in cards:
            for pid in card["pids"] or ():
                process = process_owner.read(pid)
                use = self._use(card["uuid"], process, running) if process else None
                if use:
                    yield use

    def _assigned_outside_swarm(self, cards: Sequence[Mapping[str, Any]], running: Mapping[str, Container]) -> Iterator[Use]:
        for container in running.values():
            if container.requests and not self._is_allowed(container):
                yield from (Use(card, "", short_text(_OUTSIDE_SWARM % container.name)) for card in cards_of(container.requests, cards))

    def _use(self, card: str, process: process_owner.Process, running: Mapping[str, Container]) -> Use | None:
        # The outermost container is the task's: a task with its own dockerd starts other containers inside.
        container = next((running[container_id] for container_id in process.containers if container_id in running), None)
        if container and container.task and not self._containers.is_over(container.task):
            return None if self._is_allowed(container) else Use(card, container.task, process.name)
        if process.name.startswith(_MPS_SERVER):
            return None
        owner = _OUTSIDE_SWARM % container.name if container else self._users.name(process.uid)
        return Use(card, "", short_text("%s (%s)" % (owner, process.name)))

    def _publish(self, findings: Sequence[Finding]) -> None:
        """Write the findings if they changed."""
        lists = as_lists(findings)
        if lists == self._published:
            return
        failure = publish(PATH, {"found": lists})
        if failure:
            raise OSError(failure)
        self._published = lists
