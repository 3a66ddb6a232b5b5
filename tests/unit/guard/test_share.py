# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the variables that tell a task its share of a card."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.reservation import AMOUNT, Part
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.share import FRACTION, MEMORY, SLOTS, share

A, B = "GPU-aaaa", "GPU-bbbb"
CARDS = {A: 16000, B: 80000, "MIG-cccc": 20000}
OVERHEAD = 300


def memory(mib, *cards):
    return Part("VRAM", AMOUNT, cards or (A,), mib)


def slot(number, mib=4000, card=A):
    return Part("NVIDIA-SLOT", f"{card}.slot{number}", (card,), mib)


@pytest.mark.parametrize(
    ("parts", "own", "variables"),
    [
        pytest.param([memory(8000)], [], {MEMORY: "8000", FRACTION: "0.481250"}, id="memory"),
        pytest.param([memory(8000, B)], [], {MEMORY: "8000", FRACTION: "0.096250"}, id="the same memory of another card"),
        pytest.param([memory(301, B)], [], {MEMORY: "301", FRACTION: "0.000012"}, id="rounded down, but not to zero"),
        pytest.param([memory(16000)], [], {MEMORY: "16000", FRACTION: "0.981250"}, id="all memory"),
        pytest.param([slot(1)], [], {SLOTS: f"{A}.slot1", MEMORY: "4000", FRACTION: "0.231250"}, id="a slot"),
        pytest.param([slot(1), slot(2)], [], {SLOTS: f"{A}.slot1,{A}.slot2", MEMORY: "8000", FRACTION: "0.481250"}, id="two slots of a card"),
        pytest.param([slot(1), slot(1, card=B)], [], {SLOTS: f"{A}.slot1,{B}.slot1"}, id="slots of two cards"),
        pytest.param([slot(1, 9000, "MIG-cccc")], [], {SLOTS: "MIG-cccc.slot1", MEMORY: "9000", FRACTION: "0.435000"}, id="a slot of a MIG device"),
        pytest.param([Part("MIG-1g.10gb", "MIG-cccc", ("MIG-cccc",))], [], {}, id="a whole MIG device"),
        pytest.param([Part("NVIDIA-GROUP", f"{A}+{B}", (A, B))], [], {}, id="a group"),
        pytest.param([slot(1, None)], [], {SLOTS: f"{A}.slot1"}, id="a slot with unknown memory"),
        pytest.param([memory(8000), memory(8000, B)], [], {}, id="memory of two cards"),
        pytest.param([memory(8000, A, B)], [], {}, id="memory of a sum"),
        pytest.param([Part("NVIDIA-GPU", A, (A,))], [], {}, id="a whole card"),
        pytest.param([], [f"{MEMORY}=5"], {}, id="nothing"),
        pytest.param([memory(8000, "GPU-ffff")], [], {MEMORY: "8000"}, id="a card whose memory is not known"),
        pytest.param([memory(8000)], [f"{MEMORY}=4300"], {MEMORY: "4300", FRACTION: "0.250000"}, id="what the service sets"),
        pytest.param([memory(8000)], [f"{MEMORY}=1", f"{MEMORY}=4300"], {MEMORY: "4300", FRACTION: "0.250000"}, id="the last of several"),
        pytest.param([memory(8000)], [f"{MEMORY}=8g"], {MEMORY: "8000", FRACTION: "0.481250"}, id="what is no number"),
        pytest.param([memory(8000)], [f"{FRACTION}=0.4"], {MEMORY: "8000"}, id="a fraction of its own"),
        pytest.param([memory(8000)], [f"{FRACTION}=half"], {MEMORY: "8000", FRACTION: "0.481250"}, id="a fraction that is none"),
    ],
)
def test_a_task_learns_its_share(parts, own, variables):
    found = share(parts, own, CARDS, OVERHEAD)
    assert (found.variables, found.beyond, found.too_small) == (variables, "", "")


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ([f"{MEMORY}=8001"], "it sets MAX_CONTAINER_MEMORY=8001, and reserved 8000 MiB"),
        ([f"{FRACTION}=0.5"], "it sets GPU_MEMORY_FRACTION=0.5, and its share is 0.481250"),
        ([f"{MEMORY}=99000"], "reserved 8000 MiB"),
        ([f"{MEMORY}=" + 5000 * "9"], "it sets MAX_CONTAINER_MEMORY to a number of 5000 digits, and reserved 8000 MiB"),
    ],
)
def test_a_larger_share_than_reserved_is_reported(own, words):
    found = share([memory(8000)], own, CARDS, OVERHEAD)
    assert words in found.beyond
    assert float(found.variables.get(FRACTION, 0)) <= 1


@pytest.mark.parametrize("own", [f"{MEMORY}=" + 5000 * "0", f"{MEMORY}=" + 5000 * "0" + "8000", f"{MEMORY}=²"])
def test_an_oddly_written_number_is_no_error(own):
    found = share([memory(8000)], [own], CARDS, OVERHEAD)
    assert (found.variables[MEMORY], found.beyond) == ("8000", "")


def test_a_number_that_is_too_long_does_not_reach_the_task():
    assert share([memory(8000)], [f"{MEMORY}=" + 19 * "9"], CARDS, OVERHEAD).variables[MEMORY] == "8000"


@pytest.mark.parametrize(("parts", "own"), [([memory(300)], []), ([slot(1, 100)], []), ([memory(8000)], [f"{MEMORY}=200"])])
def test_a_share_that_cuda_itself_uses_up_is_too_small(parts, own):
    assert "CUDA takes 300 MiB" in share(parts, own, CARDS, OVERHEAD).too_small


@given(st.integers(1, 10**6), st.integers(0, 1000), st.integers(1, 10**6))
def test_no_fraction_exceeds_the_share(mib, overhead, total):
    found = share([memory(mib)], [], {A: total}, overhead)
    assert bool(found.too_small) == (mib <= overhead)
    if not found.too_small:
        assert 0 < float(found.variables[FRACTION]) <= min(1, (mib - overhead) / total)
