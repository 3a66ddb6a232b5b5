# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import record


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
        ("Tesla K80", "Tesla-K80"),
        ("NVIDIA RTX A6000 (rev. 2)", "NVIDIA-RTX-A6000-rev.-2"),
        ("Orin (nvgpu)", "Orin-nvgpu"),
        (" _odd=name, ", "odd-name"),
    ],
)
def test_a_name_becomes_a_label(name, model):
    assert record.label_safe(name) == model


@pytest.mark.parametrize(
    ("capability", "architecture"),
    [
        ((2, 1), None),
        ((3, 7), "kepler"),
        ((5, 2), "maxwell"),
        ((6, 1), "pascal"),
        ((7, 2), "volta"),
        ((7, 5), "turing"),
        ((8, 6), "ampere"),
        ((8, 9), "ada"),
        ((9, 0), "hopper"),
        ((12, 1), "blackwell"),
        ((99, 0), None),
    ],
)
def test_architecture_by_compute_capability(capability, architecture):
    assert record.architecture_of(capability) == architecture


@pytest.mark.parametrize(
    ("name", "slices", "compute", "memory", "total", "profile"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 3, 3, 40192, 81920, "3g.40gb"),
        ("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", 3, 1, 40192, 81920, "1c.3g.40gb"),
        ("NVIDIA H100 MIG 1g.10gb+me", 1, 1, 9856, 81559, "1g.10gb+me"),
        ("NVIDIA A100-SXM4-40GB", 1, 1, 4864, 40960, "1g.5gb"),
        ("NVIDIA A100-SXM4-40GB", 3, 3, 19968, 40960, "3g.20gb"),
        ("NVIDIA A100-SXM4-80GB", 7, 7, 80896, 81920, "7g.80gb"),
        (None, 3, 1, 40192, 81920, "1c.3g.40gb"),
        (None, None, None, None, 81920, None),
    ],
)
def test_mig_profile(name, slices, compute, memory, total, profile):
    assert record.profile_of(name, slices, compute, memory, total) == profile


@pytest.mark.parametrize(("masks", "node"), [((), None), ((0, 0), None), ((1,), 0), ((0b1100,), 2), ((0, 2), 65)])
def test_the_numa_node_is_read_from_masks(masks, node):
    assert record.lowest_numa_node(masks) == node


def rows(**changes):
    return {"remapped_rows": dict({"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False}, **changes)}


def pages(**changes):
    return {"retired_pages": dict({"single_bit": 0, "double_bit": 0, "pending": False}, **changes)}


@pytest.mark.parametrize(
    ("health", "state", "word"),
    [
        ({}, "ok", None),
        (rows(correctable=2, uncorrectable=1), "ok", None),
        (rows(pending=True), "warning", "next reset"),
        (rows(failure=True, pending=True), "failed", "replaced"),
        (pages(single_bit=3, double_bit=1), "ok", None),
        (pages(single_bit=2, pending=True), "warning", "next reboot"),
        (pages(double_bit=1, pending=True), "failed", "next reboot"),
        (pages(single_bit=40, double_bit=20), "warning", "60 memory pages"),
        ({"ecc_errors_uncorrected": 2}, "warning", "2 uncorrected"),
        ({"ecc_errors_corrected": 9}, "ok", None),
    ],
)
def test_counters_decide_the_state_of_a_gpu(health, state, word):
    gpu = record.empty_record(0)
    gpu["health"].update(health)
    record.rate_health(gpu)
    assert gpu["health"]["state"] == state
    assert len(gpu["health"]["reasons"]) == (0 if word is None else 1)
    assert word is None or word in gpu["health"]["reasons"][0]


def test_a_failed_gpu_stays_failed():
    gpu = record.empty_record(0)
    record.mark_failed(gpu, "GPU is lost")
    record.mark_failed(gpu, "GPU is lost")
    record.mark_warning(gpu, "something else")
    assert gpu["health"]["state"] == "failed"
    assert gpu["health"]["reasons"] == ["GPU is lost", "something else"]
