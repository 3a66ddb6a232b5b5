# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arranges the boxes of a downward graph: rows by depth, and in each row an order with few crossings (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Edge = tuple[str, str]


def reduced(edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges, except edges that a longer path implies."""
    below: dict[str, set[str]] = {}
    for one, other in edges:
        below.setdefault(one, set()).add(other)

    def reach(start: str) -> set[str]:
        found: set[str] = set()
        todo = list(below.get(start, ()))
        while todo:
            here = todo.pop()
            if here not in found:
                found.add(here)
                todo += below.get(here, ())
        return found

    return sorted((one, other) for one, others in below.items() for other in others if not any(other in reach(third) for third in others - {other}))


def depths(names: Sequence[str], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the length of the longest path down from each name. All edges must lead from an earlier to a later name in ``names``."""
    below: dict[str, list[str]] = {name: [] for name in names}
    for one, other in edges:
        below[one].append(other)
    found: dict[str, int] = {}
    for name in reversed(names):
        found[name] = max((found[other] + 1 for other in below[name]), default=0)
    return found


@dataclass
class Rows:
    """The rows from top to bottom, with points (``(edge, row)``) where an edge crosses a row.

    ``side`` orders boxes from left to right, by ascending number. ``chains`` has the points of each edge, from its start to its end.
    """

    rows: list[list[object]] = field(default_factory=list)
    chains: dict[Edge, list[object]] = field(default_factory=dict)
    side: dict[object, int] = field(default_factory=dict)


def arrange(depth: Mapping[str, int], edges: Sequence[Edge], side: Mapping[str, int], sweeps: int = 8) -> Rows:
    top = max(depth.values())
    made = Rows([[name for name in depth if top - depth[name] == row] for row in range(top + 1)])
    made.side.update(side)
    for one, other in edges:
        between: list[object] = [((one, other), row) for row in range(top - depth[one] + 1, top - depth[other])]
        for place in between:
            made.rows[place[1]].append(place)  # type: ignore[index]
            made.side[place] = side[other]
        made.chains[one, other] = [one, *between, other]
    links = [pair for chain in made.chains.values() for pair in pairwise(chain)]
    for sweep in range(sweeps):
        rows = made.rows if sweep % 2 == 0 else made.rows[::-1]
        for fixed, row in pairwise(rows):
            _order(row, fixed, links, made.side)
    return made


def _order(row: list[object], fixed: list[object], links: Sequence[tuple[object, object]], side: Mapping[object, int]) -> None:
    """Order a row so that each place is as close as possible to its neighbours in the fixed row."""
    where = {place: (index + 0.5) / len(fixed) for index, place in enumerate(fixed)}
    now = {place: (index + 0.5) / len(row) for index, place in enumerate(row)}

    def middle(place: object) -> float:
        near = [where[other] for pair in links if place in pair for other in pair if other in where]
        return sum(near) / len(near) if near else now[place]

    row.sort(key=lambda place: (side[place], middle(place), now[place]))
