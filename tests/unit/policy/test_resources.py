# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import generic_resources


@pytest.mark.parametrize(
    ("entries", "parsed"),
    [
        ([], {}),
        (["GPU=GPU-a"], {"GPU": ["GPU-a"]}),
        (["GPU=GPU-a", "SSD=1", "GPU=GPU-b"], {"GPU": ["GPU-a", "GPU-b"], "SSD": 1}),
        (["GPU=GPU-a", "GPU=GPU-a"], {"GPU": ["GPU-a", "GPU-a"]}),
        (["GPU=0"], {"GPU": 0}),
        (["GPU=+7"], {"GPU": 7}),
        ([" GPU = GPU-a "], {"GPU": ["GPU-a"]}),
        # Only Go's decimal integers are numbers.
        (["A=1_000", "B=0x10", "C=1.5", "D=٣"], {"A": ["1_000"], "B": ["0x10"], "C": ["1.5"], "D": ["٣"]}),
        (["A=9223372036854775807", "B=9223372036854775808"], {"A": 2**63 - 1, "B": ["9223372036854775808"]}),
        # A comma separates entries only on the command line, not in daemon.json.
        (["GPU=a,b"], {"GPU": ["a,b"]}),
        # swarmkit treats these as two kinds, although both have the same environment variable.
        (["GPU=a", "gpu=b"], {"GPU": ["a"], "gpu": ["b"]}),
    ],
)
def test_resources_are_parsed(entries, parsed):
    assert generic_resources.parse(entries) == parsed
    assert list(generic_resources.parse(entries)) == list(parsed)


@pytest.mark.parametrize(
    ("entries", "word"),
    [
        (["GPU"], "KIND=value"),
        (["GPU=a=b"], "'GPU=a=b'"),
        (["GPU=1", "GPU=GPU-a"], "mixes"),
        (["GPU=1", "GPU=2"], "mixes"),
        (["GPU=-1"], "negative"),
    ],
)
def test_values_that_swarmkit_refuses_are_refused(entries, word):
    with pytest.raises(generic_resources.ResourceError, match=word):
        generic_resources.parse(entries)


def test_entries_reverse_parsing():
    entries = ["GPU=GPU-a", "GPU=GPU-b", "SSD=1"]
    assert generic_resources.to_entries(generic_resources.parse(entries)) == entries


INFO = [
    {"NamedResourceSpec": {"Kind": "GPU", "Value": "GPU-a"}},
    {"NamedResourceSpec": {"Kind": "GPU", "Value": "GPU-b"}},
    {"DiscreteResourceSpec": {"Kind": "SSD", "Value": 1}},
]


def test_info_is_read_and_written():
    resources = generic_resources.from_info(INFO)
    assert resources == {"GPU": ["GPU-a", "GPU-b"], "SSD": 1}
    assert generic_resources.to_info(resources) == INFO


@pytest.mark.parametrize("nothing", [None, []])
def test_info_without_resources(nothing):
    assert generic_resources.from_info(nothing) == {}


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("NVIDIA-GPU", "DOCKER_RESOURCE_NVIDIA-GPU"),
        ("gpu", "DOCKER_RESOURCE_GPU"),
        ("MIG-1g.10gb", "DOCKER_RESOURCE_MIG-1G.10GB"),
    ],
)
def test_env_name_keeps_dots_and_dashes(kind, variable):
    assert generic_resources.variable_name(kind) == variable


def test_a_long_value_is_shortened():
    assert len(generic_resources.shorten("x" * 1000)) == 60
