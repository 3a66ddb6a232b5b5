# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a node needs a guard (pure).

Small, because each call on a node loads it. The rest is loaded only if the node has, had or gets a guard.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import GpuSwarmError
from .._isolation_levels import OFF
from .._policy.forms import values_without_devices
from .._policy.generic_resources import AMOUNT
from .guard_runtime import BEFORE, former_on_record, names_guard, runs_program
from .journal import INSERTED


def mapped_kinds(advertisement: Mapping[str, Any]) -> list[str]:
    """Return the kinds of slots and groups. NVIDIA's runtime does not know their values: only the guard, at any level, gives a task their cards."""
    return [kind for kind, values in advertisement["map"].items() if AMOUNT not in values]


def may_be_wanted(params: Mapping[str, Any]) -> bool:
    """Return whether this node needs a guard, provided that its rules for slots or groups select a card."""
    level, rules, mapped = params.get("isolation") or OFF, params["advertise"], list(values_without_devices())
    needed = level != OFF or any(rule.get("as") in mapped for rule in rules if isinstance(rule, dict)) if rules else False
    return bool(needed and params["state"] == "present" and params["restart"] == "if_needed")


def is_wanted(params: Mapping[str, Any], advertisement: Mapping[str, Any]) -> bool:
    """Return whether this node needs a guard."""
    return may_be_wanted(params) and ((params.get("isolation") or OFF) != OFF or bool(mapped_kinds(advertisement)))


def check_slots(params: Mapping[str, Any], advertisement: Mapping[str, Any], seen: Any) -> None:
    """Raise GpuSwarmError if no task could use the slots or groups: a slot is too small, or the node has no guard and gets none."""
    kinds = mapped_kinds(advertisement)
    _check_sizes({kind: advertisement["map"][kind] for kind in kinds}, params.get("cuda_overhead_mib") or 0)
    if kinds and not is_wanted(params, advertisement) and not is_there(params, seen):
        raise GpuSwarmError(
            "advertise: %s would be slots or groups of cards, which a task gets by the guard of the GPUs only, and with restart=never none is"
            " installed. Use restart=if_needed (gpu_node_restart), or advertise whole GPUs with 'as: gpu'." % ", ".join(kinds)
        )


def is_there(params: Mapping[str, Any], seen: Any) -> bool:
    """Return whether daemon.json or its record names a guard already."""
    return former_on_record(seen.record.get(params["daemon_config"])) is not None or names_guard(seen.daemon.data)


def _check_sizes(slots: Mapping[str, Mapping[str, Any]], overhead_mib: int) -> None:
    for kind, values in slots.items():
        for value, one in values.items():
            if one["mib"] is not None and one["mib"] <= overhead_mib:
                raise GpuSwarmError(
                    "advertise: a slot of %s (%s) has %d MiB, and CUDA takes %d MiB of a card for each process (gpu_node_cuda_overhead_mib), so no"
                    " task could use one. Give the rule for %s fewer 'slots' or a larger 'slot_mib', or lower gpu_node_cuda_overhead_mib."
                    % (kind, value, one["mib"], overhead_mib, kind)
                )


def concerns(params: Mapping[str, Any], seen: Any, advertisement: Mapping[str, Any]) -> bool:
    """Return whether this node needs a guard, or has traces of one: files, a record, or a runtime of the running daemon."""
    known = any(BEFORE in entry[INSERTED] for entry in seen.record.values())
    return is_wanted(params, advertisement) or seen.guard.there or known or runs_program(seen.engine, seen.guard.program)
