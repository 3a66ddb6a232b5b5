# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import assessed, member, named
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report.resource_columns import advertised, free

TWO = resources(0, 1)


def discrete(total, free=None):
    return {"type": "discrete", "total": total, "values": None, "free": total if free is None else free}


def shows(**entries):
    return member(resources={kind.replace("_", "-"): entry for kind, entry in entries.items()})


@pytest.mark.parametrize(
    ("answer", "node", "cell"),
    [
        # The manager shows the decided resources.
        (assessed(), member(), "2 NVIDIA-GPU"),
        (assessed(gpus=0), member(shown=()), "–"),
        # The host is waiting, refused or untouched: the cell shows the current and the decided resources.
        (assessed(), member(shown=(0,)), "1 NVIDIA-GPU (decided: 2)"),
        (assessed(resources=resources(0)), member(shown=(0, 1)), "2 NVIDIA-GPU (decided: 1)"),
        (assessed(resources=resources(0, 2)), member(shown=(0, 1)), "2 NVIDIA-GPU (decided: other NVIDIA-GPU)"),
        (assessed(), member(shown=()), "– (decided: 2 NVIDIA-GPU)"),
        (assessed(gpus=0, drift=["x"]), member(), "2 NVIDIA-GPU (decided: none)"),
        (assessed(drift=["x"]), shows(NVIDIA_GPU=named(0, 1), OLD=named(1)), "2 NVIDIA-GPU, 1 OLD (decided: 2 NVIDIA-GPU)"),
        (assessed(resources=["NVIDIA-T4=GPU-1"]), member(), "2 NVIDIA-GPU (decided: 1 NVIDIA-T4)"),
        (assessed(resources=[*TWO, "VRAM=100"]), member(), "2 NVIDIA-GPU (decided: 100 VRAM)"),
        (assessed(resources=["VRAM=100"]), shows(VRAM=discrete(80)), "80 VRAM (decided: 100)"),
        # Resources that others configured are shown, but do not cause a difference.
        (assessed(), shows(NVIDIA_GPU=named(0, 1), SSD=discrete(4)), "2 NVIDIA-GPU, 4 SSD"),
        (assessed(), shows(NVIDIA_GPU=named(0), SSD=discrete(4)), "1 NVIDIA-GPU, 4 SSD (decided: 2 NVIDIA-GPU)"),
        (assessed(gpus=0), shows(SSD=discrete(4), FPGA={"type": "named", "total": 1, "values": ["f1"], "free": []}), "4 SSD, 1 FPGA"),
        (assessed(gpus=0), shows(FOREIGN=named(0)), "1 FOREIGN"),
        # A running task still holds this resource, but the node no longer offers it.
        (assessed(gpus=0), shows(OLD=discrete(0)), "–"),
        # Nothing could be decided, for example because of a driver mismatch.
        ({"failed": True, "msg": "x"}, member(), "2 NVIDIA-GPU"),
        ({}, None, "–"),
        # The host is in no swarm: the cell shows the resources of the host's daemon.
        (assessed(shown=TWO), None, "2 NVIDIA-GPU"),
        (assessed(shown=resources(0)), None, "1 NVIDIA-GPU (decided: 2)"),
        (assessed(), None, "– (decided: 2 NVIDIA-GPU)"),
        (assessed(restarted=True), None, "2 NVIDIA-GPU"),
        (assessed(gpus=0, engine=None), None, "–"),
    ],
)
def test_advertised_and_decided_resources_are_shown(answer, node, cell):
    assert advertised(answer, node) == cell


@pytest.mark.parametrize(
    ("node", "cell"),
    [
        (None, "–"),
        (member(shown=()), "–"),
        (shows(NVIDIA_GPU=named(0, 1, held=[1])), "1"),
        (shows(NVIDIA_GPU=named(0, 1, held=[0, 1])), "0"),
        (shows(NVIDIA_GPU=named(0, 1), VRAM=discrete(100, free=40)), "2 NVIDIA-GPU, 40 VRAM"),
        (shows(NVIDIA_GPU=named(0, 1), OLD=discrete(0)), "2"),
    ],
)
def test_free_resources_are_those_of_the_manager(node, cell):
    assert free(node) == cell
