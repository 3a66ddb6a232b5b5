# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds by which another tool or a person counts the same GPUs once more (pure). Swarm gives such a GPU to two tasks.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Collection, Mapping

from .._gpu.record import devices_of

# gpu, GPUs, nvidia.com/gpu, NVIDIA-H100, cuda_devices; not of a word such as "gpuless".
_OF_GPUS = re.compile(r"(?:^|[^a-z])(?:v?gpus?|cuda|nvidia)(?:$|[^a-z])", re.IGNORECASE)
# More than a node has GPUs or slots: such a number is an amount of memory.
_MOST = 64


def counted_again(resources: Mapping[str, Any], kinds: Collection[str]) -> list[str]:
    """The kinds of ``resources`` beside ``kinds`` that name GPUs of theirs, or whose name says that they are a number of GPUs."""
    devices = {device.lower() for kind in kinds for device in devices_in(resources.get(kind))}
    return [kind for kind, value in resources.items() if devices and kind not in kinds and _counts(kind, value, devices)]


def in_two(resources: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """(kind, others) of the first kind whose GPUs are in others as well."""
    for kind in resources:
        others = counted_again(resources, [kind])
        if others:
            return kind, others
    return None


def devices_in(value: Any) -> list[str]:
    """The GPUs and MIG devices that a kind's values name; none of an amount."""
    named = [device for one in value for device in devices_of(one)] if isinstance(value, list) else []
    return [device for device in named if device.upper().startswith(("GPU-", "MIG-"))]


def _counts(kind: str, value: Any, devices: Collection[str]) -> bool:
    if isinstance(value, int):
        return 0 < value <= _MOST and bool(_OF_GPUS.search(kind))
    # A usual recipe shortens UUIDs.
    return any(full.startswith(one.lower()) for one in devices_in(value) for full in devices)
