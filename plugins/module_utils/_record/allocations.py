# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds which allocations began and ended between two readings (pure).

Docker's API has no start stamps and no task events. A task has only the stamp of its present state, and a restarted dockerd stamps ended tasks anew.
So the first stamp that was read counts and never changes. A stamp comes from the clock of a node, which may be wrong. A stamp that contradicts the
manager's clock is corrected, and the corrected time is estimated.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Iterator, Mapping, NamedTuple, Sequence

from .._ledger.node_labels import model_of
from .._ledger.reading import Reading
from .._tasks.tasks import ALLOCATED, ENDED, assigned, epoch
from .card_share import Share, share_of_amount, share_of_value
from .schema import Allocation

GONE = "gone"  # the end of a task that the manager no longer lists
CLOCKS_DIFFER_S = 60  # a stamp may be this much later than the reading, because the clocks of managers differ a little
_MOST = 2**53  # amounts of a hostile node that would not fit into SQLite's integers are cut

# Task id -> (begin, sure_from) of its open allocations.
Open = Mapping[str, "tuple[int, int]"]


class End(NamedTuple):
    """The end of all allocations of a task."""

    task: str
    end: int
    sure_until: int
    how: str


class Changes(NamedTuple):
    """``new`` has devices for each allocation. ``ended_tasks`` are all ended tasks that the manager lists and that had allocations."""

    new: Sequence[tuple[Allocation, tuple[str, ...]]]
    ends: Sequence[End]
    ended_tasks: set[str]


def changes(reading: Reading, still_open: Open, ended_before: Collection[str], last: int | None, is_first: bool) -> Changes:
    """Return what began and ended.

    ``still_open`` are the open allocations of the record. ``ended_before`` are the ended tasks of the last reading, at ``last``. At the first reading
    of a swarm, tasks that have ended already are not recorded, because nobody recorded while they ran.
    """
    describe, at = _Describe(reading), int(reading.at)
    new: list[tuple[Allocation, tuple[str, ...]]] = []
    ends: list[End] = []
    listed: set[str] = set()
    ended_tasks: set[str] = set()
    for task in reading.tasks:
        task_id, state = task["ID"], task["Status"]["State"]
        is_open, has_ended = task_id in still_open, task_id in ended_before
        if is_open:
            listed.add(task_id)
        elif not has_ended and not assigned(task):
            continue
        if state in ENDED:
            ended_tasks.add(task_id)
            if is_open:
                ends.append(_end(task, still_open[task_id], at, last))
            elif not has_ended and not is_first:
                new += describe.allocations(task, *_missed(task, at, last))
        elif state in ALLOCATED and not is_open and not has_ended:
            new += describe.allocations(task, *_begin(task, at))
    for task_id in still_open:
        if task_id not in listed:
            ends.append(_gone(task_id, still_open[task_id], at, last))
    return Changes(new, ends, ended_tasks)


# -- times -----------------------------------------------------------------------------------------------------------


def _begin(task: Mapping[str, Any], at: int) -> tuple[int, int]:
    """Return (begin, sure_from) of a task that has allocations: the stamp of its state, but not before its creation and not after the reading."""
    stamp, created = epoch(task["Status"].get("Timestamp")), _not_after(_seconds(task.get("CreatedAt"), 0), at)
    if stamp is None:
        return (created or at), max(created, at)
    begin = _not_after(max(int(stamp), created), at)
    return begin, begin if begin == int(stamp) else max(begin, at)


def _end(task: Mapping[str, Any], begin: tuple[int, int], at: int, last: int | None) -> End:
    stamp = epoch(task["Status"].get("Timestamp"))
    if stamp is None:
        return _gone(task["ID"], begin, at, last)._replace(how=task["Status"]["State"])
    end = max(_not_after(int(stamp), at), begin[0])
    return End(task["ID"], end, end if end == int(stamp) else _last_seen(begin, end, last), task["Status"]["State"])


def _gone(task_id: str, begin: tuple[int, int], at: int, last: int | None) -> End:
    end = max(at, begin[0])
    return End(task_id, end, _last_seen(begin, end, last), GONE)


def _last_seen(begin: tuple[int, int], end: int, last: int | None) -> int:
    """Return until when the task certainly had its allocations: until the last reading, and in any case before its uncertain end."""
    return min(max(begin[1], last or 0), end - 1)


def _missed(task: Mapping[str, Any], at: int, last: int | None) -> tuple[int, int, End]:
    """Return (begin, sure_from, end) of a task that began and ended between two readings. Its begin is the earliest possible time."""
    created = _not_after(_seconds(task.get("CreatedAt"), 0), at)
    end = max(_not_after(_seconds(task["Status"].get("Timestamp"), at), at), created)
    # Nothing is certain, so the certain time is empty.
    return min(max(created, last or 0), end), end + 1, End(task["ID"], end, end, task["Status"]["State"])


def _not_after(stamp: int, at: int) -> int:
    """Return the stamp, or the time of the reading if the stamp is too much later. Two managers must not correct the same stamp differently."""
    return stamp if stamp <= at + CLOCKS_DIFFER_S else at


def _seconds(stamp: str | None, instead: int) -> int:
    seconds = epoch(stamp)
    return instead if seconds is None else int(seconds)


# -- rows ------------------------------------------------------------------------------------------------------------


class _Describe:
    """Describes allocations with what the reading says about their services and nodes."""

    def __init__(self, reading: Reading) -> None:
        self._services: dict[str, str] = {service["ID"]: service["Spec"]["Name"] for service in reading.services}
        self._owners = reading.owners
        self._records: dict[str, Mapping[str, Any]] = {record["id"]: record for record in reading.ledger["nodes"]}

    def allocations(
        self, task: Mapping[str, Any], begin: int, sure_from: int, end: End | None = None
    ) -> Iterator[tuple[Allocation, tuple[str, ...]]]:
        """Yield a row for each value and amount that the task has, with its devices."""
        node_id = task.get("NodeID")
        if not node_id:
            return
        service = self._services.get(task.get("ServiceID"), task.get("ServiceID") or "")
        record = self._records.get(node_id) or {}
        model = model_of(record) if record else ""
        for kind, value, share in _shares(record, assigned(task)):
            row = Allocation(
                task["ID"], service, self._owners.get(service) or "", node_id, kind, value, share.amount, share.unit, share.mib, model, share.cards,
                begin, sure_from,
            )  # fmt: skip
            yield row if end is None else row._replace(end=end.end, sure_until=end.sure_until, how=end.how), share.devices


def _shares(record: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Share]]:
    for kind, values in resources.items():
        if isinstance(values, list):
            for value in values:
                yield kind, value, share_of_value(record, kind, value)
        elif values > 0:
            yield kind, None, share_of_amount(record, kind, min(values, _MOST))
