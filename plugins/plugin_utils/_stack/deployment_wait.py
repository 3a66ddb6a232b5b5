# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ignores short disturbances during the wait for a stack (pure, except for the clock).

Such disturbances are short silences of a manager, tasks that run for only a moment, and failures from before the deployment. A restart of dockerd or
the election of a leader takes some seconds. The stack is already deployed at that time, so the last answer is used meanwhile. If a command fails at
once, it still runs for a moment each time that swarm restarts it.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Answer = dict[str, Any]
# How long a manager may give no answer (seconds).
LIMIT_S = 60.0
# How long the same tasks must run (seconds). 'docker service create' has the same rule (ServiceProgress in docker/cli).
STEADY_S = 5.0


def tolerate_silence(
    query: Callable[[], Answer],
    first: Answer,
    lost: type[Exception],
    notify: Callable[[str], None],
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[], Answer]:
    """Wrap ``query``: if it raises ``lost``, return the last answer, for up to ``limit_s`` seconds. ``first`` is the first answer."""
    answer, silent_since = first, None

    def query_or_repeat() -> Answer:
        nonlocal answer, silent_since
        try:
            answer, silent_since = query(), None
        except lost as problem:
            if silent_since is None:
                silent_since = clock()
                notify(f"no answer; retrying for up to {limit_s:g} s: {problem}")
            if clock() - silent_since >= limit_s:
                raise
        return answer

    return query_or_repeat


def without_former_failures(before: Mapping[str, Any], answer: Answer) -> Answer:
    """Return the answer without failures from before the deployment."""
    former = {task for service in before["progress"] for task in service["past"]}
    return {**answer, "progress": [_drop_former(service, former) for service in answer["progress"]]}


def _drop_former(service: dict[str, Any], former: set[str]) -> dict[str, Any]:
    """Drop failures of tasks that ended before the deployment. Compare the ids of tasks, not their number, because swarm forgets the oldest tasks.

    Keep former failures of jobs and of services without restarts.
    """
    failures = service["failures"] if service["over"] or service["job"] else len(set(service["ended"]) - former)
    return {**service, "failures": failures, "failed": service["failed"] if failures else ""}


class Steadiness:
    """Tracks how long the tasks of each service have been unchanged. Tasks that already run in ``first``, before the deployment, are steady."""

    def __init__(self, first: Mapping[str, Any], seconds: float = STEADY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._last: Mapping[str, Any] | None = None
        self._unsteady: list[str] = []
        # Services with failed tasks are not steady: their running tasks may be about to fail as well.
        self._since = {
            service["service"]: (_fingerprint(service), -seconds - 1 + clock())
            for service in first["progress"]
            if service["done"] and not service["failures"]
        }

    def unsteady_services(self, answer: Mapping[str, Any]) -> list[str]:
        """Return the services that have been complete for less than ``seconds``.

        Each answer is evaluated only once, when it arrives, because an old answer is repeated while a manager does not answer.
        """
        if answer is self._last:
            return self._unsteady
        now, unsteady = self._clock(), []
        for service in answer["progress"]:
            key, since = self._since.get(service["service"], (None, now))
            if key != _fingerprint(service):
                self._since[service["service"]] = (_fingerprint(service), since := now)
            if service["done"] and service["tasks"] and not service["job"] and now - since < self._seconds:
                unsteady.append(service["service"])
        self._last, self._unsteady = answer, unsteady
        return unsteady


def _fingerprint(service: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the values that must not change. One of them is the specification, because after a change swarm may still have to replace tasks."""
    return service["specified"], *service["tasks"], service["done"]
