# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.labels import Options, is_prefix, node_labels, options_of, size_gb
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import owned_labels

H100 = {
    "model": "NVIDIA-H100-80GB-HBM3",
    "memory_mib": 81559,
    "compute_capability": "9.0",
    "architecture": "hopper",
    "mig": {"mode": "disabled"},
    "links": {"nvlink_active": 18},
}
T4 = {"model": "Tesla-T4", "memory_mib": 15360, "compute_capability": "7.5", "architecture": "turing", "mig": {"mode": None}}
GB10 = {"model": "NVIDIA-GB10", "memory_mib": None, "compute_capability": "12.1", "architecture": "blackwell"}


def labels(*gpus, driver="580.95.05", cuda="13.0", **other):
    return {key.partition(".")[2]: value for key, value in node_labels(list(gpus), driver, cuda, **other).items()}


def test_a_node_with_equal_gpus_has_all_labels():
    assert node_labels([H100, H100], "580.95.05", "13.0") == {
        "gpu.count": "2",
        "gpu.model": "NVIDIA-H100-80GB-HBM3",
        "gpu.architecture": "hopper",
        "gpu.memory": "80",
        "gpu.compute_capability": "9.0",
        "gpu.driver": "580.95.05",
        "gpu.driver_major": "580",
        "gpu.cuda": "13.0",
        "gpu.cuda_major": "13",
        "gpu.mig": "false",
        "gpu.nvlink": "true",
        "gpu.healthy": "true",
        "gpu.mem_ge_16": "true",
        "gpu.mem_ge_24": "true",
        "gpu.mem_ge_40": "true",
        "gpu.mem_ge_80": "true",
        "gpu.cc_ge_7_0": "true",
        "gpu.cc_ge_8_0": "true",
        "gpu.cc_ge_9_0": "true",
        "gpu.cuda_ge_12_0": "true",
        "gpu.cuda_ge_12_4": "true",
        "gpu.cuda_ge_13_0": "true",
    }


def test_different_gpus_are_mixed():
    found = labels(H100, T4)
    for key in ("model", "architecture", "memory", "compute_capability", "nvlink"):
        assert found[key] == "mixed"
    assert (found["count"], found["mig"]) == ("2", "false")
    assert labels(H100, dict(H100, mig={"mode": "enabled"}))["mig"] == "mixed"


def test_labels_have_thresholds():
    found = labels(H100, T4, cuda="12.4")
    assert sorted(key for key in found if "_ge_" in key) == ["cc_ge_7_0", "cuda_ge_12_0", "cuda_ge_12_4", "mem_ge_16"]
    chosen = Options(memory=["15", 17], compute_capability=["7.5", "7.10"], cuda=["9", "12.10"])
    found = labels(T4, cuda="12.9", options=chosen)
    assert sorted(key for key in found if "_ge_" in key) == ["cc_ge_7_5", "cuda_ge_9", "mem_ge_15"]


def test_unknown_values_make_no_label():
    found = labels(GB10, driver=None, cuda=None)
    assert not {"memory", "driver", "driver_major", "cuda", "cuda_major"} & set(found)
    assert not [key for key in found if key.startswith(("mem_ge", "cuda_ge"))]
    assert found["cc_ge_9_0"] == "true"


def test_cards_with_nvlink_have_a_label():
    down = dict(H100, links={"nvlink_active": 0, "nvlink_total": 18})
    without = dict(T4, links={"nvlink_active": None, "nvlink_total": None})  # NVML_ERROR_NOT_SUPPORTED
    assert (labels(H100)["nvlink"], labels(down)["nvlink"]) == ("true", "false")
    assert "nvlink" not in labels(without)
    assert "nvlink" not in labels(GB10)
    assert labels(down, without)["nvlink"] == "mixed"


def test_a_gpu_that_cannot_be_advertised_is_labelled():
    assert labels(H100, failed=True)["healthy"] == "false"
    assert labels(failed=True) == {}


def test_the_prefix_can_be_changed():
    assert set(node_labels([T4], options=Options(prefix="acme.gpu."))) >= {"acme.gpu.count", "acme.gpu.cc_ge_7_0"}
    assert node_labels([T4], options=Options(prefix="")) == {}


# Nominal sizes of cards, and totals with and without ECC, with old and new drivers.
@pytest.mark.parametrize(
    ("mib", "gb"),
    [
        (143771, 141), (95830, 94), (81559, 80), (81251, 80), (81920, 80), (46068, 48), (49140, 48), (40960, 40), (24564, 24),
        (24576, 24), (23028, 24), (22731, 24), (15360, 16), (15109, 16), (16384, 16), (16160, 16), (11441, 12), (12288, 12),
        (11264, 11), (10240, 10), (8192, 8), (7611, 8), (6144, 6), (None, None),
    ],
)  # fmt: skip
def test_memory_has_the_sizes_as_sold(mib, gb):
    assert size_gb(mib) == gb


@given(st.integers(1, 300 * 1024))
def test_a_size_is_a_whole_number_close_to_the_total(mib):
    assert mib / 1024 <= size_gb(mib) <= max(mib / 1024 / 0.92, mib / 1024 + 1)


@given(st.lists(st.sampled_from([H100, T4, GB10, dict(T4, model="Ünknown, \"x\"=1")]), min_size=1, max_size=4), st.booleans())
def test_swarm_accepts_every_label(gpus, failed):
    found = node_labels(gpus, "580.95.05-open (x)", "13.0", failed)
    assert owned_labels.normalise(found, "gpu-swarm.", "n1") == found
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", value) for value in found.values())


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"label_prefix": "gpu-swarm."}, r"label_prefix \(gpu_node_label_prefix\): 'gpu-swarm.' cannot begin .* Nothing was changed"),
        ({"label_prefix": "a b"}, r"label_prefix .*: 'a b'"),
        ({"label_prefix": "example.com/gpu."}, r"label_prefix .*: 'example.com/gpu.' .*that a constraint names"),
        ({"label_cpu_prefix": "a,b"}, "label_cpu_prefix"),
        ({"label_memory": [0]}, "label_memory: 0 is not a number of whole GB"),
        ({"label_cuda": ["x"]}, "label_cuda: 'x' is not a version"),
        ({"label_compute_capability": ["8.0.1"]}, "label_compute_capability: '8.0.1'"),
    ],
)
def test_impossible_options_are_refused(params, words):
    with pytest.raises(GpuSwarmError, match=words):
        options_of(params)


@pytest.mark.parametrize("prefix", ["", "gpu.", "x", "acme-gpu_", "7.", "A" * 60])
def test_valid_prefixes_are_accepted(prefix):
    assert is_prefix(prefix)
    assert options_of({"label_prefix": prefix, "label_cpu_prefix": prefix}).prefix == prefix
    # Swarm's pattern for the key of a constraint (manager/constraint/constraint.go).
    assert re.fullmatch(r"(?i)[a-z_][a-z0-9\-_.]+", f"node.labels.{prefix}compute_capability")


@pytest.mark.parametrize(
    "prefix", [".gpu", "-", "_x", "gpu/", "a b", "a,b", "a=b", "ä.", "gpu-swarm.", "gpu-swarm-x.", "fleet.gpu-swarm.", "x" * 61, "gpu.\n", None, 7]
)
def test_invalid_prefixes_are_refused(prefix):
    assert not is_prefix(prefix)


def test_unset_options_have_defaults():
    assert options_of({}) == Options()
    assert options_of({"label_prefix": "", "label_cuda": ["12.8"]}) == Options(prefix="", cuda=["12.8"])
