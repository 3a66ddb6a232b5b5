# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images of a node (pure): those that a test can be run in, and what one requires of the driver.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping

# The best ones are enough; a node may have hundreds.
KEPT = 3
# What follows from NVIDIA's CUDA images bears this label of theirs.
MAINTAINER, CUDA_TOOLS = "maintainer", "cudatools@nvidia.com"
CUDA = re.compile(r"cuda|nvidia|nvcr\.io/", re.IGNORECASE)
# Without glibc, with which nvidia-smi is linked.
OTHER_LIBC = re.compile(r"alpine|busybox|musl|distroless|scratch", re.IGNORECASE)
ID = re.compile(r"sha256:[0-9a-f]{64}")
# Of the variables by which an image requires a driver, those that do not begin so.
REQUIRE, REQUIRED = "NVIDIA_REQUIRE_", ("NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION")


def candidates(listed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The images of ``GET /images/json`` that come into question, the best first: those of CUDA before others, the newest first.

    Each as ``{id, name, cuda}``. Dangling ones are on their way out, and nobody knows them by a name.
    """
    found = []
    for one in listed:
        names = [name for name in one.get("RepoTags") or [] if name != "<none>:<none>" and not OTHER_LIBC.search(name)]
        if names and ID.fullmatch(one.get("Id", "")):
            cuda = bool(CUDA.search(names[0])) or CUDA_TOOLS in ((one.get("Labels") or {}).get(MAINTAINER) or "")
            found.append((cuda, one.get("Created") or 0, {"id": one["Id"], "name": names[0], "cuda": cuda}))
    return [image for _cuda, _created, image in sorted(found, key=lambda item: item[:2], reverse=True)[:KEPT]]


def required(environment: Iterable[str]) -> dict[str, str]:
    """The variables of an image by which NVIDIA's toolkit decides whether it starts it."""
    pairs = [one.partition("=") for one in environment]
    return {name: value for name, dummy_sign, value in pairs if name.startswith(REQUIRE) or name in REQUIRED}
