# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares what managers tell about a day with what happened (pure): allocations, hours, events, and the holders and faults of cards.

All times are whole seconds since 1970. Each comparison returns the differences as sentences, so that a failed test says what is wrong.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

Row = Mapping[str, Any]
ENDED = frozenset(["complete", "shutdown", "failed", "rejected", "remove", "orphaned"])
HOUR_S = 3600
# Hours are sums of whole seconds, divided by 3600.
ROUNDING_S = 0.01
# What Docker's events call the availability that an event of the record means.
AVAILABILITIES = {"node-paused": "pause", "node-drained": "drain", "node-returned": "active"}
_STATES = {"node-down": "down", "node-up": "ready"}
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def seconds(stamp: str) -> int:
    """Return a time of the Docker API as seconds since 1970."""
    return int(datetime.fromisoformat(f"{stamp[:19]}+00:00").timestamp())


# -- allocations -----------------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """The earliest and the latest time at which something may have happened."""

    earliest: int
    latest: int

    def has(self, time: int) -> bool:
        return self.earliest <= time <= self.latest


class Held(NamedTuple):
    """A card that a task had, as Docker's API showed it. ``end`` is None while the task runs.

    ``unsure`` are the least and the most seconds that may count as estimated. ``is_begin_known`` and ``is_end_known``: whether a manager must know
    these times. None: it may know the time.
    """

    task: str
    service: str
    owner: str
    node: str
    card: str
    begin: Span
    end: Span | None = None
    unsure: Span = Span(0, 0)
    is_begin_known: bool = True
    is_end_known: bool | None = True


def observed(before: Held | None, task: Row, service: str, owner: str, node: str, card: str) -> Held:
    """Return what is known about a task after another look at the API. dockerd may stamp an ended task anew, so the first end counts."""
    created, stamp = seconds(task["CreatedAt"]), seconds(task["Status"]["Timestamp"])
    held = before or Held(task["ID"], service, owner, node, card, Span(created, stamp))
    if task["Status"]["State"] in ENDED and held.end is None:
        return held._replace(end=Span(stamp, stamp))
    return held


def differences(happened: Iterable[Held], told: Iterable[Row]) -> list[str]:
    """Compare tasks with the rows of ``gpu-swarm card``. Each row has its card as ``card``."""
    rows: dict[tuple[str, str], list[Row]] = {}
    for row in told:
        rows.setdefault((row["task"], row["card"]), []).append(row)
    found = []
    for held in happened:
        mine = rows.pop((held.task, held.card), [])
        if len(mine) != 1:
            found.append(f"{held.service}: {len(mine)} rows for the task {held.task} and {held.card}")
        for row in mine:
            found += [f"{held.service} ({held.task}): {text}" for text in _differences(held, row)]
    return found + [f"nothing is known about {row}" for more in rows.values() for row in more]


def _differences(held: Held, row: Row) -> list[str]:
    expected = {"service": held.service, "owner": held.owner, "hostname": held.node, "begin_known": held.is_begin_known}
    found = [f"{key} is {row[key]!r}, expected {value!r}" for key, value in expected.items() if row[key] != value]
    if not held.begin.has(row["begin"]):
        found.append(f"began at {row['begin']}, expected {held.begin}")
    if held.end is None or row["end"] is None:
        return found + ([] if held.end is row["end"] else [f"ended at {row['end']}, expected {held.end}"])
    if not held.end.has(row["end"]):
        found.append(f"ended at {row['end']}, expected {held.end}")
    if held.is_end_known not in (None, row["end_known"]):
        found.append(f"end_known is {row['end_known']}, expected {held.is_end_known}")
    return found


def disagreements(one: Iterable[Row], other: Iterable[Row]) -> tuple[int, list[str]]:
    """Compare the allocations that two managers saw running and ending. Return how many they are, and the differences."""
    first, second = ({(row["task"], row["card"]): row for row in rows if row["begin_known"] and row["end_known"]} for rows in (one, other))
    both, keys = sorted(first.keys() & second.keys()), ("service", "owner", "node", "kind", "value", "begin", "end", "how")
    found = [(name, [(first[name][key], second[name][key]) for key in keys if first[name][key] != second[name][key]]) for name in both]
    return len(both), [f"{name}: {pairs}" for name, pairs in found if pairs]


# -- hours -----------------------------------------------------------------------------------------------------------


def wrong_hours(happened: Iterable[Held], usage: Sequence[Row], last_reading: int) -> list[str]:
    """Compare tasks with the rows of ``gpu-swarm usage --by owner``. A task that still runs counts until the last reading."""
    limits: dict[str, list[int]] = {}
    for held in happened:
        end = held.end or Span(last_reading, last_reading)
        sums = limits.setdefault(held.owner, [0, 0, 0, 0])
        sums[0] += max(0, end.earliest - held.begin.latest)
        sums[1] += max(0, end.latest - held.begin.earliest)
        sums[2] += held.unsure.earliest
        sums[3] += held.unsure.latest
    found = [f"{name} is not in the usage" for name in limits if name not in {row["name"] for row in usage}]
    for row in usage:
        least, most, surely, perhaps = limits.get(row["name"], (0, 0, 0, 0))
        found += _outside(row, "hours", least, most) + _outside(row, "estimated", surely, perhaps)
        if abs(row["cards"] - row["hours"]) * HOUR_S > ROUNDING_S:
            found.append(f"{row['name']}: {row['cards']} card-hours in {row['hours']} hours of whole GPUs")
    return found


def _outside(row: Row, key: str, least: float, most: float) -> list[str]:
    told = row[key] * HOUR_S
    return [] if least - ROUNDING_S <= told <= most + ROUNDING_S else [f"{row['name']}: {told:.1f} s {key}, expected {least} to {most}"]


def wrong_sums(told: Iterable[Row], usage: Iterable[Row], last_reading: int) -> list[str]:
    """Compare the hours of each owner with the sum of the rows of all cards, which come from the same record."""
    sums: Counter[str] = Counter()
    for row in told:
        sums[row["owner"]] += (last_reading if row["end"] is None else row["end"]) - row["begin"]
    found = {row["name"]: row["hours"] * HOUR_S for row in usage}
    return [
        f"{name}: {found.get(name)} s, and the sum of the cards is {sums[name]} s"
        for name in sorted({*sums, *found})
        if abs(found.get(name, 0) - sums[name]) > ROUNDING_S
    ]


# -- events ----------------------------------------------------------------------------------------------------------


def told_twice(events: Iterable[Row]) -> list[str]:
    """Return the events with the same node, kind, card, cause and time."""
    counts = Counter((row["what"], row["hostname"], row["card"], row["cause"], row["since"]) for row in events)
    return [f"{key}: {count} times" for key, count in counts.items() if count > 1]


def invented(events: Iterable[Row], node: str, happened: Sequence[Mapping[str, str]]) -> list[str]:
    """Compare the events of a node, the newest first, with Docker's events of this node: what was told must have happened, in this order.

    A reading may miss a change that was soon changed again, but not the last change.
    """
    oldest_first = reversed([row for row in events if row["hostname"] == node])
    mine = sorted(oldest_first, key=lambda row: row["since"])
    found = []
    for names, key in ((AVAILABILITIES, "availability.new"), (_STATES, "state.new")):
        truth = [_ready_or_down(change[key]) if key == "state.new" else change[key] for change in happened if key in change]
        told = [names[row["what"]] for row in mine if row["what"] in names]
        rest = iter(truth)
        if not all(one in rest for one in told) or (told and told[-1] != truth[-1]):
            found.append(f"{node}: told {told}, happened {truth}")
    return found


def _ready_or_down(state: str) -> str:
    return "ready" if state == "ready" else "down"


# -- holders and faults of cards -------------------------------------------------------------------------------------


class Cards(NamedTuple):
    """``holders`` are the service and the owner of each allocated card. ``faults`` are the cards that are unfit for work."""

    holders: dict[str, tuple[str, str]]
    faults: set[str]


def cards_of_snapshot(cards: Iterable[Row]) -> Cards:
    """Return the same of the ledger's cards: ``gpu-swarm top --json``."""
    rows = list(cards)
    parts = [(row["card"], part) for row in rows for part in row["parts"] if part["task"]]
    return Cards(
        {card: (part["service"], part["owner"] or "") for card, part in parts},
        {row["card"] for row in rows if row["state"] == "faulty"},
    )


def page_data(html: str) -> dict[str, Any]:
    """Return the data of a page. The element comes before the script, which has the same text in it."""
    found = _DATA.search(html)
    assert found, html[:2000]
    data: dict[str, Any] = json.loads(found[1])
    return data


def cards_of_page(data: Mapping[str, Any]) -> Cards:
    names = [*data["names"], ""]  # -1 stands for no name
    holders, faults = {}, set()
    for _node, uuid, _model, _mib, state, _reason, parts in data["cards"]:
        if names[state] == "faulty":
            faults.add(uuid)
        for _kind, _value, _state, task, service, owner, _since in parts:
            if task:
                holders[uuid] = (names[service], names[owner])
    return Cards(holders, faults)


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def samples(text: str) -> list[Sample]:
    """Return the samples of a text in Prometheus' format."""
    return [Sample(name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text)]


def cards_of_metrics(found: Iterable[Sample]) -> Cards:
    listed = list(found)
    return Cards(
        {one.labels["UUID"]: (one.labels["service"], one.labels["owner"]) for one in listed if one.name == "gpu_swarm_gpu_allocated"},
        {one.labels["UUID"] for one in listed if one.name == "gpu_swarm_gpu_fault"},
    )
