# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, B, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed

N1, N2 = node("n1", {"m": "T4"}, resources=named(A, B)), node("n2", {"m": "H100"}, resources=named("GPU-9"))
SMALL = node("n2", resources=())


@pytest.mark.parametrize(
    ("nodes", "options", "elsewhere"),
    [
        ([N1, N2], {}, True),
        ([N1, N2, node("n3")], {}, True),
        ([N1], {}, False),
        ([N1, N2], {"constraints": ["node.hostname==host-n1"]}, False),
        ([N1, N2], {"constraints": ["node.hostname==host-n2"]}, True),  # swarm will move the task to n2 anyway
        ([N1, N2], {"constraints": ["node.labels.m==T4"]}, False),
        ([N1, N2], {"constraints": ["node.labels.m!=P40"]}, True),
        ([N1, N2], {"platforms": [("linux", "x86_64")]}, True),
        ([N1, N2], {"platforms": [("linux", "arm64")]}, False),
        ([N1, N2], {"reserves": {"NVIDIA-GPU": 1}}, True),
        ([N1, N2], {"reserves": {"NVIDIA-GPU": 2}}, False),
        ([N1, SMALL], {"reserves": {"NVIDIA-GPU": 1}}, False),
        ([N1, N2], {"reserves": {"NVIDIA-GPU": 0}}, True),
        ([N1, SMALL], {"reserves": {"NVIDIA-GPU": 0}}, False),
        ([N1, N2], {"reserves": {"MemoryBytes": 1 << 50}}, False),
        ([N1, node("n2", availability="pause")], {}, False),
        ([N1, node("n2", State="down")], {}, False),
        ([N1, N2], {"mode": "Global"}, None),
    ],
)
def test_another_node_may_be_able_to_run_a_task(nodes, options, elsewhere):
    records = ledger(Listed(nodes, [task("t1")], [service(**options)]), "gpu-swarm.")["nodes"]
    assert [one["elsewhere"] for record in records for one in record["tasks"]] == [elsewhere]


def test_for_a_removed_service_this_is_unknown():
    assert ledger(Listed([N1, N2], [task("t1")], []), "gpu-swarm.")["nodes"][0]["tasks"][0]["elsewhere"] is None
