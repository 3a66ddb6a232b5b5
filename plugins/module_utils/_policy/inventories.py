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
    """Return (kind, other kinds) for the first kind with GPUs that are also in other kinds; None without such a kind.

    The kinds are not compared with each other, because a node that lies may have very many.
    """
    devices = {kind: [device.lower() for device in devices_in(value)] for kind, value in resources.items() if isinstance(value, list)}
    if any(_counts_gpus(kind, value) for kind, value in resources.items()):
        found = next((kind for kind, names in devices.items() if names), None)
    else:
        others = _kinds_with_a_beginning(devices)
        found = next((kind for kind, names in devices.items() if any(others[name] - {kind} for name in names)), None)
    return None if found is None else (found, double_counting_kinds(resources, [found]))


def _kinds_with_a_beginning(devices: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Return for each device the kinds that have this device or the beginning of its name. Two kinds are enough to find another kind."""
    kinds: dict[str, set[str]] = {}
    for kind, names in devices.items():
        for name in names:
            of_name = kinds.setdefault(name, set())
            if len(of_name) < 2:
                of_name.add(kind)
    found: dict[str, frozenset[str]] = {}
    beginnings: list[str] = []  # of the present name, the shortest first
    for name in sorted(kinds):  # a beginning is right before the names that begin so
        while beginnings and not name.startswith(beginnings[-1]):
            beginnings.pop()
        earlier = found[beginnings[-1]] if beginnings else frozenset()
        found[name] = earlier if len(earlier) > 1 else earlier | kinds[name]
        beginnings.append(name)
    return found


def devices_in(value: Any) -> list[str]:
    """Return the GPUs and MIG devices in a kind's values; an empty result for an amount."""
    devices = [device for entry in value for device in devices_of(entry)] if isinstance(value, list) else []
    return [device for device in devices if device.upper().startswith(("GPU-", "MIG-"))]


def _is_double_counting(kind: str, value: Any, devices: Sequence[str]) -> bool:
    # Many guides on the web use shortened UUIDs. A node that lies may have thousands, so search in the sorted list.
    return _counts_gpus(kind, value) or any(_begins_one_of(device.lower(), devices) for device in devices_in(value))


def _counts_gpus(kind: str, value: Any) -> bool:
    """Return whether the kind is a number, and its name and number suggest that it counts GPUs."""
    return isinstance(value, int) and 0 < value <= _MAX_COUNT and bool(_GPU_NAME.search(kind))


def _begins_one_of(beginning: str, devices: Sequence[str]) -> bool:
    """Return whether one of the sorted ``devices`` begins so."""
    place = bisect_left(devices, beginning)
    return place < len(devices) and devices[place].startswith(beginning)
