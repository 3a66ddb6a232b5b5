# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a node needs a guard (pure).

Each call on a node loads this file, so it is small. The other files about guards are loaded only if the node has, had or gets a guard.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import GpuSwarmError
from .._isolation_levels import OFF
from .._policy.forms import values_without_devices
from .._policy.generic_resources import AMOUNT
from .guard_runtime import FORMER_PROGRAM, former_on_record, names_guard, runs_program
from .journal import INSERTED


def mapped_kinds(advertisement: Mapping[str, Any]) -> list[str]:
    """Return the kinds of slots and groups. NVIDIA's runtime does not know the values of these kinds. So even at level off, only the guard can give a
    task the right cards."""
    return [kind for kind, values in advertisement["map"].items() if AMOUNT not in values]


def may_be_wanted(params: Mapping[str, Any]) -> bool:
    """Return whether this node needs a guard, if its rules for slots or groups select a card."""
    rules, mapped = params["advertise"], list(values_without_devices())
    needed = _is_always_needed(params) or any(rule.get("as") in mapped for rule in rules if isinstance(rule, dict)) if rules else False
    return bool(needed and is_changeable(params))


def is_changeable(params: Mapping[str, Any]) -> bool:
    """Return whether this run may install, change and remove a guard."""
    return bool(params["state"] == "present" and params["restart"] == "if_needed")


def _is_always_needed(params: Mapping[str, Any]) -> bool:
    """Return whether a node with GPUs needs a guard: for its level of isolation, or to give services the devices that they ask for by name."""
    return (params.get("isolation") or OFF) != OFF or bool(params.get("devices"))


def is_wanted(params: Mapping[str, Any], advertisement: Mapping[str, Any]) -> bool:
    """Return whether this node needs a guard."""
    return may_be_wanted(params) and (_is_always_needed(params) or bool(mapped_kinds(advertisement)))


def check_slots(params: Mapping[str, Any], advertisement: Mapping[str, Any], observed: Any) -> None:
    """Raise GpuSwarmError if no task could use the slots or groups, because a slot is too small or the node has no guard and gets none."""
    kinds = mapped_kinds(advertisement)
    _check_sizes({kind: advertisement["map"][kind] for kind in kinds}, params.get("cuda_overhead_mib") or 0)
    if kinds and not is_wanted(params, advertisement) and not is_on_record(params, observed):
        raise GpuSwarmError(
            "advertise: %s are slots or groups of cards. Only the guard of the GPUs can give them to a task, and restart=never does not"
            " install it. Use restart=if_needed (gpu_node_restart), or advertise whole GPUs with 'as: gpu'." % ", ".join(kinds)
        )


def is_on_record(params: Mapping[str, Any], observed: Any) -> bool:
    """Return whether daemon.json or its record names a guard already."""
    return former_on_record(observed.record.get(params["daemon_config"])) is not None or names_guard(observed.daemon.data)


def _check_sizes(slots: Mapping[str, Mapping[str, Any]], overhead_mib: int) -> None:
    for kind, values in slots.items():
        for value, slot in values.items():
            if slot["mib"] is not None and slot["mib"] <= overhead_mib:
                raise GpuSwarmError(
                    "advertise: a slot of %s (%s) has %d MiB, but CUDA needs %d MiB for each process (gpu_node_cuda_overhead_mib), so no"
                    " task could use it. In the rule for %s, use fewer 'slots' or a larger 'slot_mib', or lower gpu_node_cuda_overhead_mib."
                    % (kind, value, slot["mib"], overhead_mib, kind)
                )


def is_wanted_or_present(params: Mapping[str, Any], observed: Any, advertisement: Mapping[str, Any]) -> bool:
    """Return whether this node needs a guard, or has traces of one: files, a record, or a runtime of the running daemon."""
    recorded = any(FORMER_PROGRAM in entry[INSERTED] for entry in observed.record.values())
    return is_wanted(params, advertisement) or observed.guard.exists or recorded or runs_program(observed.engine, observed.guard.program)
