# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The devices that CUDA needs: whether a service should create them on this node, and their state.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence


class DevicesState(NamedTuple):
    """The state of the service and of the devices."""

    drift: Sequence[str] = ()  # a sentence for each difference from the wanted service
    problem: str | None = None  # a sentence that says why CUDA does not start


def is_wanted(params: Mapping[str, Any]) -> bool:
    """Return whether this node needs the service: it advertises GPUs, and its services may be changed."""
    return bool(params["state"] == "present" and params["advertise"] and params["restart"] == "if_needed")
