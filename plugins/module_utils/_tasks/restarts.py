# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calculates whether swarm would restart a task again if its service limits the attempts (pure).

swarmkit counts restarts in the leader's memory (manager/orchestrator/restart/restart.go). A drain is a restart too. For each slot swarmkit keeps one
task more than the limit (taskreaper/task_reaper.go), so this code can count the listed tasks. If this code cannot know whether an attempt was used,
it counts the attempt as used.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence, Tuple

from .tasks import epoch

NANOSECONDS = 1e9
UNKNOWN = float("inf")

SlotVersion = Tuple[str, int, int]  # service id, slot, version of the specification


class _Limited(NamedTuple):
    """The record of a task with a limited number of restarts."""

    record: dict[str, Any]
    slot_created: Sequence[str]  # creation times of all tasks of its slot and version, as in the API
    created: str  # its own creation time
    attempts: int
    window: int  # in nanoseconds


class Restarts:
    """Counts the restarts of all tasks with a limit, in one pass over all tasks."""

    def __init__(self) -> None:
        self._created: dict[SlotVersion, list[str]] = {}  # creation times of the tasks of one slot and version, as in the API
        self._limited: list[_Limited] = []

    def add(self, task: Mapping[str, Any], *records: dict[str, Any]) -> None:
        """Count a task. ``records`` describe it: ``fill_records`` sets their ``restarts_left`` and updates ``movable``."""
        spec, slot = task.get("Spec") or {}, task.get("Slot")
        policy = spec.get("RestartPolicy")
        # Tasks of global services have no slot. A drain does not use up their attempts, because swarm creates new tasks when the node is back.
        if not slot or not policy or not policy.get("MaxAttempts"):
            return
        created = task.get("CreatedAt")
        slot_created = self._created.setdefault((task.get("ServiceID"), slot, _version(spec)), [])
        slot_created.append(created)
        for record in records:
            self._limited.append(_Limited(record, slot_created, created, policy["MaxAttempts"], policy.get("Window") or 0))

    def fill_records(self) -> None:
        """Write the results into the records. Call this after the last task."""
        for record, slot_created, created, attempts, window in self._limited:
            record["restarts_left"] = max(0, attempts - _count_restarts(slot_created, created, window / NANOSECONDS))
            record["movable"] = record["movable"] and record["restarts_left"] > 0


def _version(spec: Mapping[str, Any]) -> int:
    """Return a hash that identifies the version of the service, because restarts of another version are not counted.

    The API does not show a task's version, so compare the fields that usually differ. Versions that differ only in other fields are treated as the
    same.
    """
    container = spec.get("ContainerSpec") or {}
    lists = (container.get("Env"), container.get("Command"), container.get("Args"))
    return hash((container.get("Image"), spec.get("ForceUpdate"), *[tuple(words) for words in lists if words]))


def _count_restarts(slot_created: Sequence[str], created: str, window: float) -> int:
    """Return how many restarts of the slot swarmkit counts for a task created at ``created``. The first task of a slot is not a restart."""
    if len(slot_created) == 1 or not window:
        return len(slot_created) - 1
    restarts, begin = sorted(_epoch_or_unknown(stamp) for stamp in slot_created)[1:], _epoch_or_unknown(created)
    # swarmkit's window ends when the task enters its current state (for a running task: when it starts), not when the task ends. This code uses the
    # task's creation time instead. That time is earlier, and belongs to the same clock as the creation times of the other tasks. Timestamps lose
    # their fractions of a second here, so add 1.
    return sum(1 for restart in restarts if UNKNOWN in (restart, begin) or restart + 1 >= begin - window)


def _epoch_or_unknown(stamp: str) -> float:
    return epoch(stamp) or UNKNOWN
