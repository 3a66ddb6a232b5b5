# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The findings of a node's watcher about processes and reservations that differ, and the check of findings that a node returns (pure).

A compromised node can return any text, and processes choose their own names. So invalid findings are dropped, and texts are made printable and short.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple

from .._printable import printable

# used-by-another: another task, or a process without a task, uses an allocated card. not-held: a task uses a card that is not allocated.
# idle: an allocated card has had no process for a long time. no-load: an allocated card has a process, but has computed nothing for a long time.
# outside: a process without a task uses a card that is not allocated.
# seen-by-another: a container without a task can use an allocated card, but has no process there.
USED_BY_ANOTHER, NOT_HELD, IDLE, NO_LOAD, OUTSIDE, SEEN = NAMES = ("used-by-another", "not-held", "idle", "no-load", "outside", "seen-by-another")
# The highest number of findings of one node, and of all nodes.
MAX_FINDINGS, MAX_FINDINGS_OF_ALL = 16, 200

_CARD = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TASK = re.compile(r"[0-9a-z]{0,32}")
_MAX_TEXT = 64
_YEAR_10000 = 253402300800


class Finding(NamedTuple):
    """One difference between the allocations and the processes."""

    name: str
    card: str  # the full UUID of a GPU or MIG device
    task: str  # the id of the task that uses the card or leaves the card idle; empty for a process without a task
    holder: str  # the id of the task to which the card is allocated, if that is another task
    by: str  # the name of the process that uses the card; without a task, the text begins with the user's name
    since: int  # seconds since 1970, by the node's clock


def short_text(text: str) -> str:
    """Return the text, shortened and without control characters."""
    return printable(text[:_MAX_TEXT])[:_MAX_TEXT]


def most_important(findings: Iterable[Finding]) -> list[Finding]:
    """Return the most important findings, at most MAX_FINDINGS."""
    return sorted(findings, key=lambda finding: (NAMES.index(finding.name), finding))[:MAX_FINDINGS]


def as_lists(findings: Iterable[Finding]) -> list[list[Any]]:
    return [list(finding) for finding in findings]


def valid_findings(value: Any) -> list[Finding]:
    """Return the valid findings in a value that comes from a node or from a label of the swarm."""
    items = value[: 2 * MAX_FINDINGS] if isinstance(value, (list, tuple)) else ()
    return most_important({finding for finding in map(_finding, items) if finding is not None})


def _finding(item: Any) -> Finding | None:
    if not isinstance(item, (list, tuple)) or len(item) != len(Finding._fields):
        return None
    *texts, since = item
    if not all(isinstance(text, str) for text in texts) or not isinstance(since, int) or isinstance(since, bool):
        return None
    name, card, task, holder, by = texts
    has_needed_task = bool(task) or name in (USED_BY_ANOTHER, OUTSIDE, SEEN)
    if name not in NAMES or not _CARD.fullmatch(card) or not (_TASK.fullmatch(task) and _TASK.fullmatch(holder)) or not has_needed_task:
        return None
    return Finding(name, card, task, holder, short_text(by), since) if 0 <= since < _YEAR_10000 else None


def are_alike(left: Mapping[str, Iterable[Finding]], other: Mapping[str, Iterable[Finding]]) -> bool:
    """Return whether two mappings of findings by node differ only in their start times."""
    return _without_start_times(left) == _without_start_times(other)


def _without_start_times(by_node: Mapping[str, Iterable[Finding]]) -> dict[str, set[Finding]]:
    return {node: {finding._replace(since=0) for finding in findings} for node, findings in by_node.items() if findings}
