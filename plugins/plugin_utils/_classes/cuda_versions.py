# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks by NVIDIA's compatibility rules whether a node's driver runs an image's version of CUDA (pure).

https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html and
https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .nodes import Facts
from .versions import Version, shown

# How an image runs, best first. Minor-version compatibility has "a limited feature-set".
FULLY, MINOR, FORWARD = range(3)
# The first driver with minor-version compatibility for each CUDA major version. For other major versions the driver must fully support the CUDA.
_MINOR_FROM: dict[int, Version] = {11: (450, 80, 2), 12: (525,), 13: (580,)}
# Models with forward compatibility: data-centre GPUs. The names of a few other models do not show their forward compatibility.
_DATA_CENTER = re.compile(
    r"(?i)Tesla-.*|(?:NVIDIA-)?(?:A(?:2|10|10G|10M|16|30|30X|40|100|100X|800)|B(?:100|200|300)|G(?:H|B)(?:200|300)|H(?:20|100|200|800)|L(?:2|4|20|40|40S|40G)"
    r"|P(?:4|6|40|100)|T(?:4|4G)|V100S?)(?:-.*)?"
)


def compatibility(cuda: Version | None, node: Facts, ptx: bool = False, forward: Sequence[int] = ()) -> tuple[int | None, str]:
    """Return (how code of this CUDA runs on the node, ''), or (None, the reason why it does not).

    ``ptx``: the image needs PTX compilation, which minor-version compatibility does not cover. ``forward`` are the driver branches, such as 535, for
    which NVIDIA's table lists the cuda-compat package of the image.
    """
    if cuda is None:
        return FULLY, ""
    if node.cuda is None:
        return None, "no label shows the CUDA version of its driver"
    if node.cuda.version >= cuda:
        return FULLY, ""
    if not ptx and _is_minor(cuda, node):
        return MINOR, ""
    if node.driver and node.driver[0] in forward and node.model and _DATA_CENTER.fullmatch(node.model):
        return FORWARD, ""
    return None, f"its driver has CUDA {shown(node.cuda.version)}, not {shown(cuda)}{_why(cuda, node, ptx, forward)}"


def _is_minor(cuda: Version, node: Facts) -> bool:
    first_driver = _MINOR_FROM.get(cuda[0])
    if first_driver is None or node.cuda is None or node.driver is None:
        return False
    return node.cuda.version[0] == cuda[0] and node.driver >= first_driver


def _why(cuda: Version, node: Facts, ptx: bool, forward: Sequence[int]) -> str:
    if ptx and _is_minor(cuda, node):
        return ", and minor-version compatibility does not cover PTX"
    if forward and node.driver and node.driver[0] not in forward:
        return f", and driver {node.driver[0]} is none of {', '.join(map(str, forward))}, which have forward compatibility"
    if forward:
        return ", and only data-centre GPUs have forward compatibility"
    return ""


def branches(value: Any) -> list[int] | None:
    """Parse driver branches. Return None if a branch is invalid."""
    entries = value if isinstance(value, list) else [value]
    texts = ["" if isinstance(entry, bool) else str(entry) for entry in entries]
    valid = all(text.isascii() and text.isdecimal() and 300 <= int(text) < 10_000 for text in texts)
    return sorted(map(int, texts)) if valid else None
