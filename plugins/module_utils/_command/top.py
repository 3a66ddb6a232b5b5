# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture that ``gpu-swarm top`` draws, and what its keys do (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

from .._printable import printable
from .._tasks.tasks import age
from .._view.fleet_cards import short
from .._view.record_text import age_warnings
from .._view.table import NOTHING
from .._view.times import duration
from .written_files import Snapshot, age_notes

# The lines of the head, an empty line, the headings and the foot.
OTHER_LINES = 6
KEYS = "q quit  s sort  r reverse  / filter  j k space scroll"
# A closed card is free, but its node takes no new tasks.
CLOSED = "closed"
COLOURS = {"faulty": "red", "excluded": "yellow", CLOSED: "yellow"}
_STATES = ("faulty", "excluded", CLOSED, "allocated", "free")
_VENDOR = "NVIDIA-"
_ESCAPE, _ENTER, _BACKSPACE = "\x1b", ("\r", "\n"), ("\x7f", "\x08")
# Terminals send these for the arrows and for a page.
_LINES = {"j": 1, "\x1b[B": 1, "k": -1, "\x1b[A": -1}
_PAGES = {" ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}

Card = Mapping[str, Any]
Line = Mapping[str, str]


class State(NamedTuple):
    """What the user has chosen. ``typing``: whether keys go to the filter. ``first``: the first card that is shown."""

    sort: int = 0
    reverse: bool = False
    filter: str = ""
    typing: bool = False
    first: int = 0
    done: bool = False


# -- keys ------------------------------------------------------------------------------------------------------------


def press(state: State, key: str, page: int) -> State:
    """Return the state after a key. ``page`` is the number of cards on a page."""
    if state.typing:
        return _type(state, key)
    if key in ("q", "\x03", "\x04"):
        return state._replace(done=True)
    if key == "s":
        return state._replace(sort=(state.sort + 1) % len(ORDERS), first=0)
    if key == "r":
        return state._replace(reverse=not state.reverse, first=0)
    if key == "/":
        return state._replace(typing=True, filter="", first=0)
    if key == _ESCAPE:
        return state._replace(filter="", first=0)
    return state._replace(first=max(0, state.first + _LINES.get(key, 0) + page * _PAGES.get(key, 0)))


def _type(state: State, key: str) -> State:
    if key in _ENTER:
        return state._replace(typing=False)
    if key == "\x03":
        return state._replace(done=True)
    if key == _ESCAPE:
        return state._replace(typing=False, filter="")
    if key in _BACKSPACE:
        return state._replace(filter=state.filter[:-1])
    return state._replace(filter=(state.filter + key)[:60], first=0) if key.isprintable() else state


# -- the picture -----------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """``lines`` are pairs of text and colour ('' for none). ``state`` is the state with a valid ``first``."""

    lines: Sequence[tuple[str, str]]
    state: State


def frame(snapshot: Snapshot, activity: Mapping[str, Card], state: State, size: tuple[int, int], now: float) -> Frame:
    """Return the picture of this size (columns, lines). ``activity`` are the readings of this machine's cards by UUID."""
    width, height = size
    rows = [_line(card, activity, now) for card in snapshot.cards]
    rows = sorted(filter(lambda row: _matches(row, state.filter), rows), key=ORDERS[state.sort][1], reverse=state.reverse)
    head = [(text, "") for text in _head(snapshot, now)]
    head[0] = (head[0][0], "yellow" if age_warnings(now - snapshot.at) else "")
    room = page_of(height)
    first = max(0, min(state.first, len(rows) - room))
    columns = _columns(rows[first : first + room], width)
    lines = [*head, ("", ""), (_join({name: name for name in columns}, columns), "reverse")]
    lines += [(_join(row, columns), COLOURS.get(row["state"], "")) for row in rows[first : first + room]]
    lines += [("", "")] * (height - len(lines) - 1) + [(_foot(state, first, room, len(rows)), "")]
    return Frame([(printable(text)[:width], colour) for text, colour in lines[:height]], state._replace(first=first))


def page_of(height: int) -> int:
    """Return how many cards fit on a screen of this height."""
    return max(1, height - OTHER_LINES)


def _head(snapshot: Snapshot, now: float) -> list[str]:
    nodes, pending = snapshot.status.get("nodes") or [], snapshot.status.get("pending") or []
    counts = {name: sum(_state(card) == name for card in snapshot.cards) for name in reversed(_STATES)}
    ready = sum(row["verdict"] == "done" for row in nodes)
    cards = ", ".join("%d %s" % (count, name) for name, count in counts.items() if count)
    waiting = ", ".join("%s %d" % (row["service"], row["needed"]) for row in pending)
    return [
        " ".join(age_notes(snapshot, now)),
        "nodes: %d, ready: %d   cards: %s" % (len(nodes), ready, cards or "none"),
        "pending: %s" % (waiting or "nothing"),
    ]


def _foot(state: State, first: int, room: int, total: int) -> str:
    if state.typing:
        return "filter: %s_   (Enter keeps it, Esc clears it)" % state.filter
    shown = "%d-%d of %d" % (min(first + 1, total), min(first + room, total), total)
    by = "by %s%s" % (ORDERS[state.sort][0], " reversed" if state.reverse else "")
    return "  ".join(filter(None, [shown, by, "filter: %s" % state.filter if state.filter else "", KEYS]))


def _line(card: Card, activity: Mapping[str, Card], now: float) -> Line:
    taken = [part for part in card["parts"] if part["task"]]
    ages = [seconds for seconds in (age(part["since"], now) for part in taken) if seconds is not None]
    owners = sorted({part["owner"] for part in taken if part["owner"]})
    kind = next((part["kind"] for part in card["parts"]), "")
    return {
        "node": card["node"],
        "card": short(card["card"]) if card["card"] else kind,
        "uuid": card["card"] or "",  # for the filter and the order
        "state": _state(card),
        "used": _used(card["parts"]),
        "model": _without_vendor(card["model"]) or NOTHING,
        "owner": ", ".join(owners) or NOTHING,
        "for": duration(max(ages)) if ages else NOTHING,
        "now": _activity(activity.get(str(card["card"]))),
        "task": ", ".join(dict.fromkeys(part["task"] for part in taken)) or card["reason"] or NOTHING,
    }


def _state(card: Card) -> str:
    return CLOSED if card["state"] == "free" and not card["schedulable"] else str(card["state"])


def _without_vendor(model: str) -> str:
    """Return the model without the vendor's name, because the column is narrow."""
    return model[len(_VENDOR) :] if model.startswith(_VENDOR) else model


def _used(parts: Sequence[Card]) -> str:
    """Return how much of the card is allocated, such as 3/4 slots or 3000/8000."""
    if any("amount" in part for part in parts):
        return "%d/%d" % (sum(part["amount"] for part in parts if part["task"]), sum(part["amount"] for part in parts))
    return "%d/%d" % (sum(bool(part["task"]) for part in parts), len(parts)) if parts else NOTHING


def _activity(reading: Card | None) -> str:
    if not reading:
        return ""
    values = (("utilisation_percent", "%d%%"), ("temperature_c", "%d°C"), ("power_w", "%dW"))
    return " ".join(form % reading[name] for name, form in values if isinstance(reading.get(name), (int, float)))


def _matches(row: Line, wanted: str) -> bool:
    return wanted.lower() in " ".join(row.values()).lower()


def _by_node(row: Line) -> object:
    return row["node"], row["uuid"], row["card"]


def _by(name: str) -> Callable[[Line], Any]:
    return lambda row: (row[name] == NOTHING, row[name], row["node"], row["uuid"], row["card"])


ORDERS: Sequence[tuple[str, Callable[[Line], Any]]] = (
    ("node", _by_node),
    ("state", lambda row: (_STATES.index(row["state"]) if row["state"] in _STATES else len(_STATES), row["node"], row["uuid"], row["card"])),
    ("owner", _by("owner")),
    ("model", _by("model")),
    ("task", _by("task")),
)

# The most characters of each column, in the order of the columns. The last column gets the rest.
_WIDEST = (("node", 16), ("card", 14), ("state", 9), ("used", 9), ("model", 14), ("owner", 10), ("for", 6), ("now", 14), ("task", 0))
_LEAST_TASK = 12
# If the terminal is too narrow, these columns are left out in this order.
_DROPPED = ("model", "used", "for", "now", "owner")


def _columns(rows: Sequence[Line], width: int) -> dict[str, int]:
    """Return the widths of the columns that fit."""
    widths = {name: min(most, max([len(name), *(len(row[name]) for row in rows)])) for name, most in _WIDEST if name != "task"}
    if not any(row["now"] for row in rows):
        del widths["now"]  # this machine has none of these cards
    for name in _DROPPED:
        if sum(widths.values()) + 2 * len(widths) + _LEAST_TASK > width:
            widths.pop(name, None)
    return {**widths, "task": max(1, width - sum(widths.values()) - 2 * len(widths))}


def _join(row: Line, columns: Mapping[str, int]) -> str:
    return "  ".join(_cut(printable(row[name]), width).ljust(width) for name, width in columns.items())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
