# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a wait for a stack takes no notice of (pure, but for the clock): a manager that does not answer for a while, tasks that run for a moment, and
those that ended before.

A dockerd that is restarted, or a leader that is elected anew, takes some seconds, and the stack is deployed by then: what it answered last counts.
A command that fails at once is running all the same whenever swarm starts it again.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]
# For so long it may be silent.
LIMIT_S = 60.0
# For so long the same tasks have to run, as with 'docker service create' (ServiceProgress in docker/cli).
STEADY_S = 5.0


def patient(
    query: Callable[[], Answer],
    first: Answer,
    lost: type[Exception],
    say: Callable[[str], None],
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], Answer]:
    """``query`` with the answer before in place of ``lost``, up to ``limit_s`` seconds. ``first`` is the one before its first."""
    answer, since = first, None

    def again() -> Answer:
        nonlocal answer, since
        try:
            answer, since = query(), None
        except lost as problem:
            if since is None:
                since = clock()
                say(f"no answer; queried again for up to {limit_s:g} s: {problem}")
            if clock() - since >= limit_s:
                raise
        return answer

    return again


def since(before: Mapping[str, Any], answer: Answer) -> Answer:
    """The answer without the failures that were there before the deployment."""
    former = {task for one in before["progress"] for task in one["past"]}
    return {**answer, "progress": [_since(one, former) for one in answer["progress"]]}


def _since(one: dict[str, Any], former: set[str]) -> dict[str, Any]:
    """By the ids of tasks, since swarm forgets the oldest ones. Of what restarts no more, and of a job, also those before say how it is now."""
    failures = one["failures"] if one["over"] or one["job"] else len(set(one["ended"]) - former)
    return {**one, "failures": failures, "failed": one["failed"] if failures else ""}


class Steadiness:
    """Since when the tasks of each service are the same. ``first`` is the answer before the deployment: what runs then, and stays, is steady."""

    def __init__(self, first: Mapping[str, Any], seconds: float = STEADY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._last: Mapping[str, Any] | None = None
        self._found: list[str] = []
        # Not of a service with tasks that have ended: what it runs then may be about to end as well.
        self._since = {one["service"]: (_key(one), -seconds - 1 + clock()) for one in first["progress"] if one["done"] and not one["failures"]}

    def unsteady(self, answer: Mapping[str, Any]) -> list[str]:
        """The services that are as they should be, for less than these seconds.

        An answer is judged once, when it came: the one before stands in for a manager that does not answer.
        """
        if answer is self._last:
            return self._found
        now, found = self._clock(), []
        for one in answer["progress"]:
            key, since = self._since.get(one["service"], (None, now))
            if key != _key(one):
                self._since[one["service"]] = (_key(one), since := now)
            if one["done"] and one["tasks"] and not one["job"] and now - since < self._seconds:
                found.append(one["service"])
        self._last, self._found = answer, found
        return found


def _key(one: Mapping[str, Any]) -> tuple[Any, ...]:
    """Of a service that was specified anew, swarm may still have to replace the tasks."""
    return one["specified"], *one["tasks"], one["done"]
