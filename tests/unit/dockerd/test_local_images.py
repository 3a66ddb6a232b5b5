# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.local_images import candidates

CUDA_TOOLS = {"maintainer": "NVIDIA CORPORATION <cudatools@nvidia.com>"}


def image(name, created=0, labels=None, digit="a"):
    """Return an image in the form of GET /images/json, with null for missing values."""
    return {"Id": "sha256:" + digit * 64, "RepoTags": name and [name], "RepoDigests": None, "Created": created, "Labels": labels}


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ([], []),
        ([image("debian:13", 9), image("nvidia/cuda:12.8.1-base-ubuntu22.04", 1)], ["nvidia/cuda:12.8.1-base-ubuntu22.04", "debian:13"]),
        ([image("nvidia/cuda:12", 1), image("nvidia/cuda:13", 2)], ["nvidia/cuda:13", "nvidia/cuda:12"]),
        ([image("registry.example.org/cuda-13:1", 1), image("shop:7", 2)], ["registry.example.org/cuda-13:1", "shop:7"]),
        ([image("nvcr.io/nvidia/pytorch:25.09-py3", 1), image("shop:7", 2)], ["nvcr.io/nvidia/pytorch:25.09-py3", "shop:7"]),
        # The image is built on a CUDA image and inherits its label.
        ([image("shop:7", 2), image("train:1", 1, CUDA_TOOLS)], ["train:1", "shop:7"]),
        ([image("shop:7", 2, {"maintainer": "x"}), image("web:1", 3)], ["web:1", "shop:7"]),
        # An image without glibc.
        ([image("alpine:3"), image("busybox:latest"), image("nginx:1-alpine"), image("gcr.io/distroless/static:latest")], []),
        # An image without a name.
        ([image(None), image("<none>:<none>"), {"Id": "sha256:" + "a" * 64}], []),
        # A node may have hundreds of images.
        ([image(f"shop:{n}", n) for n in range(9)], ["shop:8", "shop:7", "shop:6"]),
    ],
)
def test_the_newest_cuda_image_comes_first_and_then_the_newest_of_all(listed, names):
    assert [found["name"] for found in candidates(listed)] == names


def test_an_image_is_known_by_its_id():
    assert candidates([image("nvidia/cuda:13", 1)]) == [{"id": "sha256:" + "a" * 64, "name": "nvidia/cuda:13", "cuda": True}]
    assert candidates([dict(image("nvidia/cuda:13"), Id="5bda776c49d0")]) == []
