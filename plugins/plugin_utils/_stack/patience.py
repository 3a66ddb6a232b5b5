# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a wait for a stack ignores (pure, except for the clock): short silences of a manager, tasks that run only for a moment, and former failures.

A restart of dockerd or the election of a leader takes some seconds. The stack is already deployed then, so the last answer counts meanwhile.
A command that fails at once is still running for a moment each time that swarm restarts it.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]
# How long a manager may be silent.
LIMIT_S = 60.0
# How long the same tasks must run, as for 'docker service create' (ServiceProgress in docker/cli).
STEADY_S = 5.0


def tolerate_silence(
    query: Callable[[], Answer],
    first: Answer,
    lost: type[Exception],
    say: Callable[[str], None],
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], Answer]:
    """Wrap ``query``: if it raises ``lost``, return the last answer, for up to ``limit_s`` seconds. ``first`` is the first answer."""
    answer, since = first, None

    def again() -> Answer:
        nonlocal answer, since
        try:
            answer, since = query(), None
        except lost as problem:
            if since is None:
                since = clock()
                say(f"no answer; retrying for up to {limit_s:g} s: {problem}")
            if clock() - since >= limit_s:
                raise
        return answer

    return again


def without_former_failures(before: Mapping[str, Any], answer: Answer) -> Answer:
    """The answer without failures from before the deployment."""
    former = {task for one in before["progress"] for task in one["past"]}
    return {**answer, "progress": [_without_former(one, former) for one in answer["progress"]]}


def _without_former(one: dict[str, Any], former: set[str]) -> dict[str, Any]:
    """Compare ids of tasks, because swarm forgets the oldest ones. For jobs and services without restarts, former failures still count."""
    failures = one["failures"] if one["over"] or one["job"] else len(set(one["ended"]) - former)
    return {**one, "failures": failures, "failed": one["failed"] if failures else ""}


class Steadiness:
    """Tracks since when the tasks of each service are unchanged. Tasks that already run in ``first``, before the deployment, are steady."""

    def __init__(self, first: Mapping[str, Any], seconds: float = STEADY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._last: Mapping[str, Any] | None = None
        self._found: list[str] = []
        # Services with failed tasks are not steady: their running tasks may be about to fail as well.
        self._since = {one["service"]: (_key(one), -seconds - 1 + clock()) for one in first["progress"] if one["done"] and not one["failures"]}

    def unsteady_services(self, answer: Mapping[str, Any]) -> list[str]:
        """The services that are complete, but for less than ``seconds``.

        Each answer is evaluated only once, when it arrives, because an old answer is repeated while a manager is silent.
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
    """What must stay unchanged. It includes the specification, because after a change swarm may still have to replace tasks."""
    return one["specified"], *one["tasks"], one["done"]
