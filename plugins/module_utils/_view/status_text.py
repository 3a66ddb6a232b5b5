# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of a fleet as text (pure): tables that fit the terminal, with colours if the terminal supports them.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence

from .._printable import printable, shortened
from .._queue.queue_words import WAITING
from . import dedicated, isolation_report, shown_queues, status
from .fold import fold
from .table import NOTHING, Table, layout
from .times import duration
from .verdicts import Verdict

MARKS = {status.ALLOCATED: "■", status.FREE: "□", status.FAULTY: "×", status.NOT_ADVERTISED: "·"}
LEGEND = "  ".join(f"{mark} {state}" for state, mark in MARKS.items())
SECTIONS = ("all", "free", "holders", "pending", "faulty")
# If a node has more resources than this, they are counted instead of drawn.
MAX_MARKS = 16
COLOURS = {Verdict.FAILED.value: "red", Verdict.WAITING.value: "yellow"}

Paint = Callable[[str, str], str]


def plain(text: str, _colour: str) -> str:
    return text


class Screen:
    """Renders text for a terminal of one width. ``paint(text, colour)`` colours a line."""

    def __init__(self, width: int | None = None, paint: Paint = plain) -> None:
        self._width, self._paint = width, paint

    def show(self, fleet_status: Mapping[str, Any], what: str) -> str:
        """Return the sections that ``what`` names."""
        sections = {
            "all": (self._nodes, self._totals, self._pending, self._queues, self._allocation_findings),
            "free": (self._free, self._totals),
            "holders": (self._holders, self._allocation_findings),
            "pending": (self._pending, self._queues),
            "faulty": (self._faulty,),
        }[what]
        return "\n\n".join(filter(None, [*(section(fleet_status) for section in sections), self._summary(fleet_status)]))

    def service(self, service: Mapping[str, Any]) -> str:
        """Explain why a service is pending, or where it fits."""
        head = self._fold(f"{service['service']}: {service['text']}")
        work = service.get("queue")
        if work and work["state"] != WAITING:  # where it would fit is no question any more
            return self._paint(head, COLOURS.get(service["verdict"], "green"))
        tasks = f"{service['live']} of {NOTHING if service['wanted'] is None else service['wanted']} tasks have a node, {service['waiting']} wait"
        facts = [
            *([] if work else [tasks + (f" (for {duration(service['age'])})" if service["age"] is not None else "")]),
            f"feasible nodes: {shortened(service['feasible']) or 'none'}"
            + ("" if service["room"] is None else f"; room for {service['room']} tasks"),
            *(fact for fact in service["without_tasks"] if fact not in service["text"] and not work),
            *([f"swarm's message: {service['said']}"] if service["said"] and service["waiting"] else []),
            *(f"not checked: {name}" for name in service["unchecked"]),
        ]
        parts = [self._paint(head, COLOURS.get(service["verdict"], "green")), "\n".join(self._fold(fact, "  ") for fact in facts)]
        if service["excluded"]:
            parts.append(self._table(("filter", "nodes"), [((row["filter"], row["nodes"]), "") for row in service["excluded"]]))
        if service["nearest"]:
            parts.append(self._table(("nearest misses",), [((near["text"],), "") for near in service["nearest"]]))
        return "\n\n".join(parts)

    # -- sections ----------------------------------------------------------------------------------------------------

    def _nodes(self, fleet_status: Mapping[str, Any]) -> str:
        # The allocations come last, because that column is the widest.
        rows = [
            ((row["node"], _state(row), _marks(row["gpus"]), _tasks(fleet_status["holders"], row)), row["verdict"]) for row in fleet_status["nodes"]
        ]
        return self._table(("node", "state", "GPUs", "allocated to"), rows) + f"\n\n{self._fold(LEGEND)}"

    def _totals(self, fleet_status: Mapping[str, Any]) -> str:
        rows = [((row["kind"], row["model"] or NOTHING, *list(row.values())[2:]), "") for row in fleet_status["totals"]]
        return self._table(("kind", "model", "total", "allocated", "free", "schedulable", "most on one node"), rows)

    def _pending(self, fleet_status: Mapping[str, Any]) -> str:
        rows = [((row["service"], row["needed"], duration(row["age"]), row["text"]), row["verdict"]) for row in fleet_status["pending"]]
        return self._table(("service", "tasks", "for", "why it is pending"), rows) if rows else "Nothing is pending."

    def _queues(self, fleet_status: Mapping[str, Any]) -> str:
        """Return what runs and what waits in each queue; '' for a swarm without queues."""
        queue = fleet_status.get("queue")  # an older file of the service has no such key
        if not queue:
            return ""
        table = self._table(("queue", "running", "waiting", "used", "next, and why it waits"), shown_queues.queue_rows(queue))
        return "\n".join([*([table] if queue["queues"] else []), *(self._fold(note) for note in shown_queues.notes(queue))])

    def _free(self, fleet_status: Mapping[str, Any]) -> str:
        rows = [
            ((row["node"], row["kind"], row["free"], row["not placed"] or NOTHING, " ".join(row["resources"])), "") for row in fleet_status["free"]
        ]
        return self._table(("node", "kind", "free", "takes no tasks", "resources"), rows) if rows else "Nothing is free."

    def _holders(self, fleet_status: Mapping[str, Any]) -> str:
        columns = ("node", "task", "owner", "for", "kind", "resource")  # no column for the service: task names begin with its name
        rows = [dict(row, **{"for": duration(row["age"]), "owner": row["owner"] or NOTHING}) for row in fleet_status["holders"]]
        return self._table(columns, [([row[name] for name in columns], "") for row in rows]) if rows else "Nothing is allocated."

    def _faulty(self, fleet_status: Mapping[str, Any]) -> str:
        rows = [((row["node"], row["what"], row["details"]), Verdict.FAILED.value) for row in fleet_status["faulty"]]
        return self._table(("node", "what", "details"), rows) if rows else "Nothing is faulty."

    def _allocation_findings(self, fleet_status: Mapping[str, Any]) -> str:
        """Return the differences between processes and allocations; '' if there are none."""
        rows = [((row["node"], row["card"], row["details"]), Verdict.WAITING.value) for row in fleet_status["allocation_findings"]]
        return self._table(("node", "GPU", "what uses it"), rows) if rows else ""

    def _summary(self, fleet_status: Mapping[str, Any]) -> str:
        ready = sum(row["verdict"] == Verdict.DONE.value for row in fleet_status["nodes"])
        parts = [f"nodes: {len(fleet_status['nodes'])}, ready: {ready}", isolation_report.describe(fleet_status["isolation"])]
        parts += filter(None, [dedicated.describe(fleet_status["on_gpu_nodes"])])
        return "\n".join([*(self._fold(part) for part in parts), *self._commands(fleet_status["on_gpu_nodes"])])

    def _commands(self, services: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the commands as lines. They are not folded, so that they can be copied."""
        commands = dedicated.keep_off_commands(services)
        return ["to keep them off dedicated nodes:", *(f"  {printable(command)}" for command in commands)] if commands else []

    # -- layout ------------------------------------------------------------------------------------------------------

    def _table(self, headings: Sequence[str], rows: Sequence[tuple[Sequence[object], str]]) -> str:
        table: Table = layout(headings, [cells for cells, _verdict in rows], self._width)
        painted = [
            self._paint(line, COLOURS[verdict]) if verdict in COLOURS else line
            for row, (_cells, verdict) in zip(table.rows, rows)
            for line in row
        ]
        return "\n".join([*table.head, *painted])

    def _fold(self, text: str, indent: str = "") -> str:
        return "\n".join(fold(printable(text), self._width, indent, indent + "  "))


def _state(row: Mapping[str, Any]) -> str:
    at_least = f" ≥ {duration(row['for'])}" if row["for"] is not None else ""
    since = f" since {row['since']}" if row["since"] else ""
    return f"{row['state']}{since or at_least}" + (f": {row['why']}" if row["why"] else "")


def _marks(gpus: Mapping[str, Any]) -> str:
    return ", ".join(f"{kind} {_marks_of_kind(marks)}" for kind, marks in gpus.items()) or NOTHING


def _marks_of_kind(marks: Mapping[str, Any]) -> str:
    states = marks["states"]
    if states is None:
        return f"{marks['free']} of {marks['total']} free"
    if len(states) <= MAX_MARKS:
        return "".join(MARKS[state] for state in states)
    return " ".join(f"{states.count(state)}{mark}" for state, mark in MARKS.items() if state in states)


def _tasks(holders: Iterable[Mapping[str, Any]], node: Mapping[str, Any]) -> str:
    details_by_task = {row["task"]: [*filter(None, [row["owner"]]), duration(row["age"])] for row in holders if row["node_id"] == node["id"]}
    return ", ".join(f"{task} ({', '.join(details)})" for task, details in details_by_task.items()) or NOTHING
