# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a node's GPUs, as far as every call needs it: whether there is to be one, and what was found of it (pure).

Most nodes have none, and a node's code is compiled at each call: the rest is loaded where there is or was one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from .._config.daemon_json import RUNTIME_PATH
from .._errors import GpuSwarmError
from .._isolation_levels import LEVELS, OFF, RESERVED
from .._policy.forms import values_without_devices
from .._policy.generic_resources import AMOUNT
from .journal import INSERTED

# Below the root of the machine's files: all that the guard has on a node.
HOME = "usr/local/libexec/gpu-swarm"
FRONT = "nvidia-guard"
# In the record of daemon.json: the program that was the runtime nvidia before.
BEFORE = "runtime_before"


def mapped_kinds(advertisement: Mapping[str, Any]) -> list[str]:
    """The kinds of slots and groups: NVIDIA's runtime knows none of their values, and a task gets the cards by the guard only, at any level."""
    return [kind for kind, values in advertisement["map"].items() if AMOUNT not in values]


def may_be_wanted(params: Mapping[str, Any]) -> bool:
    """Whether this node is to have a guard if any of its rules for slots or groups selects a card."""
    level, rules, mapped = params.get("isolation") or OFF, params["advertise"], list(values_without_devices())
    needed = level != OFF or any(rule.get("as") in mapped for rule in rules if isinstance(rule, dict)) if rules else False
    return bool(needed and params["state"] == "present" and params["restart"] == "if_needed")


def is_wanted(params: Mapping[str, Any], advertisement: Mapping[str, Any]) -> bool:
    """Whether this node is to have a guard."""
    return may_be_wanted(params) and ((params.get("isolation") or OFF) != OFF or bool(mapped_kinds(advertisement)))


def check_slots(params: Mapping[str, Any], advertisement: Mapping[str, Any], seen: Any) -> None:
    """Raises GpuSwarmError for what no task could use: slots that are too small, and slots or groups where there is no guard and none comes."""
    kinds = mapped_kinds(advertisement)
    _check_sizes({kind: advertisement["map"][kind] for kind in kinds}, params.get("cuda_overhead_mib") or 0)
    if kinds and not is_wanted(params, advertisement) and not is_there(params, seen):
        raise GpuSwarmError(
            "advertise: %s would be slots or groups of cards, which a task gets by the guard of the GPUs only, and with restart=never none is"
            " installed. Use restart=if_needed (gpu_node_restart), or advertise whole GPUs with 'as: gpu'." % ", ".join(kinds)
        )


def is_there(params: Mapping[str, Any], seen: Any) -> bool:
    """Whether daemon.json names a guard already, or has one on record."""
    return before(seen.record.get(params["daemon_config"])) is not None or is_named(seen.daemon.data)


def _check_sizes(slots: Mapping[str, Mapping[str, Any]], overhead_mib: int) -> None:
    for kind, values in slots.items():
        for value, one in values.items():
            if one["mib"] is not None and one["mib"] <= overhead_mib:
                raise GpuSwarmError(
                    "advertise: a slot of %s (%s) has %d MiB, and CUDA takes %d MiB of a card for each process (gpu_node_cuda_overhead_mib), so no"
                    " task could use one. Give the rule for %s fewer 'slots' or a larger 'slot_mib', or lower gpu_node_cuda_overhead_mib."
                    % (kind, value, one["mib"], overhead_mib, kind)
                )


def before(entry: Mapping[str, Any] | None) -> str | None:
    """The program in whose place the guard is on record; None where it is not."""
    inserted = (entry or {}).get(INSERTED, {})
    return former(inserted) if inserted.get(BEFORE) is not None else None


def former(inserted: Mapping[str, Any]) -> str:
    """The program that the guard stands before: never the guard itself, which a copied daemon.json may name without a record."""
    found = str(inserted.get(BEFORE) or RUNTIME_PATH)
    return RUNTIME_PATH if os.path.basename(found) == FRONT else found


def is_named(content: bytes | None) -> bool:
    """Whether this daemon.json may name a guard."""
    return FRONT.encode("ascii") in (content or b"")


def unguarded(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bytes | None:
    """daemon.json with the program that was the runtime nvidia before the guard was. ``inserted`` is of the file's record."""
    if not is_named(content):
        return content
    from .._config import runtime_path

    return runtime_path.with_former_path(content, path, FRONT, former(inserted))


def is_run(engine: Mapping[str, Any] | None, program: str) -> bool:
    """Whether the running daemon has this program as one of its runtimes."""
    runtimes = (engine or {}).get("runtimes") or {} if engine and engine["running"] else {}
    return any(isinstance(one, dict) and one.get("path") == program for one in runtimes.values())


def concerns(params: Mapping[str, Any], seen: Any, advertisement: Mapping[str, Any]) -> bool:
    """Whether this node is to have one, or something of one is there, in force or on record."""
    known = any(BEFORE in entry[INSERTED] for entry in seen.record.values())
    return is_wanted(params, advertisement) or seen.guard.there or known or is_run(seen.engine, seen.guard.program)


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
