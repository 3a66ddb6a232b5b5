# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices of CUDA on a node: whether a service is to make them, and what was found of it and of them.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence


class DevicesSeen(NamedTuple):
    """What was found of it, and of the devices."""

    drift: Sequence[str] = ()  # how it differs from what is wanted, in words
    problem: str | None = None  # why CUDA does not start, in words


def is_wanted(params: Mapping[str, Any]) -> bool:
    """Whether this node is to have it: one that advertises GPUs, and whose services are not left alone."""
    return bool(params["state"] == "present" and params["advertise"] and params["restart"] == "if_needed")
