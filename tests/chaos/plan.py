# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What befalls which run, and when: drawn from a seed, so that a failure can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

# What ends at one moment, by name: the run with all its processes, what it had started on the nodes, a node.
CONTROLLER, MODULES, NODE = "controller", "modules", "node"
# As often as each kind stands here it comes in every so many accidents. Where only a node is lost, its run goes on.
KINDS = (
    frozenset({CONTROLLER}),
    frozenset({CONTROLLER}),
    frozenset({CONTROLLER, MODULES}),
    frozenset({CONTROLLER, NODE}),
    frozenset({NODE}),
)
# What the run that is hit is to change: what the run before it was to, a resource that each node offers, or the toolkit too.
SAME, RESOURCES, TOOLKIT = "the same", "resources", "toolkit"
MOST = 4  # accidents before the fleet must be well again


@dataclass(frozen=True)
class Accident:
    number: int
    ends: frozenset[str]
    lost: str  # the node, where one is lost
    change: str
    seed: str

    def moments(self) -> Iterator[float]:
        """Parts of a run's length: the first that is to be tried, then others, should the run have ended before it."""
        draw = random.Random(self.seed)
        while True:
            yield draw.random()


def rounds(seed: int, kills: int, nodes: list[str]) -> list[list[Accident]]:
    """Accidents until the controller was killed so often, and after which of them all must be well again."""
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
