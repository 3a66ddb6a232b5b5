# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each form of a rule makes of the GPUs that the rule owns on a node (pure).

The rules that come here name their kind, or what their kinds begin with: where the user gives none, the form's default stands there.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence, Tuple

from .._gpu.record import Gpu, devices_of, label_safe, slot_name
from . import generic_resources
from .selection import FULL_UUID, MIG_UUID, PolicyError, Rule, in_mig_mode, matches_model, place_name

_IN_MIG_MODE = (
    "it is in MIG mode, where a card cannot be advertised whole; a rule with 'as: mig' in front of this one advertises its parts"
)
SAME_UUID = "another GPU of this node has the same UUID"
MOST_SLOTS = 100  # of one card: each is an entry in daemon.json and in the manager's record of the node

# A card or MIG device, and its memory.
Sized = Tuple[Mapping[str, Any], "int | None"]


class Shares:
    """What is advertised so far of one node, and what could not be."""

    def __init__(self, system_memory_mib: int | None = None, present: Mapping[str, Any] | None = None) -> None:
        self.system_memory_mib = system_memory_mib
        self.present = present or {}  # by kind, what the node has now
        self.left_out: list[dict[str, Any]] = []
        self.to_host: list[Gpu] = []  # GPUs that a rule leaves to the host
        self.warnings: list[str] = []
        self.amounts: set[str] = set()  # kinds that are a number
        self.memory_mib = 0  # behind those, before anything is kept in reserve
        # By kind and value, or generic_resources.AMOUNT, what a task sees by it: its devices, how many MiB of them are its own, None where
        # that is the amount or not known, and whether a task may have several on one card only. Of values that are devices themselves there is
        # nothing here.
        self.map: dict[str, dict[str, dict[str, Any]]] = {}
        self.card_mib: dict[str, int] = {}  # the memory of these devices
        self._given: dict[int, tuple[Gpu, list[tuple[str, str | int]]]] = {}

    def give(self, gpu: Gpu, kind: str, value: str | int) -> None:
        if isinstance(value, int):
            self.amounts.add(kind)
        self._given.setdefault(gpu["index"], (gpu, []))[1].append((kind, value))

    def stand_for(self, kind: str, value: str, sizes: Sequence[Sized], mib: int | None = None, together: bool = False) -> None:
        """What a task sees that has this value: these cards or MIG devices, with the MiB of each."""
        known = {one["uuid"]: size for one, size in sizes if one.get("uuid")}
        self.map.setdefault(kind, {})[value] = {"devices": list(known), "mib": mib, "together": together}
        self.card_mib.update({uuid: size for uuid, size in known.items() if size})

    def cover(self, gpu: Gpu) -> None:
        """Something of this card is advertised under another card's entry."""
        self._given.setdefault(gpu["index"], (gpu, []))

    def leave(self, gpu: Gpu, reason: str, uuid: str | None = None) -> None:
        uuid = uuid or gpu.get("uuid")
        self.left_out.append({"index": gpu["index"], "uuid": uuid, "name": gpu.get("name"), "reason": reason})

    def resources(self) -> list[tuple[str, str | int]]:
        """(kind, value) in the order of the GPUs."""
        return [pair for _index, (_gpu, pairs) in sorted(self._given.items()) for pair in pairs]

    def gpus(self) -> list[Gpu]:
        """The cards of which something is advertised."""
        return [gpu for _index, (gpu, _pairs) in sorted(self._given.items())]

    def parts(self, gpu: Gpu) -> list[str]:
        """The MIG devices of this card that are advertised."""
        values = [value for _kind, value in self._given[gpu["index"]][1] if isinstance(value, str) and value.startswith("MIG-")]
        return list(dict.fromkeys(device for value in values for device in devices_of(value)))

    def contains(self, uuid: str) -> bool:
        return any(gpu.get("uuid") == uuid for gpu, _pairs in self._given.values())


# --- whole GPUs -----------------------------------------------------------------------------------------------------


def whole(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    for gpu in gpus:
        reason = unfit(gpu, shares)
        if reason:
            shares.leave(gpu, reason)
        else:
            shares.give(gpu, rule["kind"], gpu["uuid"])


def by_model(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """As whole(), with a kind per model: the user's for the first pattern that fits, else one made of the model's name."""
    names: dict[str, str] = {}
    for gpu in gpus:
        mapped = [kind for pattern, kind in (rule.get("kinds") or {}).items() if matches_model(gpu, pattern)]
        kind = mapped[0] if mapped else derived_kind(gpu.get("name") or gpu.get("model"))
        reason = unfit(gpu, shares) or (None if kind else "its model could not be read")
        if reason:
            shares.leave(gpu, reason)
            continue
        other = names.setdefault(kind, gpu.get("name"))
        if not mapped and other != gpu.get("name"):
            raise PolicyError(
                f"advertise: the models {other!r} and {gpu.get('name')!r} would both be the kind {kind}. Name one of them in"
                " 'kinds' of the rule with as=model."
            )
        shares.give(gpu, kind, gpu["uuid"])


def derived_kind(name: str | None) -> str | None:
    """``NVIDIA H100 80GB HBM3`` -> ``NVIDIA-H100-80GB-HBM3``, ``Tesla T4`` -> ``NVIDIA-T4``; None without a name.

    Drivers from 465 on put NVIDIA in front of most names: the kind must not change with the driver.
    """
    bare = label_safe(re.sub(r"^(NVIDIA[\s-]+)?(Tesla[\s-]+)?", "", name or "", flags=re.IGNORECASE))
    return "NVIDIA-" + bare if bare else None


def _failure(gpu: Gpu) -> str | None:
    health = gpu.get("health") or {}
    return ("; ".join(health.get("reasons") or []) or "it failed") if health.get("state") == "failed" else None


def unfit(gpu: Gpu, shares: Shares) -> str | None:
    """Why this GPU cannot be advertised whole, or None."""
    uuid = gpu.get("uuid")
    if _failure(gpu):
        return _failure(gpu)
    if not uuid:
        return "its UUID could not be read"
    if not FULL_UUID.fullmatch(uuid):
        return f"{generic_resources.shorten(uuid)} is not a full GPU UUID, the toolkit would refuse it"
    if in_mig_mode(gpu):
        return _IN_MIG_MODE
    if shares.contains(uuid):
        return SAME_UUID
    return None


# --- memory ---------------------------------------------------------------------------------------------------------


def memory(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """One kind where the rule owns one GPU on this node, else one per GPU or the sum of all."""
    fit = [gpu for gpu in gpus if not _leave_memory(gpu, shares)]
    sizes = [(gpu, _size(rule, gpu, shares)) for gpu in fit]
    _check_shared(rule, fit)
    reserve = int(rule.get("reserve_mib", 0))
    shares.memory_mib += sum(size for _gpu, size in sizes)
    if rule.get("sum"):
        _give_sum(rule, sizes, reserve, shares)
        return
    for gpu, size in sizes:
        # Counted with those that failed: a name must not change because another card fails.
        place = place_name(gpu) if len(gpus) > 1 else ""
        if place is None:
            shares.leave(gpu, "its PCI address, which would be part of its kind's name, could not be read")
            continue
        kind = "-".join(part for part in (rule["kind"], place) if part)
        shares.give(gpu, kind, size - reserve)
        shares.stand_for(kind, generic_resources.AMOUNT, [(gpu, size)])


def _leave_memory(gpu: Gpu, shares: Shares) -> str | None:
    reason = _failure(gpu) or ("it is in MIG mode, where its memory is divided already" if in_mig_mode(gpu) else None)
    if reason:
        shares.leave(gpu, reason)
    return reason


def _size(rule: Rule, gpu: Gpu, shares: Shares) -> int:
    """The MiB from which the rule advertises, checked against what it keeps in reserve."""
    size = gpu.get("memory_mib")
    if size is None:
        if not rule.get("system_memory"):
            raise PolicyError(
                f"advertise: GPU {gpu['index']} ({gpu.get('model')}) has no memory of its own, as is usual"
                " with unified memory. Advertise it whole with 'as: gpu', or add 'system_memory: true' to the rule with as=vram"
                " to advertise the system's memory."
            )
        size = shares.system_memory_mib
        if size is None:
            raise PolicyError("advertise: the system's memory could not be read from /proc/meminfo. Advertise the GPU with 'as: gpu'.")
    reserve = int(rule.get("reserve_mib", 0))
    if size <= reserve:
        raise PolicyError(
            f"advertise: reserve_mib={reserve} leaves nothing of the {size} MiB of GPU {gpu['index']} ({gpu.get('model')})."
            " Lower it, or give that GPU to another rule with 'select'."
        )
    return size


def _check_shared(rule: Rule, gpus: Sequence[Gpu]) -> None:
    if sum(gpu.get("memory_mib") is None for gpu in gpus) > 1:
        raise PolicyError(
            f"advertise: {len(gpus)} GPUs share the system's memory, so it cannot be advertised once for each of them. Give one of"
            f" them to the rule for {rule['kind']} with 'select', and leave the others to the host with 'as: none'."
        )


def _give_sum(rule: Rule, sizes: Sequence[tuple[Gpu, int]], reserve: int, shares: Shares) -> None:
    if not sizes:
        return
    kind, total = rule["kind"], sum(size - reserve for _gpu, size in sizes)
    shares.give(sizes[0][0], kind, total)
    shares.stand_for(kind, generic_resources.AMOUNT, sizes)
    for gpu, _size_mib in sizes[1:]:
        shares.cover(gpu)
    if len(sizes) > 1:
        largest = max(size - reserve for _gpu, size in sizes)
        shares.warnings.append(
            f"{kind} is the sum over {len(sizes)} GPUs, {total} MiB: swarm accepts a task that reserves more than the {largest} MiB"
            " of the largest GPU, which then fits on none, and it places tasks although no single GPU has that much left. Without"
            " 'sum: true' each GPU is a kind of its own."
        )


# --- slots ----------------------------------------------------------------------------------------------------------


def slots(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """So many named shares of each card, or of each MIG device where a card is divided into these, all those of one in one row: swarm takes from
    the front of the list, so that tasks fill one before they begin another."""
    for gpu in gpus:
        if in_mig_mode(gpu):
            _slots_of_parts(rule, gpu, shares)
            continue
        reason = unfit(gpu, shares)
        if reason:
            shares.leave(gpu, reason)
            continue
        _give_slots(rule, gpu, gpu, _slots_of(rule, gpu.get("memory_mib"), f"GPU {gpu['index']} ({gpu.get('model')})"), shares)


def _slots_of_parts(rule: Rule, gpu: Gpu, shares: Shares) -> None:
    for device in _mig_devices(gpu, shares):
        size, who = device.get("memory_mib"), f"the MIG device {device.get('profile') or device['uuid']} of GPU {gpu['index']} ({gpu.get('model')})"
        if size is not None and "slot_mib" in rule and size - int(rule.get("reserve_mib", 0)) < int(rule["slot_mib"]):
            # The card cannot be given to another rule for one of its devices.
            shares.leave(gpu, f"{who} has {size} MiB, which is no room for a slot of {rule['slot_mib']} MiB", device["uuid"])
            continue
        _give_slots(rule, gpu, device, _slots_of(rule, size, who), shares)


def _give_slots(rule: Rule, gpu: Gpu, device: Mapping[str, Any], slots_of_it: tuple[int, int | None], shares: Shares) -> None:
    count, mib = slots_of_it
    for number in range(1, count + 1):
        value = slot_name(device["uuid"], number)
        shares.give(gpu, rule["kind"], value)
        shares.stand_for(rule["kind"], value, [(device, device.get("memory_mib"))], mib, bool(rule.get("slots_together")))


def _slots_of(rule: Rule, size: int | None, who: str) -> tuple[int, int | None]:
    """How many a card or MIG device of this size has, and the MiB of each, None where it has no memory of its own."""
    reserve = int(rule.get("reserve_mib", 0))
    if size is None:
        if "slots" in rule:
            return int(rule["slots"]), None
        raise PolicyError(
            f"advertise: {who} has no memory of its own, as is usual with unified memory, so that slot_mib={rule['slot_mib']} does not say how many"
            " slots it has. Say it with 'slots', or give that GPU to another rule with 'select'."
        )
    count = int(rule["slots"]) if "slots" in rule else (size - reserve) // int(rule["slot_mib"])
    mib = (size - reserve) // count if "slots" in rule else int(rule["slot_mib"])
    if count < 1 or mib < 1 or count > MOST_SLOTS:
        option = f"slots={rule['slots']}" if "slots" in rule else f"slot_mib={rule['slot_mib']}"
        what = f"makes {count} slots, more than {MOST_SLOTS}," if count > MOST_SLOTS else "makes no slot"
        raise PolicyError(
            f"advertise: {option} with reserve_mib={reserve} {what} of the {size} MiB of {who}. Change it, or give that GPU to another rule with"
            " 'select'."
        )
    return count, mib


# --- MIG devices ----------------------------------------------------------------------------------------------------


def mig(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """A kind per profile; the parent is not advertised."""
    for gpu in gpus:
        for device in _mig_devices(gpu, shares):
            if not device.get("profile"):
                shares.leave(gpu, "the profile of this MIG device could not be read", device["uuid"])
            else:
                shares.give(gpu, f"{rule['kind']}-{label_safe(device['profile'].replace('+', '.'))}", device["uuid"])


def _mig_devices(gpu: Gpu, shares: Shares) -> list[dict[str, Any]]:
    """Those of a card that can be advertised; why the card or one of the others cannot is noted."""
    reason, found = _failure(gpu), []
    if not reason and not gpu.get("mig_devices"):
        reason = "it is in MIG mode but divided into nothing; 'nvidia-smi mig -lgip' lists what 'nvidia-smi mig -cgi … -C' can make"
    if reason:
        shares.leave(gpu, reason)
        return []
    for device in gpu["mig_devices"]:
        uuid = device.get("uuid")
        if uuid and MIG_UUID.fullmatch(uuid):
            found.append(device)
        else:
            shares.leave(gpu, f"{generic_resources.shorten(uuid)} is not a full MIG UUID, the toolkit would refuse it", uuid)
    return found


# --- nothing --------------------------------------------------------------------------------------------------------


def to_host(_rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    shares.to_host.extend(gpus)
