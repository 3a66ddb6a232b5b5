# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selects and shortens what the page of the fleet shows (pure).

The page may be read by many people. So this file copies single fields, never whole rows: no variables, no commands, no labels but the owner. All
texts are printable and short, all lists have a limit, and repeated names are stored once.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._printable import printable
from .._queue.queue_words import HELD, LOST, OVER, SHOWN, UNKNOWN, WAITING
from .._tasks.tasks import epoch, stamp
from .._view.shown_queues import MOST_ROWS, is_stuck

RED, AMBER, GREEN = "red", "amber", "green"
# The verdicts of a row of status.
_WRONG, _WAITING = ("failed", "untouched"), ("waiting",)
# Limits, so that a hostile name or 10,000 services cannot make the page unreadable.
LONGEST_NAME, LONGEST_TEXT = 120, 600
MOST_REASONS, MOST_PENDING, MOST_EVENTS, MOST_OWNERS, MOST_MISSES, MOST_KINDS = 8, 200, 500, 200, 3, 20
MOST_NODES, MOST_PARTS, MOST_QUEUES = 2_000, 40_000, 40
CHART_OWNERS, CHART_DAYS, DAY_S = 8, 7, 86400
OTHERS = "others"
CLOSED = "closed"  # free, but its node takes no tasks
GREATEST = 2**53
LATEST = 32_503_680_000  # the year 3000: a time that every browser can print
# A page that a manager keeps up to date is stale after this many missed readings. A file of a playbook is stale after a fixed time (seconds).
MISSED_READINGS, STALE_FILE_S, STALE_LEAST_S = 3, 900, 180
Row = Mapping[str, Any]
_PLACE = re.compile(r" \(PCI address [^()]*\)")
_UUID = re.compile(r"\b((?:GPU|MIG)-[0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


def page_data(
    status: Row,
    cards: Sequence[Row],
    usage_rows: Sequence[Row] | None,
    usage_by_day: Sequence[Row] | None,
    events: Sequence[Row] | None,
    at: float,
    manager: str,
    grafana_url: str = "",
    interval: float | None = None,
) -> dict[str, Any]:
    """Return what ``page`` puts into the file, as plain data for JSON.

    ``status`` and ``cards`` are the results of the functions of these names. The usage of 7 days by owner, and the events of 24 hours, are rows of
    the record; None if nothing is recorded. ``at`` is the time of the reading, in seconds since 1970. ``interval`` is the time between two readings
    in seconds; None for a file that nobody refreshes.
    """
    names = _Names()
    parts = _Limit(MOST_PARTS)
    return {
        "version": 1,
        "at": min(max(_number(at) or 0, 0), LATEST),
        "manager": _name(manager),
        "stale_after": max(STALE_LEAST_S, MISSED_READINGS * interval) if interval else STALE_FILE_S,
        "live": bool(interval),
        "grafana": grafana_url if grafana_url.startswith(("https://", "http://")) else "",
        "verdict": verdict(status),
        "nodes": [_node(row) for row in _rows(status.get("nodes"))[:MOST_NODES]],
        "nodes_total": len(_rows(status.get("nodes"))),
        "cards": [_card(row, names, parts) for row in cards[: MOST_NODES * 16]],
        "pending": [_pending(row) for row in _rows(status.get("pending"))[:MOST_PENDING]],
        "pending_total": len(_rows(status.get("pending"))),
        "queues": _queues(status.get("queue"), names),
        "usage": None if usage_rows is None else [_usage(row) for row in usage_rows[:MOST_OWNERS]],
        "days": None if usage_by_day is None else _chart(usage_by_day, _number(at) or 0),
        "events": None if events is None else [_event(row) for row in events[:MOST_EVENTS]],
        "events_total": len(events or ()),
        "names": names.listed,
    }


def verdict(status: Row) -> dict[str, Any]:
    """Return the verdict: its level (a colour), a headline that can be read from far away, and the reasons, wrong ones first."""
    nodes, pending = _rows(status.get("nodes")), _rows(status.get("pending"))
    twice = [row for row in _rows(status.get("faulty")) if row.get("what") == "allocated twice"]
    wrong = [*_reasons(nodes, _WRONG), *(_reason(RED, row.get("node"), f"allocated twice: {row.get('details')}") for row in twice)]
    wrong += _reasons(pending, _WRONG)
    waiting = [*_reasons(nodes, _WAITING), *_reasons(pending, _WAITING)]
    level = RED if wrong else AMBER if waiting else GREEN
    parts = [f"{len(found)} {word}" for found, word in ((wrong, "wrong"), (waiting, "waiting")) if found]
    reasons = wrong + waiting
    return {
        "level": level,
        "headline": ", ".join(parts) if parts else "All is well",
        "reasons": reasons[:MOST_REASONS],
        "more": max(0, len(reasons) - MOST_REASONS),
    }


def _reasons(rows: Iterable[Row], verdicts: Sequence[str]) -> list[dict[str, str]]:
    level = RED if verdicts is _WRONG else AMBER
    return [_reason(level, row.get("node") or row.get("service"), _why(row)) for row in rows if row.get("verdict") in verdicts]


def _reason(level: str, name: Any, text: str) -> dict[str, str]:
    return {"level": level, "name": _name(name), "text": _text(text)}


def _why(row: Row) -> str:
    """Return why a row is not green, in few words: the first part of its reason, with short UUIDs and without the place of a card."""
    if "service" in row:
        return _short(row.get("text"))
    return ": ".join(filter(None, [_short(row.get("state")), _short(row.get("why")).partition("; ")[0]]))


def _short(value: Any) -> str:
    return _PLACE.sub("", _UUID.sub(r"\1…", _text(value)))


# -- rows ------------------------------------------------------------------------------------------------------------


class _Names:
    """A table of names. A row holds the number of a name, because models, services and owners repeat thousands of times. -1 stands for no name."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        return self._number(_name(value))

    def text(self, value: Any) -> int:
        """Return the number of a text that is longer than a name."""
        return self._number(_text(value))

    def _number(self, name: str) -> int:
        if not name:
            return -1
        if name not in self._numbers:
            self._numbers[name] = len(self.listed)
            self.listed.append(name)
        return self._numbers[name]


class _Limit:
    """Counts rows down to 0."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, rows: Sequence[Row]) -> Sequence[Row]:
        taken = rows[: self._left]
        self._left -= len(taken)
        return taken


def _level(row: Row) -> str:
    """Return the colour of a row by its verdict."""
    return RED if row.get("verdict") in _WRONG else AMBER if row.get("verdict") in _WAITING else GREEN


def _node(row: Row) -> dict[str, Any]:
    return {
        "id": _name(row.get("id")),
        "name": _name(row.get("node")),
        "role": _name(row.get("role")),
        "state": _name(row.get("state")),
        "why": _text(row.get("why")),
        "level": _level(row),
        "since": _time(row.get("since")),
        "for": _number(row.get("for")),
    }


def _card(row: Row, names: _Names, limit: _Limit) -> list[Any]:
    """Return a card as a short list: node id, UUID, model, MiB, state, reason, and its parts. ``data.js`` reads the same order."""
    uuid = _name(row.get("card"))
    parts = limit.take(_rows(row.get("parts")))
    return [
        names.number(row.get("node_id")),
        uuid,
        names.number(row.get("model")),
        _number(row.get("mib")),
        names.number(CLOSED if row.get("state") == "free" and row.get("schedulable") is False else row.get("state")),
        _text(row.get("reason")),
        [_part(part, uuid, names) for part in parts],
    ]


def _part(part: Row, uuid: str, names: _Names) -> list[Any]:
    """Return a part as a short list: kind, value ("" if it is the whole card) or amount, state, task, service, owner, since."""
    value, amount = _name(part.get("value")), _number(part.get("amount"))
    task, service = _name(part.get("task")), _name(part.get("service"))
    return [
        names.number(part.get("kind")),
        ("" if value == uuid else value) if amount is None else amount,
        names.number(part.get("state")),
        task[len(service) :] if service and task.startswith(service) else task,
        names.number(service),
        names.number(part.get("owner")),
        _time(part.get("since")),
    ]


def _pending(row: Row) -> dict[str, Any]:
    misses = [_text(near.get("text")) for near in _rows(row.get("nearest"))]
    text = _text(row.get("text"))
    return {
        "service": _name(row.get("service")),
        "tasks": _number(row.get("needed")),
        "since": _time(row.get("since")),
        "age": _number(row.get("age")),
        "text": text,
        "misses": [miss for miss in misses if miss not in text][:MOST_MISSES],
        "level": _level(row),
    }


def _queues(queue: Any, names: _Names) -> dict[str, Any] | None:
    """Return what runs and what waits in each queue; None for a swarm without queues."""
    if not isinstance(queue, Mapping):
        return None
    queues = _rows(queue.get("queues"))[:MOST_QUEUES]
    work: dict[str, list[Row]] = {_name(row.get("queue")): [] for row in queues}
    for row in _rows(queue.get("work")):
        work.get(_name(row.get("queue")), work.get(UNKNOWN, [])).append(row)
    return {"problem": _text(queue.get("problem")), "rows": [_queue(row, work[_name(row.get("queue"))], names) for row in queues]}


def _queue(row: Row, work: Sequence[Row], names: _Names) -> dict[str, Any]:
    used, most, counts = (row[key] if isinstance(row.get(key), Mapping) else {} for key in ("used", "max", "states"))
    waiting = [one for one in work if one.get("state") == WAITING]
    others = [one for one in work if one.get("state") not in (WAITING, OVER)]
    return {
        "name": _name(row.get("queue")),
        "share": _number(row.get("share")),
        "weight": _number(row.get("weight")),
        "used": [[_name(kind), _number(used.get(kind, 0)), _number(most.get(kind))] for kind in sorted({*used, *most})[:MOST_KINDS]],
        "since": _time(row.get("since")),
        "waits": [_work(one, names) for one in waiting[:MOST_ROWS]],
        "others": [_work(one, names) for one in others[:MOST_ROWS]],
        "counts": {state: _number(counts.get(state)) or 0 for state in SHOWN if state != OVER},
    }


def _work(row: Row, names: _Names) -> list[Any]:
    """Return a piece of work as a short list: service, state, owner, position, node, since, time when it ends, text, level.

    Much work waits for the same reason, so the list holds the number of the text, not the text. ``data.js`` reads the same order.
    """
    return [
        _name(row.get("service")),
        names.number(row.get("state")),
        names.number(row.get("owner")),
        _number(row.get("position")),
        names.number(row.get("node")),
        _time(row.get("since")),
        _time(row.get("ends")),
        names.text(row.get("text")),
        RED if is_stuck(row) else AMBER if row.get("state") in (HELD, LOST) else GREEN,
    ]


def _usage(row: Row) -> dict[str, Any]:
    return {
        "name": _name(row.get("name")),
        "kind": _name(row.get("kind")),
        "unit": _name(row.get("unit")),
        "hours": _number(row.get("hours")),
        "cards": _number(row.get("cards")),
        "estimated": _number(row.get("estimated")),
        "running": _number(row.get("running")),
    }


class _Day(NamedTuple):
    day: str
    name: str
    cards: float


def _chart(rows: Iterable[Row], at: float) -> dict[str, Any]:
    """Return the last days (UTC), and for each of the largest owners its card-hours by day. The other owners are added up."""
    columns = [stamp(min(max(at - DAY_S * back, 0), LATEST))[:10] for back in range(CHART_DAYS - 1, -1, -1)]
    days = [_Day(_name(row.get("day")), _name(row.get("name")), _number(row.get("cards")) or 0.0) for row in rows]
    days = [entry for entry in days if entry.day in columns]
    sums: dict[str, float] = {}
    for entry in days:
        sums[entry.name] = sums.get(entry.name, 0.0) + entry.cards
    largest = sorted(sums, key=lambda name: (-sums[name], name))[:CHART_OWNERS]
    shown = [*largest, *([OTHERS] if len(sums) > len(largest) else [])]
    values = {name: dict.fromkeys(columns, 0.0) for name in shown}
    for entry in days:
        values[entry.name if entry.name in largest else OTHERS][entry.day] += entry.cards
    return {"days": columns, "owners": shown, "hours": [[round(values[name][day], 2) for day in columns] for name in shown]}


def _event(row: Row) -> dict[str, Any]:
    return {
        "at": _time(row.get("at") if row.get("since") is None else row["since"]),
        "what": _name(row.get("what")),
        "node": _name(row.get("hostname") or row.get("node")),
        "text": _text(row.get("text") or row.get("cause")),
    }


# -- values ----------------------------------------------------------------------------------------------------------


def _rows(value: Any) -> Sequence[Row]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def _name(value: Any) -> str:
    return _cut(value, LONGEST_NAME)


def _text(value: Any) -> str:
    return _cut(value, LONGEST_TEXT)


def _cut(value: Any, longest: int) -> str:
    text = printable(value[: longest + 1]) if isinstance(value, str) else ""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _number(value: Any) -> float | None:
    """Return a number that JavaScript can hold, or None for everything else. JSON has no NaN."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and -GREATEST < value < GREATEST else None


def _time(value: Any) -> float | None:
    """Return a time in whole seconds since 1970, from a number or a timestamp of the API."""
    seconds = epoch(value) if isinstance(value, str) else _number(value)
    return None if seconds is None else int(min(max(seconds, 0), LATEST))
