# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selects the work of queues that status, snapshot and page show, and describes a piece of work in a sentence (pure).

A queue may hold 10,000 pieces of work. So only the first pieces of each queue are shown, and no work that is over.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Collection, Mapping, Sequence

from .._printable import shortened
from .._queue.queue_words import (
    HELD,
    LOST,
    MAY_START,
    NEVER,
    NO_QUEUE,
    OVER,
    RUNNING,
    STARTING,
    TOO_LARGE,
    UNKNOWN,
    UNLABELLED,
    UNQUEUED,
    WAITING,
)  # fmt: skip
from .table import NOTHING
from .verdicts import Verdict

MOST_ROWS = 100  # limit for the waiting work of each queue, and for its other work
# Work that waits for one of these reasons, or is refused, never starts unless a person changes something.
STUCK = (NO_QUEUE, NEVER, TOO_LARGE, UNLABELLED)
Row = Mapping[str, Any]


def shortened_queue(queue: Mapping[str, Any] | None, named: Collection[str] = ()) -> dict[str, Any] | None:
    """Return the result of ``queue_in`` with fewer rows of work. ``named`` are names and ids of services that are always shown."""
    if queue is None:
        return None
    group_of = _groups(queue)
    listed: Counter[tuple[str, bool]] = Counter()
    work = []
    for row in queue["work"]:
        group = group_of(row), row["state"] == WAITING
        listed[group] += row["state"] != OVER
        if (row["state"] != OVER and listed[group] <= MOST_ROWS) or row["service"] in named or row["service_id"] in named:
            work.append(row)
    return dict(queue, work=work)


def _groups(queue: Mapping[str, Any]) -> Callable[[Row], str]:
    """Return a function that maps a piece of work to the ``queue`` of its row in ``queues``. Unknown queues share the row UNKNOWN."""
    names = {row["queue"] for row in queue["queues"]}
    return lambda row: row["queue"] if row["queue"] in names else UNKNOWN


def queue_rows(queue: Mapping[str, Any]) -> list[tuple[Sequence[object], str]]:
    """Return the cells and the verdict of each queue: its name, what runs and waits, what it uses, and what starts next."""
    group_of = _groups(queue)
    first: dict[str, Row] = {}
    for work in queue["work"]:
        if work["state"] == WAITING:
            first.setdefault(group_of(work), work)
    rows: list[tuple[Sequence[object], str]] = []
    for row in queue["queues"]:
        work = first.get(row["queue"])
        next_text = NOTHING if work is None else "%s: %s" % (work["service"], work["text"])
        cells = (row["queue"] or "(no such queue)", row["running"], row["waiting"], used(row), next_text)
        rows.append((cells, Verdict.WAITING.value if work and is_stuck(work) else ""))
    return rows


def used(row: Row) -> str:
    """Return what a queue uses, such as ``NVIDIA-GPU 20 of 24``."""
    kinds = sorted({*row["used"], *row["max"]})
    texts = ["%s %d%s" % (kind, row["used"].get(kind, 0), " of %d" % row["max"][kind] if kind in row["max"] else "") for kind in kinds]
    return ", ".join(texts) or NOTHING


def is_stuck(row: Row) -> bool:
    """Return whether this work never starts unless a person changes something."""
    return row.get("state") == UNQUEUED or (row.get("state") == WAITING and row.get("reason") in STUCK)


def notes(queue: Mapping[str, Any]) -> list[str]:
    """Return further sentences about the queues: problems, and work that needs attention."""
    texts = ["nothing is admitted: %s" % queue["problem"]] if queue["problem"] else []
    for state, words in ((LOST, "lost with their node"), (HELD, "held until somebody releases them"), (UNQUEUED, "cannot be queued")):
        number = sum(row["states"].get(state, 0) for row in queue["queues"])
        if number:
            texts.append("%s: %s" % (words, shortened([row["service"] for row in queue["work"] if row["state"] == state])))
    return [*texts, "'gpu-swarm queue' on a manager lists all work of the queues"]


def sentence(row: Row) -> str:
    """Return a sentence about the state of a piece of work. It calls the work "it"."""
    state, queue, text = row["state"], row["queue"], row["text"]
    if state == WAITING:
        place = " at position %d" % row["position"] if row["position"] else ""
        return "it waits in the queue %s%s%s %s" % (queue, place, ";" if row["reason"] == MAY_START else ", because", text)
    if state == UNQUEUED:
        return "it cannot be queued, because %s" % text
    if state in (HELD, LOST):
        return text
    if state == OVER:
        return "it is over: %s" % text
    where = "on node %s, admitted by the queue %s" % (row["node"], queue)
    parts = ["it starts " + where if state == STARTING else "it runs " + where, text]
    return "; ".join(filter(None, [*parts, "its time limit ends it at %s" % row["ends"] if row["ends"] else ""]))


def verdict_of(row: Row) -> Verdict:
    """Return the verdict on a piece of work."""
    if is_stuck(row):
        return Verdict.FAILED
    return Verdict.DONE if row["state"] in (RUNNING, OVER) else Verdict.WAITING
