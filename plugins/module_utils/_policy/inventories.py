# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds kinds that count the same GPUs twice, for example if another tool advertised the GPUs (pure). Swarm would allocate such a GPU to two tasks.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any, Collection, Mapping, Sequence

from .._gpu.record import devices_of

# Matches gpu, GPUs, nvidia.com/gpu, NVIDIA-H100, cuda_devices, but not a word such as "gpuless".
_GPU_NAME = re.compile(r"(?:^|[^a-z])(?:v?gpus?|cuda|nvidia)(?:$|[^a-z])", re.IGNORECASE)
# A node has fewer GPUs and slots than this, so a higher number is an amount of memory.
_MAX_COUNT = 64


def double_counting_kinds(resources: Mapping[str, Any], kinds: Collection[str]) -> list[str]:
    """Return the other kinds in ``resources`` that contain GPUs of ``kinds``, or whose name and number suggest that they count GPUs."""
    devices = sorted({device.lower() for kind in kinds for device in devices_in(resources.get(kind))})
    return [kind for kind, value in resources.items() if devices and kind not in kinds and _is_double_counting(kind, value, devices)]


def find_double_counting(resources: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """Return (kind, other kinds) for the first kind with GPUs that are also in other kinds; None without such a kind."""
    for kind in resources:
        others = double_counting_kinds(resources, [kind])
        if others:
            return kind, others
    return None


def devices_in(value: Any) -> list[str]:
    """Return the GPUs and MIG devices in a kind's values; an empty result for an amount."""
    devices = [device for entry in value for device in devices_of(entry)] if isinstance(value, list) else []
    return [device for device in devices if device.upper().startswith(("GPU-", "MIG-"))]


def _is_double_counting(kind: str, value: Any, devices: Sequence[str]) -> bool:
    if isinstance(value, int):
        return 0 < value <= _MAX_COUNT and bool(_GPU_NAME.search(kind))
    # Many guides on the web use shortened UUIDs. A node that lies may have thousands, so search in the sorted list.
    return any(_begins_one_of(device.lower(), devices) for device in devices_in(value))


def _begins_one_of(beginning: str, devices: Sequence[str]) -> bool:
    """Return whether one of the sorted ``devices`` begins so."""
    place = bisect_left(devices, beginning)
    return place < len(devices) and devices[place].startswith(beginning)
