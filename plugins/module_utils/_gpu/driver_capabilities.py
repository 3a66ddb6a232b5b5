# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of NVIDIA's driver that a container can request (pure).

Docker knows these names (daemon/nvidia_linux.go of moby/moby), and NVIDIA's toolkit reads them from NVIDIA_DRIVER_CAPABILITIES.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Iterable, Mapping

VARIABLE = "NVIDIA_DRIVER_CAPABILITIES"
# Every request includes these: CUDA needs compute, nvidia-smi needs utility. The variable replaces the toolkit's default, which is both.
ALWAYS = ("compute", "utility")
CAPABILITIES = (*ALWAYS, "compat32", "graphics", "video", "display")
VIDEO = "video"
# Docker chooses NVIDIA's driver by these names. They request no part of it.
GENERAL = ("gpu", "nvidia")


def value_of(requested: Iterable[str]) -> str:
    """Return the value of the variable for the requested capabilities, or '' if they request no part of the driver."""
    names = set(requested).intersection(CAPABILITIES)
    return ",".join(name for name in CAPABILITIES if name in names.union(ALWAYS)) if names else ""


def includes_video(variables: Mapping[str, str]) -> bool:
    """Return whether a task with these variables gets the libraries for encoding and decoding."""
    return not {VIDEO, "all"}.isdisjoint(name.strip() for name in variables.get(VARIABLE, "").split(","))
