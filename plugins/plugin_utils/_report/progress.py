# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person sees of a run while it goes on (pure): its steps, the nodes of a roll, and what is waited for.

A step is a play of this collection. Times are of one monotonic clock, in seconds.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._printable import printable

NAMED = 4  # so many hosts are named in a line
NAME_WIDTH = 58
DONE = "done"
SHORT_S = 1.0  # a step that is over sooner has no line


class Roll:
    """The members that are changed in batches: how many there are, and what became of each that is through."""

    def __init__(self) -> None:
        self.hosts, self.batches, self.batch, self.through = 0, 0, 0, 0

    def plan(self, answer: Mapping[str, Any]) -> None:
        """Take hosts and batches from an answer of provision_plan."""
        batches = answer.get("batches") or []
        self.hosts, self.batches = sum(map(len, batches)), len(batches)
        self.batch, self.through = 0, 0

    def lines(self, hosts: Iterable[str], outcomes: Mapping[str, str], seconds: float) -> list[str]:
        """A line for each host of a batch that is over, ``seconds`` after the run began."""
        found = []
        for host in hosts:
            self.through += 1
            found.append(f"  {host}: {outcomes.get(host, DONE)} (batch {self.batch} of {self.batches}, {self.counted()}, {duration(seconds)})")
        return found

    def counted(self) -> str:
        return f"{self.through} of {self.hosts} nodes"


class Run:
    """What a run is at. The methods return the lines to print."""

    def __init__(self, now: float) -> None:
        self._began = self._step_began = self._task_began = now
        self._forget()

    def _forget(self) -> None:
        """Begin anew: the next playbook of a command line is a run of its own, but for the time."""
        self.step, self.roll, self._task = "", Roll(), ""
        self._hosts: dict[str, None] = {}  # of the step, or of the current batch of a roll
        self._at_work: dict[str, None] = {}
        self._outcomes: dict[str, str] = {}
        self._in_batches, self._opened, self._printed = False, False, False
        self._last: str | None = None  # the line of the step before, which is printed when another one begins

    def begin_play(self, step: str, in_batches: bool, now: float) -> list[str]:
        """``step`` is '' for a play that is not of this collection. Each batch of a roll begins its play anew."""
        found = self._end_batch(now)
        same = in_batches and step == self.step
        if not same:
            self._end_step(now)
            self.step, self._in_batches, self._step_began, self._opened = step, in_batches, now, False
        self._hosts, self._at_work, self._task, self._task_began = {}, {}, "", now
        return found if step else [*found, *self._flush()]

    def begin_task(self, task: str, now: float) -> None:
        self._task, self._task_began = task, now

    def begin_host(self, host: str, now: float) -> list[str]:
        found = [] if host in self._hosts or not self.step else self.open_step(now)
        self._hosts[host] = self._at_work[host] = None
        return found

    def open_step(self, _now: float) -> list[str]:
        """The line of the step before; of a roll its name too, as its lines follow."""
        if self._opened:
            return []
        self._opened = True
        found = self._flush()
        if self._in_batches and self.step:
            self._printed = True
            found.append(self.step)
        if self._in_batches:
            self.roll.batch = 1
        return found

    def end_host(self, host: str, outcomes: Mapping[str, str]) -> None:
        self._at_work.pop(host, None)
        self._outcomes.update(outcomes)

    def end(self, now: float) -> list[str]:
        """The last lines of the run: a run of a single step has none."""
        found = self._end_batch(now)
        self._end_step(now)
        found += self._flush() if self._printed else []
        self._forget()
        return found

    def now(self, now: float) -> tuple[str, float]:
        """What the run is at, and for how many seconds it has been at that task."""
        hosts, seconds = list(self._at_work), now - self._task_began
        if not self.step or not self._hosts:
            return "", seconds
        named = ", ".join(hosts[:NAMED]) + (f" and {len(hosts) - NAMED} more" if len(hosts) > NAMED else "")
        of_roll = f"batch {self.roll.batch} of {self.roll.batches}, {self.roll.counted()} done"
        parts = [of_roll if self._in_batches else self.step, named, duration(seconds)]
        return f"  {', '.join(filter(None, parts))}: {self._task.rpartition(' : ')[2] or 'begins'}", seconds

    def _end_batch(self, now: float) -> list[str]:
        if not (self._in_batches and self._hosts):
            return []
        found = self.roll.lines(self._hosts, self._outcomes, now - self._began)
        self.roll.batch += 1
        return found

    def _end_step(self, now: float) -> None:
        if self.step and self._hosts and not self._in_batches and now - self._step_began >= SHORT_S:
            self._last = step_line(self.step, len(self._hosts), now - self._step_began)

    def _flush(self) -> list[str]:
        found = [] if self._last is None else [self._last]
        self._printed, self._last = self._printed or bool(found), None
        return found


def duration(seconds: float) -> str:
    """``8 s``, ``2 min 5 s`` or ``1 h 3 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"


def step_line(name: str, hosts: int, seconds: float) -> str:
    """The line of a step that is over."""
    return f"{name:{NAME_WIDTH}}  {f'{hosts} hosts' if hosts > 1 else '':>9}  {duration(seconds):>12}"


def outcomes_in(action: str, host: str, result: Mapping[str, Any]) -> dict[str, str]:
    """What became of a host, by a task's result: a fact of the host, or the answer of host_outcome."""
    kept = result if action.endswith(".host_outcome") else (result.get("ansible_facts") or {}).get("gpu_swarm_outcome")
    if not isinstance(kept, Mapping) or not kept.get("state"):
        return {}
    first_line = str(kept.get("reason") or "").strip().partition("\n")[0]
    return {host: printable(": ".join(filter(None, [str(kept["state"]), first_line.partition(". ")[0]])))}


def notes_in(action: str, host: str, result: Mapping[str, Any]) -> list[str]:
    """What a task of this collection reports by the module debug."""
    if action != "ansible.builtin.debug":
        return []
    items = result["results"] if isinstance(result.get("results"), list) else [result]
    found = [one["msg"] for one in items if isinstance(one, Mapping) and one.get("msg") and not one.get("skipped")]
    return [f"  {host}: {printable(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, default=str))}" for one in found]
