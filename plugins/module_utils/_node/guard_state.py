# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node's guard, and the part of the state that the module returns.

Each call on a node loads this file, so it is small. The other files about guards are loaded only if the node has, had or gets a guard.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from .._isolation_levels import LEVELS, RESERVED
from .._policy.generic_resources import AMOUNT

# The guard's directory, relative to the root of the machine's files.
HOME = "usr/local/libexec/gpu-swarm"
FRONT = "nvidia-guard"
# Key in the settings: {name: globs} of the devices that services may ask for.
OFFERED = "offered"


def level_of(report: Mapping[str, Any] | None) -> str:
    """Return the level of a reported guard; '' without a guard. Return ``reserved`` if the guard's settings are unreadable, because such a guard
    hides GPUs."""
    if report is None:
        return ""
    return str(report["level"]) if report["level"] in LEVELS else RESERVED


def _memory(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return {kind: {devices, mib}} of the kinds that are an amount of memory. ``devices`` are the cards of the kind. ``mib`` is the smallest amount
    that a task can use."""
    device_map, overhead_mib = settings.get("map"), settings.get("overhead_mib")
    amounts = {kind: values.get(AMOUNT) for kind, values in device_map.items() if isinstance(values, dict)} if isinstance(device_map, dict) else {}
    least_mib = 1 + (overhead_mib if isinstance(overhead_mib, int) else 0)
    return {kind: {"devices": list(amount.get("devices") or ()), "mib": least_mib} for kind, amount in amounts.items() if isinstance(amount, dict)}


class GuardState(NamedTuple):
    """The state of the guard that one inspection has read."""

    home: str
    python: str = ""  # the path of the Python that runs the guard
    code: str = ""  # the directory of this version's code, whether it exists or not
    exists: bool = False  # whether the guard's directory exists
    link: bool = False  # whether the guard was removed, and only a link is left for containers that still call it
    front: bytes | None = None  # the program that dockerd calls
    settings: dict[str, Any] | None = None
    code_is_current: bool = False
    turned_off: bool = False  # whether an operator has turned the guard off with a file
    findings: Mapping[str, Any] | None = None  # the guard's findings since the node booted, by service

    def report(self) -> dict[str, Any] | None:
        """Return the guard's state for the module's result. None without a guard, or if only the link for running containers is left."""
        if self.front is None:
            return None
        level = (self.settings or {}).get("level")
        return {
            "level": level if isinstance(level, str) else None,
            "turned_off": self.turned_off,
            "found": dict(self.findings or {}),
            "memory": _memory(self.settings or {}),
        }

    @property
    def program(self) -> str:
        return "%s/%s" % (self.home, FRONT)
