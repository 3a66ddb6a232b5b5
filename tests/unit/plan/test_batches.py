# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.batches import batches

FLEET = {**{f"h{n}": "H100" for n in range(15)}, **{f"t{n}": "T4" for n in range(5)}}


@pytest.mark.parametrize(
    ("setting", "sizes"),
    [
        (None, [2, *[2] * 9]),
        ("", [2, *[2] * 9]),
        ([], [2, *[2] * 9]),
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
def test_batches_have_these_sizes(setting, sizes):
    cut = batches({}, FLEET, setting)
    assert [len(batch) for batch in cut] == sizes
    assert sorted(name for batch in cut for name in batch) == sorted(FLEET)


def test_the_canary_is_one_of_each_model_and_the_rest_keeps_its_order():
    cut = batches({}, FLEET)
    assert cut[0] == ["h0", "t0"]
    assert [name for batch in cut[1:] for name in batch] == [name for name in FLEET if name not in ("h0", "t0")]


def test_a_small_fleet_goes_one_by_one_after_its_canary():
    assert batches({}, {"a": "T4", "b": "T4", "c": "T4"}) == [["a"], ["b"], ["c"]]
    assert batches({}, {}) == batches({}, {}, 5) == []


# numbers of hosts and of models -> the batches of their canaries
CANARIES = [(5, 5, [1, 1, 1, 1, 1]), (10, 5, [1, 1, 1, 1, 1]), (25, 5, [2, 2, 1]), (60, 5, [3, 2]), (400, 7, [3, 3, 1]), (4, 1, [1])]


@pytest.mark.parametrize(("hosts", "models", "sizes"), CANARIES)
@pytest.mark.parametrize("idle", [True, False])
def test_canaries_go_a_few_at_a_time_and_the_others_only_after_them(hosts, models, sizes, idle):
    fleet = {f"g{number}": f"model {number % models}" for number in range(hosts)}
    cut = batches(fleet, {}) if idle else batches({}, fleet)
    assert [len(batch) for batch in cut[: len(sizes)]] == sizes
    assert [name for batch in cut[: len(sizes)] for name in batch] == list(fleet)[:models]
    assert [name for batch in cut for name in batch] == list(fleet)
    if idle and hosts > models:
        assert len(cut) == len(sizes) + 1  # all other hosts at once


def test_an_idle_canary_is_preferred_to_a_busy_one():
    idle, busy = {"a": "T4", "b": "T4", "c": "H100", "d": "T4"}, {"e": "T4", "f": "A100", "g": "H100", "h": "A100"}
    assert batches(idle, busy) == [["a"], ["c"], ["b", "d"], ["f"], ["e"], ["g"], ["h"]]


@pytest.mark.parametrize(
    ("setting", "cut"),
    [
        (1, [["a"], ["b", "c", "d"], ["e"], ["f"], ["g"], ["h"]]),
        (3, [["a", "b", "c"], ["d"], ["e", "f", "g"], ["h"]]),
        ([1, "75%"], [["a"], ["b", "c", "d"], ["e"], ["f", "g", "h"]]),
        ("100%", [["a", "b", "c", "d"], ["e", "f", "g", "h"]]),
    ],
)
def test_the_size_applies_to_busy_hosts_and_to_canaries_of_idle_ones(setting, cut):
    assert batches(dict.fromkeys("abcd", "T4"), dict.fromkeys("efgh", "T4"), setting) == cut


@pytest.mark.parametrize("setting", [0, "0%", -1, "many", "5 %%", True, 1.5, [1, "x"], {"a": 1}])
def test_an_invalid_size_is_refused(setting):
    with pytest.raises(GpuSwarmError, match=r"provision_batch: .* is not a batch size\. Give a number"):
        batches({}, {"a": "T4"}, setting)
