# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines that a quiet run prints while it works (pure): steps, the nodes of a rollout, and the current task.

A step is a play of this collection. All times are seconds of one monotonic clock.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._printable import printable

SHOWN_HOSTS = 4  # a line names at most this many hosts
NAME_WIDTH = 55  # the line of a step fits a terminal of 80 columns
DONE = "done"
SHORT_S = 1.0  # a shorter step has no line


class Rollout:
    """The nodes that change in batches: how many there are, and how many are finished."""

    def __init__(self) -> None:
        self.hosts, self.batches, self.batch, self.finished = 0, 0, 0, 0

    def set_plan(self, answer: Mapping[str, Any]) -> None:
        """Read the batches of an answer of provision_plan."""
        batches = answer.get("batches") or []
        self.hosts, self.batches = sum(map(len, batches)), len(batches)
        self.batch, self.finished = 0, 0

    def finish(self, hosts: Iterable[str], outcomes: Mapping[str, str], seconds: float) -> list[str]:
        """Count the hosts of a batch as finished, ``seconds`` after the run began. Return a line for each."""
        lines = []
        for host in hosts:
            self.finished += 1
            lines.append(f"  {host}: {outcomes.get(host, DONE)} (batch {self.batch} of {self.batches}, {self.count()}, {duration(seconds)})")
        return lines

    def count(self) -> str:
        return f"{self.finished} of {self.hosts} nodes"


class Run:
    """The current step, task and hosts of a run. The methods return the lines to print."""

    def __init__(self, now: float) -> None:
        self._began = self._step_began = self._task_began = now
        self._reset()

    def _reset(self) -> None:
        """Forget everything but the time, because the next playbook of the command line has its own steps."""
        self.step, self.rollout, self._task = "", Rollout(), ""
        self._hosts: dict[str, None] = {}  # the hosts of the step, or of the current batch of a rollout
        self._busy: dict[str, None] = {}  # the hosts on which the current task runs
        self._outcomes: dict[str, str] = {}
        self._in_batches, self._opened, self._printed = False, False, False
        self._pending: str | None = None  # the line of the last step, printed when the next step begins

    def begin_play(self, step: str, in_batches: bool, now: float) -> list[str]:
        """Begin a play. ``step`` is '' for a play of the user. In a rollout, Ansible starts the play once for each batch."""
        lines = self._end_batch(now)
        is_next_batch = in_batches and step == self.step
        if not is_next_batch:
            self._end_step(now)
            self.step, self._in_batches, self._step_began, self._opened = step, in_batches, now, False
        self._hosts, self._busy, self._task, self._task_began = {}, {}, "", now
        return lines if step else [*lines, *self._flush()]

    def begin_task(self, task: str, now: float) -> None:
        self._task, self._task_began = task, now

    def begin_host(self, host: str, now: float) -> list[str]:
        lines = [] if host in self._hosts or not self.step else self.open_step()
        self._hosts[host] = self._busy[host] = None
        return lines

    def open_step(self) -> list[str]:
        """Print the line of the previous step. For a rollout, also print its name as a title."""
        if self._opened:
            return []
        self._opened = True
        lines = self._flush()
        if self._in_batches and self.step:
            self._printed = True
            lines.append(self.step)
        if self._in_batches:
            self.rollout.batch = 1
        return lines

    def end_host(self, host: str, outcomes: Mapping[str, str]) -> None:
        self._busy.pop(host, None)
        self._outcomes.update(outcomes)

    def end(self, now: float) -> list[str]:
        """Return the last lines of the run. A run with a single step has no last lines."""
        lines = self._end_batch(now)
        self._end_step(now)
        lines += self._flush() if self._printed else []
        self._reset()
        return lines

    def current(self, now: float) -> tuple[str, float]:
        """Return the line about the current task, or '', and for how many seconds the task has run."""
        hosts, seconds = list(self._busy), now - self._task_began
        if not self.step or not self._hosts:
            return "", seconds
        names = ", ".join(hosts[:SHOWN_HOSTS]) + (f" and {len(hosts) - SHOWN_HOSTS} more" if len(hosts) > SHOWN_HOSTS else "")
        batch = f"batch {self.rollout.batch} of {self.rollout.batches}, {self.rollout.count()} done"
        parts = [batch if self._in_batches else self.step, names, duration(seconds)]
        return f"  {', '.join(filter(None, parts))}: {self._task.rpartition(' : ')[2] or 'begins'}", seconds

    def _end_batch(self, now: float) -> list[str]:
        if not (self._in_batches and self._hosts):
            return []
        lines = self.rollout.finish(self._hosts, self._outcomes, now - self._began)
        self.rollout.batch += 1
        return lines

    def _end_step(self, now: float) -> None:
        if self.step and self._hosts and not self._in_batches and now - self._step_began >= SHORT_S:
            self._pending = step_line(self.step, len(self._hosts), now - self._step_began)

    def _flush(self) -> list[str]:
        lines = [] if self._pending is None else [self._pending]
        self._printed, self._pending = self._printed or bool(lines), None
        return lines


def duration(seconds: float) -> str:
    """Return a duration such as ``8 s``, ``2 min 5 s`` or ``1 h 3 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"


def step_line(name: str, hosts: int, seconds: float) -> str:
    """Return the line of a finished step."""
    return f"{name:{NAME_WIDTH}}  {f'{hosts} hosts' if hosts > 1 else '':>9}  {duration(seconds):>11}"


def outcomes_in(action: str, host: str, result: Mapping[str, Any]) -> dict[str, str]:
    """Return the outcome of a host in a task's result, as {host: text}: an answer of host_outcome, or the fact gpu_swarm_outcome."""
    outcome = result if action.endswith(".host_outcome") else (result.get("ansible_facts") or {}).get("gpu_swarm_outcome")
    if not isinstance(outcome, Mapping) or not outcome.get("state"):
        return {}
    first_line = str(outcome.get("reason") or "").strip().partition("\n")[0]
    return {host: printable(": ".join(filter(None, [str(outcome["state"]), first_line.partition(". ")[0]])))}


def notes_in(action: str, host: str, result: Mapping[str, Any]) -> list[str]:
    """Return the messages of a debug task of this collection, as lines."""
    if action != "ansible.builtin.debug":
        return []
    items = result["results"] if isinstance(result.get("results"), list) else [result]
    messages = [item["msg"] for item in items if isinstance(item, Mapping) and item.get("msg") and not item.get("skipped")]
    return [
        f"  {host}: {printable(message if isinstance(message, str) else json.dumps(message, ensure_ascii=False, default=str))}"
        for message in messages
    ]
