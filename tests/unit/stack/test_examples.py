# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Compose files of docs/examples become stack files with the reservations of their recipe, without a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugins.plugin_utils._stack.translate import translate

FOLDER = Path(__file__).parents[3] / "docs" / "examples"
EXAMPLES = [FOLDER / "fleet" / "compose.yml", *sorted((FOLDER / "stacks").iterdir())]
RESERVED = {
    "compose.yml": {"train": {"NVIDIA-GPU": 1}},
    "spark.yml": {"master": {}, "worker": {"NVIDIA-GPU": 1}},
    "kinds.yml": {"train": {"NVIDIA-H100": 2}, "infer": {"NVIDIA-SLOT": 1}},
    "by_node.yml": {"train": {"NVIDIA-GPU": 1}},
}


def reserved(service: dict[str, Any]) -> dict[str, int]:
    found = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("generic_resources", [])
    return {one["discrete_resource_spec"]["kind"]: one["discrete_resource_spec"]["value"] for one in found}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_has_the_reservations_of_its_recipe(path: Path) -> None:
    stack = translate(path.read_text(), path.name, {}.get, {})
    assert {name: reserved(service) for name, service in stack.document["services"].items()} == RESERVED[path.name]
    assert stack.notes == []
    assert [len(want.matrix) for want in stack.x_gpu.values()] == ([4] if path.name == "by_node.yml" else [])
