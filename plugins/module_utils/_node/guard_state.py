# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node's guard: what was found, and what the module returns of it.

Small, because each call on a node loads it. The rest is loaded only if the node has, had or gets a guard.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from .._isolation_levels import LEVELS, RESERVED
from .._policy.generic_resources import AMOUNT

# The guard's directory, relative to the root of the machine's files.
HOME = "usr/local/libexec/gpu-swarm"
FRONT = "nvidia-guard"


def level_of(report: Mapping[str, Any] | None) -> str:
    """Return the level of a reported guard, '' if there is none. If its settings cannot be read: ``reserved``, because it then hides GPUs."""
    if report is None:
        return ""
    return str(report["level"]) if report["level"] in LEVELS else RESERVED


def _memory(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return, for each kind that is an amount of memory, its cards and the least MiB with which a task can use one."""
    known, overhead_mib = settings.get("map"), settings.get("overhead_mib")
    amounts = {kind: values.get(AMOUNT) for kind, values in known.items() if isinstance(values, dict)} if isinstance(known, dict) else {}
    least = 1 + (overhead_mib if isinstance(overhead_mib, int) else 0)
    return {kind: {"devices": list(one.get("devices") or ()), "mib": least} for kind, one in amounts.items() if isinstance(one, dict)}


class GuardSeen(NamedTuple):
    """What was found of the guard."""

    home: str
    python: str = ""  # the path of the Python that runs the guard
    code: str = ""  # the directory of this version's code, whether it exists or not
    there: bool = False  # whether its directory exists
    link: bool = False  # whether it was removed, and only a link is left for containers that still call it
    front: bytes | None = None
    settings: dict[str, Any] | None = None
    code_is_current: bool = False
    turned_off: bool = False  # whether an operator turned it off with a file
    found: Mapping[str, Any] | None = None  # its findings by service, counted since the node booted

    def report(self) -> dict[str, Any] | None:
        """Return the guard as the module does. None if there is none, or only the link that containers still call."""
        if self.front is None:
            return None
        level = (self.settings or {}).get("level")
        return {
            "level": level if isinstance(level, str) else None,
            "turned_off": self.turned_off,
            "found": dict(self.found or {}),
            "memory": _memory(self.settings or {}),
        }

    @property
    def program(self) -> str:
        return "%s/%s" % (self.home, FRONT)
