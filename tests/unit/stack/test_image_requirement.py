# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the requirements of an image for the driver, like NVIDIA's toolkit does."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.plugin_utils._stack.image_requirement import Machine, check_image, is_met, requirements

# From nvidia/cuda:12.4.1-base-ubuntu22.04, shortened.
REAL = "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536"
NODE = {"cuda": "12.2", "driver": "535.104.05", "arch": "7.5", "brand": "tesla"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, []),
        ({"PATH": "/bin"}, []),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, ["cuda>=12.4"]),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12.4", "CUDA_VERSION": "12.4.1"}, ["cuda>=12.4"]),
        ({"CUDA_VERSION": "12.4.1"}, ["cuda>=12.4"]),
        ({"CUDA_VERSION": "v11.0"}, ["cuda>=11.0"]),
        ({"CUDA_VERSION": "8"}, ["cuda>=8.0"]),
        ({"CUDA_VERSION": "8", "NVIDIA_REQUIRE_CUDA": ""}, ["cuda>=8.0"]),
        ({"CUDA_VERSION": "latest"}, []),
        ({"NVIDIA_REQUIRE_B": "driver>=1", "NVIDIA_REQUIRE_CUDA": "cuda>=1"}, ["driver>=1", "cuda>=1"]),
        ({"NVIDIA_REQUIRE_B": "driver>=1", "CUDA_VERSION": "9.2"}, ["driver>=1", "cuda>=9.2"]),
        ({"NVIDIA_REQUIRE_JETPACK": "csv-mounts=all"}, []),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=99", "NVIDIA_DISABLE_REQUIRE": "true"}, []),
        ({"CUDA_VERSION": "99", "NVIDIA_DISABLE_REQUIRE": "1"}, []),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=99", "NVIDIA_DISABLE_REQUIRE": "yes"}, ["cuda>=99"]),  # Go does not read this text as true
    ],
)
def test_these_variables_count(variables: dict[str, str], found: list[str]) -> None:
    assert requirements(variables) == found


@pytest.mark.parametrize(
    ("requirement", "met"),
    [
        ("", True),
        ("cuda>=12.2", True),
        ("cuda>=12.2.0", True),
        ("cuda>=12.4", False),
        ("cuda=12.2", True),
        ("CUDA=12.2", True),
        ("cuda!=12.2", False),
        ("cuda<13", True),
        ("cuda>12", True),
        ("cuda>12.10", False),
        ("driver>=535", True),
        ("driver<536", True),
        ("driver<=535", False),
        ("driver>=535.104.05", True),
        ("arch>=8.0", False),
        ("brand=Tesla", True),
        ("brand!=tesla", False),
        ("cuda>=12.4,driver>=535", False),  # both requirements must be met
        ("cuda>=12.4 driver>=535", True),  # one of the requirements must be met
        ("cuda>=12.4  driver>=536", False),
        (REAL, False),
        (REAL.replace("unknown", "tesla"), True),
        # Unknown requirements do not count as unmet.
        ("memory>=5", None),
        ("cuda>=twelve", None),
        ("brand<tesla", None),
        ("nonsense", None),
        ("nonsense cuda>=1", True),
        ("nonsense,cuda>=99", False),
    ],
)
def test_requirements_are_read(requirement: str, met: bool | None) -> None:
    assert is_met(requirement, NODE) is met


def test_unknown_values_of_a_node_do_not_count_against_it() -> None:
    unknown = {**NODE, "brand": None}
    assert is_met(REAL, unknown) is None
    assert is_met("cuda>=12.4,brand=tesla", unknown) is False


NEEDS = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}


def machine(name: str, cuda: str, enforces: bool | None = False, variables: Any = None) -> Machine:
    return Machine(name, {**NODE, "cuda": cuda}, enforces, NEEDS if variables is None else variables)


def test_a_refusing_toolkit_is_an_error_and_another_one_a_note() -> None:
    assert check_image("s_a", "i", [machine("g1", "12.4", True)]) == (None, [])
    error, notes = check_image("s_a", "i", [machine("g1", "12.2", True), machine("g2", "12.2"), machine("g3", "12.2", None)])
    assert error
    assert error.startswith("s_a: its image i requires cuda>=12.4, and g1 has cuda 12.2; the toolkit there, in legacy mode, refuses such")
    assert notes == []
    error, notes = check_image("s_a", "i", [machine("g1", "12.4", True), machine("g2", "12.2"), machine("g3", "11.8"), machine("g4", "12.0", None)])
    assert error is None
    known, unknown = (note.partition(", and ")[2] for note in notes)
    assert known.startswith("g2, g3 have cuda 12.2; the toolkit there does not check that, so the tasks start but may fail later. To keep ")
    assert unknown.startswith("g4 has cuda 12.0; it is not known whether the toolkit there checks that, so ")


def test_requirements_are_those_of_the_image_on_the_node() -> None:
    """Nodes may have different images under the same name."""
    assert check_image("s_a", "i", [machine("g1", "12.2", True, {}), machine("g2", "12.4", True)]) == (None, [])
    assert check_image("s_a", "i", [machine("g1", "1.0", True, {**NEEDS, "NVIDIA_DISABLE_REQUIRE": "1"})]) == (None, [])
