# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of services (pure): their allocations, their pending tasks, and whether they see GPUs without reserving them.

A service is counted once, however many tasks it has. An array of jobs that is one service is also counted once.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator, Mapping

from .._tasks.tasks import epoch
from .._textfile.exposition import Sample
from . import metric_names
from .bounds import OTHERS, heaviest
from .owner_labels import allocations

# The most services for each of these metrics. All further services share one name.
MOST_SERVICES = 50


def of_services(ledger: Mapping[str, Any], now: float, owners: Mapping[str, str]) -> Iterator[Sample]:
    """``owners`` are the values of the label ``owner`` by service."""
    yield from _allocated(ledger, owners)
    yield from _pending(ledger, now)
    # A service that reserves memory of a GPU gets no device unless the service sets the variable. So such a service is not counted.
    seeing = sorted(service["service"] for service in ledger["unreserved"] if not service["reserves"])
    yield Sample(metric_names.UNRESERVED_SERVICES, (), len(seeing))
    for service in seeing[:MOST_SERVICES]:
        yield Sample(metric_names.UNRESERVED, (service,), 1)


def _allocated(ledger: Mapping[str, Any], owners: Mapping[str, str]) -> Iterator[Sample]:
    amounts: dict[tuple[str, str], int] = Counter()
    for service, kind, amount in allocations(ledger):
        amounts[service, kind] += amount
    weights: dict[str, float] = {}
    for (service, _kind), amount in amounts.items():
        weights[service] = max(weights.get(service, 0), amount)
    largest = heaviest(weights.items(), MOST_SERVICES)
    sums: dict[tuple[str, str], int] = Counter()
    for (service, kind), amount in amounts.items():
        sums[service if service in largest else OTHERS, kind] += amount
    for labels, amount in sums.items():
        yield Sample(metric_names.SERVICE_ALLOCATED, labels, amount)
    yield from _allocated_to_owners(amounts, owners)


def _allocated_to_owners(amounts: Mapping[tuple[str, str], int], owners: Mapping[str, str]) -> Iterator[Sample]:
    sums: dict[tuple[str, str], int] = Counter()
    for (service, kind), amount in amounts.items():
        sums[owners[service], kind] += amount
    for labels, amount in sums.items():
        yield Sample(metric_names.OWNER_ALLOCATED, labels, amount)


# -- pending ---------------------------------------------------------------------------------------------------------


class _Waiting:
    """The waiting tasks of one service, or of all other services together."""

    def __init__(self) -> None:
        self.tasks = 0
        self.since: float | None = None
        self.wants: dict[str, int] = {}

    def add(self, group: Mapping[str, Any]) -> None:
        self.tasks += group["count"]
        since = epoch(group["since"])
        if self.since is None or (since is not None and since < self.since):
            # During an update a service has two specifications. Use the specification with the oldest waiting task.
            self.since, self.wants = since, dict(group["wants"])


def _pending(ledger: Mapping[str, Any], now: float) -> Iterator[Sample]:
    by_service: dict[str, list[Mapping[str, Any]]] = {}
    for group in ledger["pending"]:
        by_service.setdefault(group["service"] or "", []).append(group)
    ages = {name: max(now - (epoch(group["since"]) or now) for group in groups) for name, groups in by_service.items()}
    longest = heaviest(ages.items(), MOST_SERVICES)
    waiting: dict[str, _Waiting] = {}
    for name, groups in by_service.items():
        for group in groups:
            waiting.setdefault(name if name in longest else OTHERS, _Waiting()).add(group)
    possible = {service["service"]: service["possible"] for service in ledger.get("explained") or []}
    yield Sample(metric_names.PENDING_SERVICES, (), len(by_service))
    for name, tasks in waiting.items():
        yield Sample(metric_names.PENDING, (name,), tasks.tasks)
        if tasks.since is not None:
            yield Sample(metric_names.PENDING_SINCE, (name,), tasks.since)
        if name != OTHERS:
            for kind, amount in tasks.wants.items():
                yield Sample(metric_names.PENDING_WANTS, (name, kind), amount)
        if name in possible:
            yield Sample(metric_names.PENDING_POSSIBLE, (name,), int(possible[name]))
