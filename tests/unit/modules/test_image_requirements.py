# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the answer of a node about its images and its toolkit."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.engine import Engine
from ansible_collections.fleet.gpu_swarm.plugins.modules import image_requirements as module

HAS = {"train": {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}, "plain": {}}


@pytest.mark.parametrize(
    ("version", "config", "enforces"),
    [
        ("1.17.8", None, True),
        ("1.20.0", '[nvidia-container-runtime]\nmode = "auto"\n', False),
        ("1.20.0", '[nvidia-container-runtime]\nmode = "legacy"\n', True),
        (None, None, None),
    ],
)
def test_images_and_toolkit_are_returned(monkeypatch, tmp_path, version, config, enforces):
    monkeypatch.setattr(Engine, "required_by", lambda self, image: HAS.get(image))
    monkeypatch.setattr(module, "SBIN", str(tmp_path))
    if version:
        (tmp_path / "nvidia-ctk").touch(mode=0o755)
    if config:
        (tmp_path / "config.toml").write_text(config)
    params = {"images": ["train", "plain", "absent"], "docker_socket": "/x.sock", "docker_unit": "docker.service"}
    params["runtime_config"] = str(tmp_path / "config.toml")
    found = module.run(params, lambda argv: (0, f"NVIDIA Container Toolkit CLI version {version}\n", ""))
    assert found == {"changed": False, "images": HAS, "enforces": enforces}
