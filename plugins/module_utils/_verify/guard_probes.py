# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans the tasks that test the guard of a node (pure). One task reserves no GPU and requests all GPUs. Another task requests more than it reserved.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any, Iterable, Iterator, Mapping, Sequence

from .._guard.bundle import VISIBLE
from .._policy import generic_resources

# The kinds of checks. ALLOCATED: a task that reserves GPUs sees exactly these GPUs. The other kinds test an enforcing guard.
# MEMORY: a task that reserves memory of a card sees this card. Only a guard can ensure this.
ALLOCATED, MEMORY, UNRESERVED, BESIDE = "allocated", "memory", "unreserved", "beside"
WITHOUT, MORE = "without a reservation", "with variables that request more than it reserved"
DESCRIPTIONS = {UNRESERVED: WITHOUT, BESIDE: MORE}


def unreserved_check(node_kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the check with a task without a reservation. This check needs no free GPU."""
    return {"probe": UNRESERVED, "variables": [VISIBLE, *map(generic_resources.variable_name, sorted(node_kinds))], "others": _total(node_kinds)}


def beside_checks(node_kinds: Mapping[str, Any], checks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the check with a task that requests more than it reserved.

    The task uses GPUs that ``checks`` leave free. If no GPU is left, the task uses GPUs of ``checks`` in a later round (see ``rounds``).
    """
    used: Counter[str] = Counter()
    for check in checks:
        used[check["kind"]] += check["count"]
    free = [kind for kind in sorted(node_kinds) if node_kinds[kind]["free"]]
    for kind in sorted(free, key=lambda kind: len(node_kinds[kind]["free"]) <= used[kind])[:1]:
        variables = [VISIBLE, generic_resources.variable_name(kind)]
        yield {"probe": BESIDE, "variables": variables, "kind": kind, "count": 1, "others": _total(node_kinds) - 1}


def memory_checks(node: Mapping[str, Any], named: int, memory: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the checks with tasks that reserve memory of a card.

    ``named`` is the number of GPUs that the node advertises by name. ``memory`` is the guard's record of each resource kind: its cards, and the
    smallest amount that a task can use.
    """
    cards = {card for guarded in memory.values() for card in guarded["devices"]}
    for kind, guarded in sorted(memory.items()):
        entry = node["resources"].get(kind)
        if entry is not None and entry["type"] == "discrete" and guarded["devices"] and entry["total"] >= guarded["mib"]:
            devices = list(guarded["devices"])
            others = named + len(cards) - len(devices)
            yield {"probe": MEMORY, "kind": kind, "count": guarded["mib"], "others": others, "expected": devices, "free": entry["free"]}


def rounds(checks: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]], most: int) -> list[list[Any]]:
    """Return the checks in rounds of about ``most``.

    All checks of a node are in one round. The exception is a check that needs a GPU of another check: it is in a later round.
    """
    free = {(node["id"], kind): entry["free"] for node in nodes for kind, entry in node["resources"].items() if entry["type"] == "named"}
    used = Counter({key: -len(values or ()) for key, values in free.items()})
    by_node: dict[str, list[Any]] = {}
    last = []
    for check in checks:
        used[check["node"], check["kind"]] += check["count"]
        if check["probe"] == BESIDE and used[check["node"], check["kind"]] > 0:
            last.append([check])
        else:
            by_node.setdefault(check["node"], []).append(check)
    return _join(by_node.values(), most) + _join(last, most)


def by_service(checks: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Return the checks grouped by their test service, in order. The checks of all slots of one kind on a node are replicas of one service.

    Swarm places all replicas of a new service before any replica runs, so each replica gets its own slot. If separate services were created one after
    the other, a task could get the slot of an ended task.
    """
    return [list(group) for dummy_key, group in groupby(checks, key=lambda check: (check["node"], check["kind"], check["probe"]))]


def _join(parts: Iterable[list[Any]], most: int) -> list[list[Any]]:
    joined: list[list[Any]] = []
    for part in parts:
        if joined and len(joined[-1]) + len(part) <= most:
            joined[-1] += part
        else:
            joined.append(list(part))
    return joined


def _total(node_kinds: Mapping[str, Any]) -> int:
    return sum(entry["total"] for entry in node_kinds.values())
