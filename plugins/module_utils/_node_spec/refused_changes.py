# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which part of a change may be written (pure). The decision depends on the tasks that the change would evict now, and on each node's option
``evict``.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence

from .._swarm.owned_labels import KEEP
from .._tasks.keep import may_be_moved
from .updates import Change, Decision, Want, plan_one

# A function that returns, for a list of changes, the tasks that each change evicts.
Evictions = Callable[[Sequence[Change]], Sequence[List[Dict[str, Any]]]]

ANY, MOVABLE, NONE = "any", "movable", "none"
CHOICES = [ANY, MOVABLE, NONE]

# Sometimes only a part of a change may be written. For example, if a node's labels must not change, the node can still get its former availability.
WITHOUT_LABELS = {"labels": None, "mark": KEEP}
NOTHING = {**WITHOUT_LABELS, "maintained": None, "availability": None, "remember": False, "role": None}


def decide(
    nodes: Iterable[Mapping[str, Any]], changes: Sequence[Change], wants: Sequence[Want], prefix: str, evictions: Evictions
) -> list[Decision]:
    """Return a Decision for each change, in the order of ``wants``. ``nodes`` are the nodes from the API.

    ``evictions`` returns the tasks that each change in a list evicts (see eviction.py). This function reads all tasks of the swarm, so this code
    calls it at most once, and only if anything changes.
    """
    by_id = {node["ID"]: node for node in nodes}
    choices = [_choices(by_id[change["id"]], change, want, prefix) for change, want in zip(changes, wants)]
    possible = [choice for alternatives in choices for choice in alternatives]
    answers = iter(evictions(possible) if any(change["changed"] for change in changes) else [[] for _change in possible])
    return [_choose(alternatives, [next(answers) for _choice in alternatives], _evict(want)) for alternatives, want in zip(choices, wants)]


def forbidden(evicted: Iterable[dict[str, Any]], evict: str) -> list[dict[str, Any]]:
    """Return the tasks that ``evict`` does not allow to be evicted."""
    return [task for task in evicted if evict == NONE or (evict == MOVABLE and not may_be_moved(task))]


def _evict(want: Want) -> str:
    return want.get("evict") or ANY


def _choices(node: Mapping[str, Any], change: Change, want: Want, prefix: str) -> list[Change]:
    """Return the change and its smaller alternatives, from the whole change to no change."""
    if _evict(want) == ANY or not change["changed"]:
        return [change]
    return [change] + [plan_one(node, dict(want, **less), prefix) for less in (WITHOUT_LABELS, NOTHING)]


def _choose(choices: Sequence[Change], evicted: Sequence[list[dict[str, Any]]], evict: str) -> Decision:
    change, evicted_tasks = next((choice, tasks) for choice, tasks in zip(choices, evicted) if not forbidden(tasks, evict))
    return Decision(change, evicted_tasks, forbidden(evicted[0], evict))
