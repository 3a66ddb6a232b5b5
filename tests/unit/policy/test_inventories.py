# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds that count the same GPUs twice."""

from __future__ import annotations

import random
import sys

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.inventories import double_counting_kinds, find_double_counting


def test_a_shortened_uuid_is_found_among_thousands_of_a_node_that_lies():
    """Comparing each value with each other would take minutes, in each reading of a manager."""
    kinds = {f"K{kind}": [f"GPU-{kind}-{number:05}" for number in range(20000)] for kind in range(3)}
    assert find_double_counting(kinds) is None
    assert find_double_counting({**kinds, "OTHER": ["gpu-2-1999"]}) == ("K2", ["OTHER"])


def test_the_first_kind_is_the_one_that_a_comparison_of_all_kinds_finds():
    chance = random.Random(4)
    found = set()
    for _time in range(3000):
        kinds = {}
        for number in range(chance.randint(0, 5)):
            names = [f"{chance.choice(['GPU-', 'gpu-'])}{''.join(chance.choices('ab', k=chance.randint(1, 5)))}" for _name in range(3)]
            kinds[f"K{number}"] = chance.choice([names, names[:1], names[:2], ["card"], [], 5])
        if chance.random() < 0.1:
            kinds["nvidia.com/gpu"] = chance.choice([0, 4, 80000])
        compared = ((kind, double_counting_kinds(kinds, [kind])) for kind in kinds)
        expected = next(((kind, others) for kind, others in compared if others), None)
        assert find_double_counting(kinds) == expected, kinds
        found.add(expected is None)
    assert found == {True, False}


def steps(work):
    """Return how many bytecode instructions of Python ``work`` takes."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("value", [lambda _number: 7, lambda number: ["card"], lambda number: [f"GPU-{number:05}"]], ids=["number", "other", "GPU"])
def test_the_cost_grows_with_the_number_of_kinds(value):
    """A node can claim very many kinds. If a manager compared each kind with each other kind, one node would keep it busy."""
    few, many = ({f"KIND{number}": value(number) for number in range(count)} for count in (200, 800))
    assert find_double_counting(many) is None
    assert steps(lambda: find_double_counting(many)) < 5 * steps(lambda: find_double_counting(few))
