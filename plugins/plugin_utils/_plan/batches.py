# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Divides the members of the swarm into batches (pure): canaries first, then the others.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._errors import GpuSwarmError
from ...module_utils._policy.quantity import count_of

# The size of a batch without a setting, as a share of the nodes that carry work.
SHARE = "10%"
# How many canaries are changed at a time. The canaries may be the whole fleet, so changing all of them at once would protect nothing.
MAX_CANARIES = 3


def batches(idle: Mapping[str, str], busy: Mapping[str, str], setting: Any = None) -> list[list[str]]:
    """Return the hosts in batches. ``idle`` and ``busy`` are hosts without and with work, by name, each with its GPU models.

    ``setting`` is ``provision_batch``: a number, a percentage, or a list of numbers and percentages. As in Ansible's ``serial``, the last item of a
    list repeats. The items are the sizes of the batches of busy hosts. For idle hosts, the first item is the number of canaries. All other idle hosts
    follow at once.
    Without a setting, the canaries are one host of each model, a few at a time. The other busy hosts follow in tenths.
    """
    if setting in (None, "", []):
        return _by_model(idle, busy)
    sizes = setting if isinstance(setting, (list, tuple)) else [setting]
    idle_sizes = [_size(sizes[0], len(idle)), len(idle)] if sizes and idle else []
    return _split(list(idle), idle_sizes) + _split(list(busy), [_size(size, len(busy)) for size in sizes])


def _by_model(idle: Mapping[str, str], busy: Mapping[str, str]) -> list[list[str]]:
    """Batches with one canary per model. An idle canary disturbs nobody, so a busy host is a canary only if no host of its model is idle."""
    canary_sizes = [min(MAX_CANARIES, _size(SHARE, len(idle) + len(busy)))]
    idle_canaries = _one_of_each(idle)
    busy_canaries = _one_of_each(busy, proven=idle.values())
    return [
        *_split(idle_canaries, canary_sizes),
        *_split([name for name in idle if name not in idle_canaries], [len(idle)]),
        *_split(busy_canaries, canary_sizes),
        *_split([name for name in busy if name not in busy_canaries], [_size(SHARE, len(busy))]),
    ]


def _one_of_each(models: Mapping[str, str], proven: Iterable[str] = ()) -> list[str]:
    models_seen, hosts = set(proven), []
    for name, model in models.items():
        if model not in models_seen:
            models_seen.add(model)
            hosts.append(name)
    return hosts


def _split(names: list[str], sizes: Sequence[int]) -> list[list[str]]:
    parts: list[list[str]] = []
    start = 0
    while start < len(names):
        size = sizes[min(len(parts), len(sizes) - 1)]
        parts.append(names[start : start + size])
        start += size
    return parts


def _size(setting: Any, total: int) -> int:
    size = count_of(setting, total)
    if size is None:
        raise GpuSwarmError(f"provision_batch: {setting!r} is not a batch size. Give a number such as 2, a share such as 25%, or a list of these.")
    return size
