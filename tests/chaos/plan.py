# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses at random which accident happens in which run, and when. The same seed gives the same accidents, so a failure can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

# What one accident kills, by name: the run with all its processes, its processes on the nodes, or a node.
CONTROLLER, MODULES, NODE = "controller", "modules", "node"
# A kind occurs as often as this list contains it. If only a node is lost, its run continues.
KINDS = (
    frozenset({CONTROLLER}),
    frozenset({CONTROLLER}),
    frozenset({CONTROLLER, MODULES}),
    frozenset({CONTROLLER, NODE}),
    frozenset({NODE}),
)
# The change that the interrupted run makes: that of the previous run again, another resource of each node, or also another toolkit.
SAME, RESOURCES, TOOLKIT = "the same", "resources", "toolkit"
MOST = 4  # accidents before the fleet must be healthy again


@dataclass(frozen=True)
class Accident:
    number: int
    ends: frozenset[str]
    lost: str  # the node, if one is lost
    change: str
    seed: str

    def moments(self) -> Iterator[float]:
        """Yield moments of a run, as fractions of its length. If the run ends before the first moment, try the next ones."""
        draw = random.Random(self.seed)
        while True:
            yield draw.random()


def rounds(seed: int, kills: int, nodes: list[str]) -> list[list[Accident]]:
    """Return groups of accidents with this number of kills of the controller. After each group, everything must be healthy again."""
    draw = random.Random(seed)
    found: list[list[Accident]] = []
    number = killed = left = 0
    kinds: list[frozenset[str]] = []
    while killed < kills:
        kinds = kinds or draw.sample(KINDS, len(KINDS))
        ends, fresh = kinds.pop(0), left == 0
        if fresh:
            left = draw.randint(1, MOST)
            found.append([])
        number, left, killed = number + 1, left - 1, killed + (CONTROLLER in ends)
        change = draw.choice((RESOURCES, TOOLKIT) if fresh else (SAME, SAME, RESOURCES, TOOLKIT))
        found[-1].append(Accident(number, ends, draw.choice(nodes), change, f"{seed}/{number}"))
    return found
