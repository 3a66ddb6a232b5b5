# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy of an image that requires another driver than the nodes have.

deploy reports this beforehand, and refuses the stack if a node's toolkit refuses the image.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Loud
from .fleet import CONFIG_TOML, Fleet

PLAYBOOK = "fleet.gpu_swarm.deploy"
IMAGE = "lab/requiring"


@pytest.fixture
def image(fleet: Fleet, first: Loud) -> Iterator[str]:
    """Only one of the GPU nodes has this image."""
    g1 = fleet["g1"]
    container = g1.docker("create", "lab/cuda", "true")
    g1.docker("commit", "--change", "ENV NVIDIA_REQUIRE_CUDA=cuda>=99.1", container, IMAGE)
    g1.docker("rm", container)
    config = g1.read(CONFIG_TOML)
    yield IMAGE
    g1.write(CONFIG_TOML, config)
    g1.docker("rmi", IMAGE)


def test_requirements_of_an_image_are_checked(fleet: Fleet, inventory: Path, image: str, tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(f"services: {{train: {{image: {image}, gpus: [{{count: 1}}]}}}}")
    arguments = ["--check", "-e", f"compose={compose}", "-e", "stack=require"]
    said = f"require_train: its image {image} requires cuda>=99.1, and "
    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert f"note: {said}g1, g2 have cuda " in run.output
    assert "the toolkit there does not check that" in run.output
    assert fleet["g1"].docker("run", "--rm", image, "busybox", "echo", "started") == "started"

    # deploy reads the toolkit's mode on the node, not its version in the inventory.
    fleet["g1"].run("sed", "--in-place", 's/^mode = "auto"/mode = "legacy"/', CONFIG_TOML)
    refused = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert refused.rc == 2, refused.output
    assert f"{said}g1 has cuda " in refused.output
    assert "in legacy mode, refuses such tasks" in refused.output
    started = fleet["g1"].start("docker", "run", "--rm", image, "true", check=False)
    assert "requirement error: unsatisfied condition: cuda>=99.1" in started.stderr.decode()
