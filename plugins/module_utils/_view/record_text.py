# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers from the record as text (pure): who used what, what happened, and the history of a card.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import csv
import io
from typing import Any, Callable, Mapping, Sequence

from .._printable import printable
from .fleet_cards import short
from .fold import paragraphs
from .table import NOTHING, render
from .times import duration, moment

ANSWERS = USAGE, EVENTS, CARD = ("usage", "events", "card")
# All fields of the answers. Each answer has some of these fields.
FIELDS = (
    *("what", "manager", "by", "node", "since", "until", "now", "recorded_since", "last_reading", "rows"),
    *("uuid", "model", "mib", "allocations", "events"),
)
# A value that was not seen, but computed from other times.
ESTIMATED = "~"
OLD_S = 900  # if the last reading is older, something is wrong with the managers' service
_AHEAD_S = 60  # no warning if the clock was set back by less than this
CHECK = "See 'systemctl status gpu-swarm-manager'."
_ACTIVITY = (
    ("%(utilisation_percent)d %% busy", ("utilisation_percent",)),
    ("%(memory_used_mib)d of %(memory_mib)d MiB used", ("memory_used_mib", "memory_mib")),
    ("%(temperature_c)d °C", ("temperature_c",)),
    ("%(power_w)d of %(power_limit_w)d W", ("power_w", "power_limit_w")),
    ("%(sm_clock_mhz)d MHz", ("sm_clock_mhz",)),
    ("%(processes)d processes", ("processes",)),
)
# A spreadsheet would compute a cell that begins with one of these. A name gets a quotation mark before it.
_FORMULA = ("=", "+", "-", "@")
_CSV_COLUMNS = ("name", "kind", "unit", "hours", "cards", "estimated", "running")


def text_of(answer: Mapping[str, Any], width: int | None) -> str:
    """Return the text of an answer of ``recorded``."""
    show: Callable[[Mapping[str, Any], int | None], str] = {USAGE: _usage, EVENTS: _events, CARD: _card}[answer["what"]]
    return "%s\n\n%s" % (show(answer, width), paragraphs(_notes(answer), width))


def csv_of(answer: Mapping[str, Any]) -> str:
    """Return the rows of a usage as CSV with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([answer["by"], *_CSV_COLUMNS[1:]])
    for row in answer["rows"]:
        writer.writerow([_csv_cell(row[name]) for name in _CSV_COLUMNS])
    return stream.getvalue().rstrip("\n")


def _csv_cell(value: Any) -> str:
    if isinstance(value, str):
        text = printable(value)
        return "'" + text if text.startswith(_FORMULA) else text
    return "" if value is None else "%.4f" % value if isinstance(value, float) else str(value)


def _notes(answer: Mapping[str, Any]) -> list[str]:
    """Say how old and how complete the record is."""
    begin, last, now = answer["recorded_since"], answer["last_reading"], answer["now"]
    if begin is None or last is None:
        return ["Nothing is recorded yet. %s" % CHECK]
    place = " on %s" % printable(answer["manager"]) if answer.get("manager") else ""  # the playbook asks one of several managers
    notes = ["Recorded%s since %s UTC. Last reading: %s ago." % (place, moment(begin), duration(max(0, now - last)))]
    notes += age_warnings(now - last)
    if answer.get("since") is not None and begin > answer["since"]:
        notes.append("The record begins later than the time that you asked for.")
    if answer["what"] == USAGE and any(row["estimated"] for row in answer["rows"]):
        notes.append("Estimated hours: the begin or the end of a task was not seen.")
    if answer["what"] == CARD and any(not row["begin_known"] or not row.get("end_known", True) for row in answer["allocations"]):
        notes.append("%s: the time was not seen, but is estimated." % ESTIMATED)
    return notes


def age_warnings(seconds: float) -> list[str]:
    """Say what is wrong with the age of the data, if anything is."""
    if seconds < -_AHEAD_S:
        return ["Its time is %s ahead of this machine's clock, so its age is unknown. %s" % (duration(-seconds), CHECK)]
    return ["That is old. %s" % CHECK] if seconds > OLD_S else []


def _usage(answer: Mapping[str, Any], width: int | None) -> str:
    head = "Used from %s to %s UTC" % (moment(answer["since"]), moment(answer["until"]))
    if not answer["rows"]:
        return head + ": nothing."
    columns = (answer["by"], "kind", "hours", "of", "card-hours", "estimated", "running")
    rows = [
        (row["name"] or NOTHING, row["kind"], _hours(row["hours"]), row["unit"], _hours(row["cards"]), _hours(row["estimated"]), row["running"])
        for row in answer["rows"]
    ]
    return "%s:\n\n%s" % (head, render(columns, rows, width))


def _hours(hours: float | None) -> object:
    return NOTHING if hours is None else round(hours, 1)


def _events(answer: Mapping[str, Any], width: int | None) -> str:
    head = "From %s to %s UTC" % (moment(answer["since"]), moment(answer["until"]))
    return "%s:\n\n%s" % (head, _event_table(answer["rows"], width)) if answer["rows"] else head + ": no events."


def _event_table(events: Sequence[Mapping[str, Any]], width: int | None, of_one_card: bool = False) -> str:
    headings, rows = ["time (UTC)", "node", "what", "details"], []
    for row in events:
        rows.append([moment(row["since"] or row["at"]), row["hostname"] or row["node"] or NOTHING, row["what"], row["text"]])
    if any(row.get("card") for row in events) and not of_one_card:
        headings.insert(2, "card")
        for cells, row in zip(rows, events):
            cells.insert(2, short(row["card"]) if row.get("card") else NOTHING)
    return render(headings, rows, width)


def _card(answer: Mapping[str, Any], width: int | None) -> str:
    facts = [answer["model"], "%d MiB" % answer["mib"] if answer["mib"] else ""]
    parts = [paragraphs([printable(": ".join(filter(None, [answer["uuid"], ", ".join(filter(None, facts))])))], width)]
    if answer.get("activity"):
        parts.append(paragraphs(["Now: %s." % describe_activity(answer["activity"])], width))
    columns = ("from (UTC)", "to", "for", "service", "owner", "node", "kind", "ended")
    rows = [_allocation(row, answer["now"]) for row in answer["allocations"]]
    parts.append(render(columns, rows, width) if rows else "No task is recorded for it.")
    parts.append(_event_table(answer["events"], width, of_one_card=True) if answer["events"] else "No events are recorded for it.")
    return "\n\n".join(parts)


def describe_activity(reading: Mapping[str, Any]) -> str:
    """Describe what a card is doing. Values that its driver does not report are not mentioned."""
    number = {key: value for key, value in reading.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    parts = [form % number for form, keys in _ACTIVITY if all(key in number for key in keys)]
    reasons = reading.get("throttle")
    if isinstance(reasons, list) and reasons:
        parts.append("slowed down: %s" % printable(", ".join(map(str, reasons))))
    return ", ".join(parts) or "unknown"


def _allocation(row: Mapping[str, Any], now: float) -> tuple[object, ...]:
    begin, end = row["begin"], row["end"]
    marks = ["" if known else ESTIMATED for known in (row["begin_known"], row.get("end_known", True) or end is None)]
    length = None if begin is None else max(0, (now if end is None else end) - begin)
    return (
        marks[0] + moment(begin),
        "still running" if end is None else marks[1] + moment(end),
        duration(length),
        row["service"],
        row["owner"] or NOTHING,
        row["hostname"] or row["node"],
        row["kind"],
        row["how"] or NOTHING,
    )
