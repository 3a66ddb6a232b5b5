# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._batches import batches

FLEET = {**{f"h{n}": "H100" for n in range(15)}, **{f"t{n}": "T4" for n in range(5)}}


@pytest.mark.parametrize(
    ("setting", "sizes"),
    [
        (None, [2, *[2] * 9]),
        ("", [2, *[2] * 9]),
        (1, [1] * 20),
        ("7", [7, 7, 6]),
        ("25%", [5] * 4),
        ("1%", [1] * 20),
        ("100%", [20]),
        (50, [20]),
        ([1, "50%", 4], [1, 10, 4, 4, 1]),
        (["1"], [1] * 20),
    ],
)
def test_sizes(setting, sizes):
    cut = batches(FLEET, setting)
    assert [len(batch) for batch in cut] == sizes
    assert sorted(name for batch in cut for name in batch) == sorted(FLEET)


def test_the_canary_is_one_of_each_model_and_the_rest_keeps_its_order():
    cut = batches(FLEET)
    assert cut[0] == ["h0", "t0"]
    assert [name for batch in cut[1:] for name in batch] == [name for name in FLEET if name not in ("h0", "t0")]


def test_a_small_fleet_goes_one_by_one_after_its_canary():
    assert batches({"a": "T4", "b": "T4", "c": "T4"}) == [["a"], ["b"], ["c"]]
    assert batches({}) == batches({}, 5) == []


@pytest.mark.parametrize("setting", [0, "0%", -1, "many", "5 %%", True, 1.5, [1, "x"], {"a": 1}])
def test_what_is_no_size(setting):
    with pytest.raises(GpuSwarmError, match=r"provision_batch: .* is no size of a batch\. Give a number"):
        batches({"a": "T4"}, setting)
