# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selects the work that somebody asks for, and shows the queues as text (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .._printable import printable, shortened
from .._queue.queue_words import HELD, LOST, MAY_START, OVER, RUNNING, STARTING, UNQUEUED, WAITING
from .._queue.queues import NO_LIMIT, shown_duration
from .._tasks.tasks import epoch
from .._view.fold import fold, paragraphs
from .._view.table import NOTHING, layout
from .._view.times import duration, moment

MOST_SHOWN = 30  # rows of a table; --json has all of them
MOST_OVER = 10
_BELOW = "     "  # the indentation of a sentence below a row
_HELD = "it is held: "
_ADMITTED = (RUNNING, STARTING, LOST)

_SECTIONS = (
    (_ADMITTED, "Running"),
    ((WAITING,), "Waiting, in this order"),
    ((UNQUEUED,), "Cannot be queued"),
    ((HELD,), "Held"),
    ((OVER,), "Over"),
)

View = Mapping[str, Any]
Row = Mapping[str, Any]


def selected(view: View, name: str | None) -> dict[str, Any]:
    """Return the part of the view with this name, which may be that of a queue, an owner, a service, a job or a gang.

    If nothing has this name, the lists of the part are empty.
    """
    if name is None:
        return dict(view)
    work = [row for row in view["work"] if name in _names(row)]
    of_work = {row["queue"] for row in work}
    return dict(view, queues=[queue for queue in view["queues"] if queue["queue"] in {name, *of_work}], work=work)


def _names(row: Row) -> tuple[str, ...]:
    return row["queue"], row["owner"], row["service"], row["service_id"], row["job"], row["gang"]["name"] if row["gang"] else ""


def ahead_of(view: View, row: Row) -> list[str]:
    """Return the waiting services before this one, in order. The members of a gang are not ahead of each other."""
    if row["state"] != WAITING or row["position"] is None:
        return []
    names = []
    for other in view["work"]:
        if other["service_id"] == row["service_id"]:
            break
        is_same_gang = row["gang"] and other["gang"] and (row["owner"], row["gang"]["name"]) == (other["owner"], other["gang"]["name"])
        if other["state"] == WAITING and other["position"] is not None and not is_same_gang:
            names.append(other["service"])
    return names


def asked(amounts: Mapping[str, int]) -> str:
    """Return amounts such as ``2 NVIDIA-GPU``."""
    return printable(", ".join("%d %s" % (amount, kind) for kind, amount in sorted(amounts.items()))) or "no GPU"


def limit_of(seconds: float | None) -> str:
    return NO_LIMIT if seconds is None else shown_duration(seconds)


def queue_text(view: View, shown: View, name: str | None, now: float, width: int | None) -> str:
    """Return the text for the part ``shown`` of the view that belongs to ``name``."""
    if name is not None and len(shown["work"]) == 1 and name in (shown["work"][0]["service"], shown["work"][0]["service_id"]):
        return work_text(view, shown["work"][0], now, width)
    parts = [paragraphs(["Nothing starts: %s." % view["problem"].rstrip(".")], width)] if view["problem"] else []
    parts.append(_queues(shown["queues"], width))
    is_one_queue = name is not None and {row["queue"] for row in shown["work"]} == {name}
    for states, title in _SECTIONS:
        rows = [row for row in shown["work"] if row["state"] in states]
        parts.append(_over_section(rows, name, is_one_queue, now, width) if OVER in states else _section(title, rows, is_one_queue, now, width))
    return "\n\n".join(filter(None, parts)) if shown["queues"] or shown["work"] else "This swarm has no queues. Set gpu_swarm_queues."


def work_text(view: View, row: Row, now: float, width: int | None) -> str:
    """Return all that is known about one service."""
    owner = "%s has no owner" % row["service"] if not row["owner"] else "%s belongs to %s" % (row["service"], row["owner"])
    gang = ", rank %(rank)d of %(size)d in the gang %(name)s" % row["gang"] if row["gang"] else ""
    lines = ["%s%s." % (owner, gang)]
    lines.append("It asks for %s in the queue %s, for at most %s." % (asked(row["amounts"]), row["queue"], _for_limit(row)))
    lines.append(_state_sentence(row, now))
    if row["text"].startswith(_HELD):
        lines.append("%s." % _capital(row["text"][len(_HELD) :].rstrip(".")))
    elif row["text"]:
        text = row["text"].rstrip(".")
        begins_with_name = row["state"] == LOST  # of a node
        is_reason = row["state"] == WAITING and row["reason"] != MAY_START
        lines.append("It waits, because %s." % text if is_reason else "%s." % (text if begins_with_name else _capital(text)))
    ahead = ahead_of(view, row)
    if ahead:
        lines.append("Ahead of it: %s." % shortened(ahead))
    if row["attempt"] > 1 or (row["attempt"] and row["state"] == WAITING):
        lines.append("Attempts so far: %d." % row["attempt"])
    lines += ["Next: %s" % command for command in _next_commands(row)]
    return paragraphs(map(printable, lines), width)


def _for_limit(row: Row) -> str:
    return "any time" if row["time_limit_s"] is None else shown_duration(row["time_limit_s"])


def _state_sentence(row: Row, now: float) -> str:
    since = " since %s UTC (%s)" % (_moment(row["since"]), _age(row, now)) if row["since"] else ""
    if row["state"] == RUNNING:
        ends = "; its time limit ends it at %s UTC" % _moment(row["ends"]) if row["ends"] else ""
        return "It runs on %s%s%s." % (row["node"], since, ends)
    if row["state"] == WAITING:
        return "It waits%s%s." % (" at position %d" % row["position"] if row["position"] else "", since)
    if row["state"] == OVER and row["node"]:
        return "It is over%s. Its last node was %s." % (since, row["node"])
    words = {STARTING: "It starts on %s" % row["node"], LOST: "It has been on %s" % row["node"], OVER: "It is over", HELD: "It is held"}
    return "%s%s." % (words.get(row["state"], "It has waited without a place in its queue"), since)


def _next_commands(row: Row) -> list[str]:
    name = row["service"]
    return {
        RUNNING: ["gpu-swarm logs %s --follow" % name],
        OVER: ["gpu-swarm logs %s" % name],
    }.get(row["state"], [])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- tables ----------------------------------------------------------------------------------------------------------


def _queues(queues: Sequence[Row], width: int | None) -> str:
    rows = []
    for one in queues:
        kinds = sorted({*one["used"], *one["max"]})
        uses = [_used_text(one["used"].get(kind, 0), one["max"].get(kind), kind) for kind in kinds]
        row = [one["queue"], one["priority"], one["weight"], "%.0f %%" % (100 * one["share"]), ", ".join(uses) or "nothing"]
        rows.append([*row, one["running"], one["waiting"], limit_of(one["time_limit_s"])])
    if not rows:
        return ""
    return "\n".join(_table(["queue", "priority", "weight", "share", "uses", "running", "waiting", "limit"], rows, [], width))


def _used_text(used: int, most: int | None, kind: str) -> str:
    return "%d %s" % (used, kind) if most is None else "%d of %d %s" % (used, most, kind)


def _section(title: str, rows: Sequence[Row], is_one_queue: bool, now: float, width: int | None) -> str:
    """Return a table with the sentence of each row below the row. Without a width, the sentence is the last column. If ``is_one_queue``, all
    rows are in the same queue, so the table has no column for the queue."""
    if not rows:
        return ""
    gangs = {} if rows[0]["state"] in _ADMITTED else _members_by_gang_key(rows)
    shown = [row for row in rows if row["service_id"] not in gangs.get(_gang_key(row), [])[1:]]
    cells = [_cells(row, len(gangs.get(_gang_key(row), [])), now) for row in shown[:MOST_SHOWN]]
    if is_one_queue:
        cells = [{heading: cell for heading, cell in row.items() if heading != "queue"} for row in cells]
    lines = _table(list(cells[0]), [list(row.values()) for row in cells], [row["text"] for row in shown[:MOST_SHOWN]], width)
    more = ["and %d more; --json lists all" % (len(shown) - MOST_SHOWN)] if len(shown) > MOST_SHOWN else []
    return "\n".join(["%s:" % title, *lines, *more])


def _cells(row: Row, members: int, now: float) -> dict[str, object]:
    """Return the cells of a row by heading. ``members`` is the number of members of a gang that share the row."""
    owner, amounts = row["owner"] or NOTHING, asked(row["amounts"])
    if row["state"] in _ADMITTED:
        age = _age(row, now) if row["state"] == RUNNING else row["state"]
        ends = epoch(row["ends"])
        left = NOTHING if ends is None else duration(max(0.0, ends - now))
        return {"service": row["service"], "queue": row["queue"], "owner": owner, "has": amounts, "node": row["node"], "for": age, "left": left}
    name, amounts = ("%s (gang of %d)" % (row["service"], members), "%d × %s" % (members, amounts)) if members > 1 else (row["service"], amounts)
    position = {"#": row["position"] or NOTHING} if row["state"] == WAITING else {}
    return {**position, "service": name, "queue": row["queue"], "owner": owner, "asks for": amounts, "for": _age(row, now)}


def _gang_key(row: Row) -> tuple[str, ...]:
    """Return a key that is equal for the members of a gang that share a row; () without a gang."""
    return (row["owner"], row["gang"]["name"], row["queue"], row["text"]) if row["gang"] else ()


def _members_by_gang_key(rows: Sequence[Row]) -> dict[tuple[str, ...], list[str]]:
    """Return the ids of the members by gang."""
    gangs: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row["gang"]:
            gangs.setdefault(_gang_key(row), []).append(row["service_id"])
    return gangs


def _over_section(rows: Sequence[Row], name: str | None, is_one_queue: bool, now: float, width: int | None) -> str:
    if not rows:
        return ""
    if name is None:
        return "Over: %d. 'gpu-swarm queue NAME' shows those of a queue or an owner." % len(rows)
    latest = sorted(rows, key=lambda row: row["since"] or "", reverse=True)[:MOST_OVER]
    headings = ["service", *([] if is_one_queue else ["queue"]), "owner", "node", "ago"]
    queues = [[] if is_one_queue else [row["queue"]] for row in latest]
    cells = [[row["service"], *queues[at], row["owner"] or NOTHING, row["node"] or NOTHING, _age(row, now)] for at, row in enumerate(latest)]
    lines = _table(headings, cells, [row["text"] for row in latest], width)
    more = ["and %d earlier ones; --json lists all" % (len(rows) - MOST_OVER)] if len(rows) > MOST_OVER else []
    return "\n".join(["Over, the latest first:", *lines, *more])


def _table(headings: Sequence[str], cells: Sequence[Sequence[object]], below: Sequence[str], width: int | None) -> list[str]:
    if width is None and any(below):
        headings, cells, below = [*headings, "text"], [[*row, text] for row, text in zip(cells, below)], []
    table = layout(headings, cells, width)
    lines = list(table.head)
    for number, row in enumerate(table.rows):
        lines += row
        if number < len(below) and below[number]:
            lines += fold(below[number], width, _BELOW, _BELOW)
    return lines


def _age(row: Row, now: float) -> str:
    since = epoch(row["since"])
    return NOTHING if since is None else duration(max(0.0, now - since))


def _moment(text: str | None) -> str:
    return moment(epoch(text))
