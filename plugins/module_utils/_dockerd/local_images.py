# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses images for a test on a node, and reads what an image requires of the driver (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

from .._gpu import driver_capabilities

# How many images to return. A node may have hundreds.
MOST = 3
# Images built from NVIDIA's CUDA images have this label.
MAINTAINER, CUDA_TOOLS = "maintainer", "cudatools@nvidia.com"
CUDA = re.compile(r"cuda|nvidia|nvcr\.io/", re.IGNORECASE)
# Images without glibc, which nvidia-smi needs.
OTHER_LIBC = re.compile(r"alpine|busybox|musl|distroless|scratch", re.IGNORECASE)
ID = re.compile(r"sha256:[0-9a-f]{64}")
# Variables that require something of the driver: all variables with this prefix, and three other variables.
REQUIRE, REQUIRED = "NVIDIA_REQUIRE_", ("NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION", driver_capabilities.VARIABLE)


def candidates(listed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the suitable images of ``GET /images/json``, with the best first: CUDA images before others, new images before old ones.

    Each image is ``{id, name, cuda}``. Images without a name are ignored, because they may be removed soon.
    """
    ranked = []
    for record in listed:
        names = [name for name in record.get("RepoTags") or [] if name != "<none>:<none>" and not OTHER_LIBC.search(name)]
        if names and ID.fullmatch(record.get("Id", "")):
            cuda = bool(CUDA.search(names[0])) or CUDA_TOOLS in ((record.get("Labels") or {}).get(MAINTAINER) or "")
            ranked.append((cuda, record.get("Created") or 0, {"id": record["Id"], "name": names[0], "cuda": cuda}))
    return [image for _cuda, _created, image in sorted(ranked, key=lambda item: item[:2], reverse=True)[:MOST]]


def required(environment: Iterable[str]) -> dict[str, str]:
    """Return the variables of an image by which NVIDIA's toolkit decides whether the container may start, and which parts of the driver it gets."""
    pairs = [entry.partition("=") for entry in environment]
    return {name: value for name, dummy_sign, value in pairs if name.startswith(REQUIRE) or name in REQUIRED}
