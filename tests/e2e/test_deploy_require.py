# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy of an image that requires another driver than the nodes have: reported beforehand, and refused where their toolkit would refuse it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Loud
from .fleet import Fleet

PLAYBOOK = "fleet.gpu_swarm.deploy"
IMAGE = "lab/requiring"


@pytest.fixture
def image(fleet: Fleet, first: Loud) -> Iterator[str]:
    """On the manager only, which is where it is looked at."""
    container = fleet["m1"].docker("create", "lab/task", "true")
    fleet["m1"].docker("commit", "--change", "ENV NVIDIA_REQUIRE_CUDA=cuda>=99.1", container, IMAGE)
    fleet["m1"].docker("rm", container)
    yield IMAGE
    fleet["m1"].docker("rmi", IMAGE)


def test_what_an_image_requires(fleet: Fleet, inventory: Path, image: str, tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(f"services: {{train: {{image: {image}, gpus: [{{count: 1}}]}}}}")
    arguments = ["--check", "-e", f"compose={compose}", "-e", "stack=require"]
    said = f"require_train: its image {image} requires cuda>=99.1, and g1, g2 have cuda "
    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert f"note: {said}" in run.output
    assert "the toolkit there does not check that" in run.output
    refused = fleet.playbook(inventory, *arguments, "-e", "nvidia_container_toolkit_version=1.18.1", playbook=PLAYBOOK)
    assert refused.rc == 2, refused.output
    assert said in refused.output
    assert "in legacy mode, starts no such task" in refused.output
