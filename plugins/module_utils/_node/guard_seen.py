# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a node's GPUs as it was found, and as the module reports it.

Most nodes have none, and a node's code is compiled at each call: the rest is loaded where there is or was one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from .._isolation_levels import LEVELS, RESERVED
from .._policy.generic_resources import AMOUNT

# Below the root of the machine's files: all that the guard has on a node.
HOME = "usr/local/libexec/gpu-swarm"
FRONT = "nvidia-guard"


def level_of(report: Mapping[str, Any] | None) -> str:
    """The level of a guard as it is reported, '' for none. One whose settings cannot be read withholds what it does not know."""
    if report is None:
        return ""
    return str(report["level"]) if report["level"] in LEVELS else RESERVED


def _memory(settings: Mapping[str, Any]) -> dict[str, Any]:
    """By kind that is an amount of memory its cards, and the least MiB of it with which a task can use one."""
    known, overhead_mib = settings.get("map"), settings.get("overhead_mib")
    amounts = {kind: values.get(AMOUNT) for kind, values in known.items() if isinstance(values, dict)} if isinstance(known, dict) else {}
    least = 1 + (overhead_mib if isinstance(overhead_mib, int) else 0)
    return {kind: {"devices": list(one.get("devices") or ()), "mib": least} for kind, one in amounts.items() if isinstance(one, dict)}


class GuardSeen(NamedTuple):
    """What was found of it."""

    home: str
    python: str = ""  # which the guard is to run with
    code: str = ""  # where the code of this version is, or is to be
    there: bool = False  # whether anything of it is
    link: bool = False  # whether no more is left than what containers that run still call
    front: bytes | None = None
    settings: dict[str, Any] | None = None
    code_is_current: bool = False
    turned_off: bool = False  # by an operator's file
    found: Mapping[str, Any] | None = None  # by service, what it counted since the node booted

    def report(self) -> dict[str, Any] | None:
        """What there is of it, as the module returns it; None where there is none, or what containers still call."""
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
