# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers from the record of this machine, as plain data: for the command gpu-swarm and for the module swarm_record.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterable

from .._errors import GpuSwarmError
from .._page.page_rows import page_rows
from .._printable import printable
from .._record import queries
from .._record.database import open_for_reading
from .._view.record_text import CARD, EVENTS, USAGE
from .._view.times import since_of
from .written_files import read_snapshot

# How far back an answer goes if the user gives no time.
USAGE_SINCE, EVENTS_SINCE = "7d", "12h"
PAGE = "page"


def usage(directory: str, since: str, by: str, now: float) -> dict[str, Any]:
    """Return {what, by, since, until, now, rows, recorded_since, last_reading}. Raises GpuSwarmError."""
    begin = since_of(since or USAGE_SINCE, now)
    return _answer(directory, now, {"what": USAGE, "by": by, "since": begin, "until": now}, lambda db: queries.usage(db, begin, now, by, now))


def events(directory: str, since: str, node: str | None, now: float) -> dict[str, Any]:
    """Return {what, node, since, until, now, rows, recorded_since, last_reading}. Raises GpuSwarmError."""
    begin = since_of(since or EVENTS_SINCE, now)
    asked = {"what": EVENTS, "node": node or None, "since": begin, "until": now}
    return _answer(directory, now, asked, lambda db: queries.events(db, begin, now, node or None))


def card(directory: str, uuid: str, now: float, own: Iterable[str] = ()) -> dict[str, Any]:
    """Return {what, uuid, model, mib, allocations, events, now, recorded_since, last_reading}. Raises GpuSwarmError, also if no card is named so.

    ``own`` are the cards of this machine. If no task ever had the card, the lists are empty.
    """
    if len(uuid) < len("GPU-") + 1 or not uuid.startswith(("GPU-", "MIG-")):
        raise GpuSwarmError("card is '%s'. Give a UUID, or the beginning of one, such as GPU-5fa2e7a4." % printable(uuid[:80]))
    answer = _answer(directory, now, {"what": CARD}, lambda db: queries.card(db, uuid))
    found = answer.pop("rows")
    if not (found["allocations"] or found["events"] or found["model"]) and not _fleet_has(directory, found["uuid"], own):
        raise GpuSwarmError("No card begins with %s. 'gpu-swarm who NODE' on a manager lists the cards of a node." % printable(found["uuid"][:80]))
    return {**found, **answer}


def _fleet_has(directory: str, uuid: str, own: Iterable[str]) -> bool:
    """Return whether the last reading of the swarm has a card that begins with ``uuid``. True if that reading cannot be read."""
    try:
        cards = [row["card"] for row in read_snapshot(directory).cards]
    except GpuSwarmError:
        return True
    return any(str(card).startswith(uuid) for card in [*cards, *own])


def page(directory: str, now: float) -> dict[str, Any]:
    """Return {what, usage_rows, usage_by_day, events, now, recorded_since, last_reading}: what the page of the fleet shows. Raises GpuSwarmError."""
    answer = _answer(directory, now, {"what": PAGE}, lambda db: page_rows(db, now))
    return {**answer.pop("rows"), **answer}


def _answer(directory: str, now: float, asked: dict[str, Any], query: Callable[[Any], Any]) -> dict[str, Any]:
    with contextlib.closing(open_for_reading(directory)) as db:
        rows = query(db)
        return {**asked, "now": now, "rows": rows, "recorded_since": queries.recorded_since(db), "last_reading": queries.last_reading(db)}
