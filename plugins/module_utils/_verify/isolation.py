# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""With which tasks the guard of a node is tested: one that reserves no GPU and requests all, and one that requests more than it reserved (pure).

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator, Mapping, Sequence

from .._guard.bundle import VISIBLE
from .._guard.decision import EXCLUSIVE, RESERVED
from .._policy import generic_resources

# What a check is of: a task that reserves GPUs and sees these, and with a guard that enforces something, what others get.
ALLOCATED, UNRESERVED, BESIDE = "allocated", "unreserved", "beside"
# The levels of isolation at which something is enforced.
ENFORCED = (RESERVED, EXCLUSIVE)
WITHOUT, MORE = "without a reservation", "with variables that request more than it reserved"
WORDS = {UNRESERVED: WITHOUT, BESIDE: MORE}


def of_nothing(node_kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Of a task without a reservation: it needs no GPU that is free."""
    return {"probe": UNRESERVED, "variables": [VISIBLE, *map(generic_resources.env_name, sorted(node_kinds))], "others": _total(node_kinds)}


def beside(node_kinds: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of a task that requests more than it reserved, where ``checks`` leave a GPU free for it."""
    used: Counter[str] = Counter()
    for check in checks:
        used[check["kind"]] += check["count"]
    kind = next((kind for kind in sorted(node_kinds) if len(node_kinds[kind]["free"]) > used[kind]), None)
    if kind is not None:
        variables = [VISIBLE, generic_resources.env_name(kind)]
        yield {"probe": BESIDE, "variables": variables, "kind": kind, "count": 1, "others": _total(node_kinds) - 1}


def _total(node_kinds: Mapping[str, Any]) -> int:
    return sum(entry["total"] for entry in node_kinds.values())
