# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers questions from the record: who used what, what happened, and the history of a card.

Each function takes the result of ``database.open_for_reading``, returns plain rows and raises only GpuSwarmError.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._errors import GpuSwarmError
from .._gpu.record import devices_of
from .database import error_of, sqlite3, storable
from .schema import DAY_S, LAST_READING, NODE, RECORDED_SINCE, ROWS_SINCE, SUMMED_UNTIL
from .sums import column_of, day_of, sums_of_rows

MOST_EVENTS = 10000
MOST_ALLOCATIONS = 1000  # of one card
_NAMED = 3  # how many cards a message names


def recorded_since(db: Any) -> int | None:
    """Return the time of the first reading; None if nothing is recorded."""
    return _meta(db).get(RECORDED_SINCE)


def last_reading(db: Any) -> int | None:
    """Return the time of the last reading; None if nothing is recorded."""
    return _meta(db).get(LAST_READING)


# -- usage -----------------------------------------------------------------------------------------------------------


def usage(db: Any, since: float, until: float, by: str, now: float) -> list[dict[str, Any]]:
    """Return [{name, kind, unit, hours, cards, estimated, running}], the most cards first. ``by`` is one of BY.

    ``hours`` are in ``unit``. ``cards`` are card-hours; None if unknown. ``estimated`` is the part of ``hours`` that is estimated. ``running`` is the
    number of tasks that had the allocations at the last reading. With ``by`` node, ``node`` is the id of the node. Allocations count until the last
    reading. For times whose allocations are deleted, the sums of whole days count.
    """
    meta = _meta(db)
    until = min(until, now)
    kept_since = meta.get(ROWS_SINCE) or 0
    rows = _rows(db, *sums_of_rows(by, max(since, kept_since), until, meta.get(LAST_READING) or 0))
    if since < kept_since:
        rows += _sums_of_days(db, by, day_of(since), min(day_of(until + DAY_S - 1), day_of(kept_since)))
    totals: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["name"], row["kind"], row["unit"])
        totals[key] = _added(totals[key], row) if key in totals else row
    return sorted(_with_hostnames(db, by, totals.values()), key=lambda row: (-(row["cards"] or 0), -row["hours"], row["name"], row["kind"]))


def usage_by_day(db: Any, since: float, until: float, by: str, now: float) -> list[dict[str, Any]]:
    """Return [{day, name, cards}] of all days between these times, as whole days; ``cards`` are card-hours, None if unknown."""
    meta = _meta(db)
    until, summed_until = min(until, now), meta.get(SUMMED_UNTIL) or 0
    sql = "SELECT day, name, sum(cards) AS cards FROM days WHERE by = ? AND day >= ? AND day < ? GROUP BY day, name ORDER BY day, name"
    rows = _rows(db, sql, (column_of(by), day_of(since), day_of(min(until + DAY_S - 1, summed_until))))
    begin = max(since, summed_until) // DAY_S * DAY_S
    while begin < min(until, meta.get(LAST_READING) or 0):
        cards: dict[str, float | None] = {}
        since_row = max(begin, meta.get(ROWS_SINCE) or 0)
        for row in _rows(db, *sums_of_rows(by, since_row, begin + DAY_S, meta.get(LAST_READING) or 0)):
            cards[row["name"]] = _sum(cards.get(row["name"]), row["cards"])
        rows += [{"day": day_of(begin), "name": name, "cards": amount} for name, amount in sorted(cards.items())]
        begin += DAY_S
    return _with_hostnames(db, by, rows)


def _sums_of_days(db: Any, by: str, first: str, before: str) -> list[dict[str, Any]]:
    sql = """SELECT name, kind, unit, sum(hours) AS hours, CASE WHEN count(cards) = count(*) THEN sum(cards) END AS cards,
        sum(estimated) AS estimated, 0 AS running FROM days WHERE by = ? AND day >= ? AND day < ? GROUP BY name, kind, unit"""
    return _rows(db, sql, (column_of(by), first, before))


def _added(total: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    cards = None if None in (total["cards"], row["cards"]) else total["cards"] + row["cards"]
    return dict(total, cards=cards, **{key: total[key] + row[key] for key in ("hours", "estimated", "running")})


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def _with_hostnames(db: Any, by: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with names for people. The record knows nodes by id, because several nodes may have the same hostname."""
    if by != NODE:
        return list(rows)
    hostnames = {row["id"]: row["hostname"] for row in _rows(db, "SELECT id, hostname FROM nodes")}
    return [dict(row, node=row["name"], name=hostnames.get(row["name"]) or row["name"]) for row in rows]


# -- events and cards ------------------------------------------------------------------------------------------------

_EVENTS = "SELECT at, since, what, node, hostname, card, cause, text FROM events"


def events(db: Any, since: float, until: float, node: str | None = None) -> list[dict[str, Any]]:
    """Return [{at, since, what, node, hostname, card, cause, text}], newest first. ``node`` is an id or a hostname. A gap that ended later counts."""
    values = {"since": since, "until": until, "node": None if node is None else storable(node), "most": MOST_EVENTS}
    where = " WHERE at >= :since AND since <= :until AND (:node IS NULL OR :node IN (node, hostname))"
    return _rows(db, _EVENTS + where + " ORDER BY since DESC, id DESC LIMIT :most", values)


def card(db: Any, uuid: str) -> dict[str, Any]:
    """Return {uuid, model, mib, allocations, events} of a card, the newest allocations and events first.

    ``uuid`` may be the beginning of a UUID, or a value of a slot. The lists of a card that no task had are empty. Raises GpuSwarmError if several
    cards begin with ``uuid``.
    """
    found = _find_card(db, devices_of(storable(uuid))[0])
    sql = """SELECT task, service, owner, node, coalesce(hostname, node) AS hostname, kind, value, amount, begin, sure_from <= begin AS begin_known,
        end, sure_until = end AS end_known, how
        FROM allocations LEFT JOIN nodes ON nodes.id = node
        WHERE allocations.id IN (SELECT allocation FROM cards_of_allocations WHERE card = ?) ORDER BY begin DESC, allocations.id DESC LIMIT ?"""
    rows = _rows(db, sql, (found["id"], MOST_ALLOCATIONS))
    for row in rows:
        row.update(begin_known=bool(row["begin_known"]), end_known=bool(row["end_known"]))
    happened = _rows(db, _EVENTS + " WHERE card = ? ORDER BY since DESC, id DESC LIMIT ?", (found["uuid"], MOST_EVENTS))
    return {"uuid": found["uuid"], "model": found["model"], "mib": found["mib"], "allocations": rows, "events": happened}


def _find_card(db: Any, beginning: str) -> dict[str, Any]:
    unknown = {"id": None, "uuid": beginning, "model": "", "mib": None}
    if not beginning:
        return unknown
    sql = """SELECT id, uuid, model, mib FROM cards WHERE substr(uuid, 1, length(:beginning)) = :beginning
        UNION ALL SELECT DISTINCT NULL, card, '', NULL FROM events
        WHERE substr(card, 1, length(:beginning)) = :beginning AND card NOT IN (SELECT uuid FROM cards) ORDER BY uuid"""
    found = _rows(db, sql, {"beginning": beginning})
    exact = [row for row in found if row["uuid"] == beginning]
    if len(found) > 1 and not exact:
        names = [row["uuid"] for row in found]
        more = " and %d more" % (len(names) - _NAMED) if len(names) > _NAMED else ""
        raise GpuSwarmError("%d cards begin with %s: %s%s. Name one of them." % (len(names), beginning, ", ".join(names[:_NAMED]), more))
    return (exact or found or [unknown])[0]


# -- reading the file ------------------------------------------------------------------------------------------------


def _meta(db: Any) -> dict[str, int]:
    """Return the times in the table meta."""
    return {row["name"]: row["value"] for row in _rows(db, "SELECT name, value FROM meta WHERE typeof(value) = 'integer'")}


def _rows(db: Any, sql: str, values: Any = ()) -> list[dict[str, Any]]:
    try:
        cursor = db.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor]
    except sqlite3.Error as problem:
        raise error_of(problem) from problem
