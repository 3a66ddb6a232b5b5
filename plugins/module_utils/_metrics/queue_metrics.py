# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metrics of queues (pure): what runs, what waits and why, and what each queue uses.

The number of label values is limited, even with much work. A swarm has at most 32 queues. Work for an unknown queue counts under one common name.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from .._tasks.tasks import epoch
from .._textfile.exposition import Sample
from . import metric_names
from .bounds import OTHERS, heaviest

UNKNOWN = "(no such queue)"
SHOWN = ("waiting", "starting", "running", "lost", "refused", "held")
# Any service may reserve any kind, and a hostile node may advertise many kinds.
MOST_KINDS = 20


def of_queues(queue: Mapping[str, Any] | None) -> Iterator[Sample]:
    """Return the samples of the queues. ``queue`` is the view of the queues; None for a swarm without queues, which has no samples."""
    if queue is None:
        return
    yield Sample(metric_names.QUEUES_CLOSED, (), int(bool(queue["problem"])))
    for row in queue["queues"]:
        name = row["queue"] or UNKNOWN
        for state in SHOWN:
            yield Sample(metric_names.QUEUE_WORK, (name, state), row["states"].get(state, 0))
        for reason, number in row["reasons"].items():
            yield Sample(metric_names.QUEUE_WAITING, (name, reason), number)
        since = epoch(row["since"])
        if since is not None:
            yield Sample(metric_names.QUEUE_SINCE, (name,), since)
        yield Sample(metric_names.QUEUE_KEPT, (name,), len(row["kept"]))
        if row["share"] is not None:
            yield Sample(metric_names.QUEUE_SHARE, (name,), row["share"])
        yield from _used(name, row)


def _used(name: str, row: Mapping[str, Any]) -> Iterator[Sample]:
    used = {**dict.fromkeys(row["max"], 0), **row["used"]}
    largest = {*row["max"], *heaviest(((kind, float(amount)) for kind, amount in used.items()), MOST_KINDS)}
    sums: dict[str, int] = {}
    for kind, amount in used.items():
        shown = kind if kind in largest else OTHERS
        sums[shown] = sums.get(shown, 0) + amount
    for kind, amount in sums.items():
        yield Sample(metric_names.QUEUE_USED, (name, kind), amount)
    for kind, amount in row["max"].items():
        yield Sample(metric_names.QUEUE_MAX, (name, kind), amount)
