# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether swarm would restart a task once more where its service limits the attempts (pure).

swarmkit counts restarts in the leader's memory (manager/orchestrator/restart/restart.go), and a drain is one. It keeps one task more
of a slot than the limit (taskreaper/task_reaper.go), so that what is listed is enough. Attempts that are not known count as used.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence, Tuple

from .tasks import epoch

NANOSECONDS = 1e9
UNKNOWN = float("inf")

Key = Tuple[str, int, int]  # of a service, a slot of it, and a version of its specification


class _Limited(NamedTuple):
    """A record of a task whose restarts are to be counted."""

    record: dict[str, Any]
    all_made: Sequence[str]  # when the tasks of its slot and version were made, as the API has it
    made: str  # and when its own was
    attempts: int
    window: int  # in nanoseconds


class Restarts:
    """What one pass over the tasks finds of those whose attempts are limited."""

    def __init__(self) -> None:
        self._made: dict[Key, list[str]] = {}  # when the tasks of one slot and one version were made, as the API has it
        self._limited: list[_Limited] = []

    def see(self, task: Mapping[str, Any], *records: dict[str, Any]) -> None:
        """Counts a task. ``records`` describe it, and after settle() have its ``restarts_left`` and whether it is ``movable`` by them."""
        spec, slot = task.get("Spec") or {}, task.get("Slot")
        policy = spec.get("RestartPolicy")
        # Tasks of global services have no slot. A drain uses up none of their attempts: they are made anew when the node is back.
        if not slot or not policy or not policy.get("MaxAttempts"):
            return
        made = task.get("CreatedAt")
        all_made = self._made.setdefault((task.get("ServiceID"), slot, _version(spec)), [])
        all_made.append(made)
        for record in records:
            self._limited.append(_Limited(record, all_made, made, policy["MaxAttempts"], policy.get("Window") or 0))

    def settle(self) -> None:
        """After the last task."""
        for record, all_made, made, attempts, window in self._limited:
            record["restarts_left"] = max(0, attempts - _used(all_made, made, window / NANOSECONDS))
            record["movable"] = record["movable"] and record["restarts_left"] > 0


def _version(spec: Mapping[str, Any]) -> int:
    """Restarts of another version of the service do not count. The API does not have a task's, so it is known by what differs as a rule;
    two that differ in nothing else count as one."""
    container = spec.get("ContainerSpec") or {}
    lists = (container.get("Env"), container.get("Command"), container.get("Args"))
    return hash((container.get("Image"), spec.get("ForceUpdate"), *[tuple(words) for words in lists if words]))


def _used(all_made: Sequence[str], made: str, window: float) -> int:
    """How many restarts count for a task that was made then. The first task of a slot is none."""
    if len(all_made) == 1 or not window:
        return len(all_made) - 1
    restarts, begin = sorted(_moment(one) for one in all_made)[1:], _moment(made)
    # Counted back not from the end of the task but from when it came into the state that it is in: from its start, for one that runs.
    # It was made before that, by the same clock as the others. Parts of a second are not known here.
    return sum(1 for one in restarts if UNKNOWN in (one, begin) or one + 1 >= begin - window)


def _moment(stamp: str) -> float:
    return epoch(stamp) or UNKNOWN
