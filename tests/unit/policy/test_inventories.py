# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds that count the same GPUs twice."""

from __future__ import annotations

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.inventories import find_double_counting


def test_a_shortened_uuid_is_found_among_thousands_of_a_node_that_lies():
    """Comparing each value with each other would take minutes, in each reading of a manager."""
    kinds = {f"K{kind}": [f"GPU-{kind}-{number:05}" for number in range(20000)] for kind in range(3)}
    assert find_double_counting(kinds) is None
    assert find_double_counting({**kinds, "OTHER": ["gpu-2-1999"]}) == ("K2", ["OTHER"])
