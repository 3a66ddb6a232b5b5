# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Compose files of docs/examples become stack files with the reservations of their recipe, without a note."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugins.plugin_utils._stack.translate import translate
from tests.pages.examples import SHOWN

FOLDER = Path(__file__).parents[3] / "docs" / "examples"
# test_recipes.py tests the files that pages show.
RECIPES = {FOLDER.parent / path for paths in SHOWN.values() for path in paths}
STACKS = {*(FOLDER / "stacks").glob("*.yml")} - RECIPES
EXAMPLES = sorted([FOLDER / "fleet" / "compose.yml", FOLDER / "stacks" / "monitoring" / "compose.yml", *STACKS])
RESERVED = {
    "fleet/compose.yml": {"train": {"NVIDIA-GPU": 1}},
    "stacks/spark.yml": {"master": {}, "worker": {"NVIDIA-GPU": 1}},
    "stacks/kinds.yml": {"train": {"NVIDIA-H100": 2}, "infer": {"NVIDIA-SLOT": 1}},
    "stacks/by_node.yml": {"train": {"NVIDIA-GPU": 1}},
    "stacks/page-caddy.yml": {"caddy": {}},
    "stacks/page-nginx.yml": {"nginx": {}},
    "stacks/monitoring/compose.yml": {"prometheus": {}, "node-exporter": {}, "dcgm-exporter": {}, "grafana": {}},
}
CHOSEN = {"stacks/by_node.yml": [4], "stacks/monitoring/compose.yml": [0]}  # the number of images for each service with x-gpu
SEES_ALL = "sets NVIDIA_VISIBLE_DEVICES but reserves no GPU, so it would see GPUs of others. Reserve the GPUs that it needs"
NOTES = {"stacks/monitoring/compose.yml": [f"compose.yml: services.dcgm-exporter {SEES_ALL}"]}
# Files that the user makes.
SECRETS = {"users", "certificate.pem", "key.pem", "grafana-password"}


def reserved(service: dict[str, Any]) -> dict[str, int]:
    found = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("generic_resources", [])
    return {one["discrete_resource_spec"]["kind"]: one["discrete_resource_spec"]["value"] for one in found}


def name_of(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_an_example_has_the_reservations_of_its_recipe(path: Path) -> None:
    def read(name: str) -> bytes | None:
        file = path.parent / name
        return b"secret" if name in SECRETS else file.read_bytes() if file.exists() else None

    stack = translate(path.read_text(), path.name, read, {"MONITORING_NODE": "m1"})
    assert {name: reserved(service) for name, service in stack.document["services"].items()} == RESERVED[name_of(path)]
    assert stack.notes == NOTES.get(name_of(path), [])
    assert [len(want.matrix) for want in stack.x_gpu.values()] == CHOSEN.get(name_of(path), [])
