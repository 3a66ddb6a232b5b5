# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import member, named
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.shown import difference, is_not_ready


@pytest.mark.parametrize(
    ("wanted", "there", "reported"),
    [
        ({"resources": resources(0, 1)}, {"NVIDIA-GPU": named(1, 0)}, None),
        ({"resources": resources(0, 1)}, {"NVIDIA-GPU": named(0)}, "the manager shows 1 of 2 NVIDIA-GPU"),
        ({"resources": resources(0)}, {"NVIDIA-GPU": named(1)}, "the manager shows 1 of 1 NVIDIA-GPU"),
        ({"resources": resources(0)}, {}, "the manager shows 0 of 1 NVIDIA-GPU"),
        ({"resources": []}, {"SSD": {"type": "discrete", "total": 1, "free": 1}}, None),
        ({"resources": ["VRAM=9"]}, {"VRAM": {"type": "discrete", "total": 9, "free": 1}}, None),
        ({"resources": ["VRAM=9"]}, {"VRAM": {"type": "discrete", "total": 8, "free": 1}}, "the manager shows 8 of 9 VRAM"),
        ({"resources": ["VRAM=9"]}, {}, "the manager shows 0 of 9 VRAM"),
        ({}, {}, None),
    ],
)
def test_differences_are_shown(wanted, there, reported):
    assert difference(wanted, {"resources": there}) == reported


@pytest.mark.parametrize(
    ("node", "not_ready"),
    [
        (None, True),
        ({}, False),
        ({"state": "down"}, True),
        ({"reachability": "reachable"}, False),
        ({"reachability": "unreachable"}, True),
    ],
)
def test_a_node_is_not_ready(node, not_ready):
    assert is_not_ready(None if node is None else {**member("n1"), **node}) is not_ready
