# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns the GPUs of a rule into generic resources: one function for each form (pure).

This code sets ``kind`` of each rule: the user's kind, or the form's default.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence, Tuple

from .._gpu.record import Gpu, devices_of, label_safe, slot_name
from . import generic_resources
from .selection import FULL_UUID, MIG_UUID, PolicyError, Rule, in_mig_mode, matches_model, place_name

_IN_MIG_MODE = (
    "it is in MIG mode, so it cannot be advertised as a whole GPU; to advertise its MIG devices, put a rule with 'as: mig' before this rule"
)
SAME_UUID = "another GPU of this node has the same UUID"
MOST_SLOTS = 100  # the most slots of a card. Each slot is an entry in daemon.json and in the manager's record of the node

# A card or MIG device, and its memory.
Sized = Tuple[Mapping[str, Any], "int | None"]


class Shares:
    """Collects what one node advertises, and the GPUs that it cannot advertise."""

    def __init__(self, system_memory_mib: int | None = None, present: Mapping[str, Any] | None = None) -> None:
        self.system_memory_mib = system_memory_mib
        self.present = present or {}  # the node's present resources, by kind
        self.left_out: list[dict[str, Any]] = []
        self.to_host: list[Gpu] = []  # GPUs that a rule leaves to the host
        self.warnings: list[str] = []
        self.amounts: set[str] = set()  # kinds whose value is a number
        self.memory_mib = 0  # the memory of these kinds, including reserve_mib
        # The guard's map, by kind and value (or generic_resources.AMOUNT). Each entry has the devices that a task sees, and the task's share in MiB.
        # The share is None if it is the amount itself, or is unknown. Each entry also says whether all slots of one task must be on one card. Values
        # that are devices are not in the map.
        self.map: dict[str, dict[str, dict[str, Any]]] = {}
        self.card_mib: dict[str, int] = {}  # the memory of these devices
        self._entries: dict[int, tuple[Gpu, list[tuple[str, str | int]]]] = {}

    def add(self, gpu: Gpu, kind: str, value: str | int) -> None:
        if isinstance(value, int):
            self.amounts.add(kind)
        self._entries.setdefault(gpu["index"], (gpu, []))[1].append((kind, value))

    def map_value(self, kind: str, value: str, sizes: Sequence[Sized], mib: int | None = None, together: bool = False) -> None:
        """Add a value to the guard's map. A task with this value sees these cards or MIG devices. Each device has its memory in MiB."""
        memory_by_uuid = {device["uuid"]: size for device, size in sizes if device.get("uuid")}
        self.map.setdefault(kind, {})[value] = {"devices": list(memory_by_uuid), "mib": mib, "together": together}
        self.card_mib.update({uuid: size for uuid, size in memory_by_uuid.items() if size})

    def mark_covered(self, gpu: Gpu) -> None:
        """Mark a card as advertised if another card's entry includes it and the card has no entry of its own."""
        self._entries.setdefault(gpu["index"], (gpu, []))

    def exclude(self, gpu: Gpu, reason: str, uuid: str | None = None) -> None:
        uuid = uuid or gpu.get("uuid")
        self.left_out.append({"index": gpu["index"], "uuid": uuid, "name": gpu.get("name"), "reason": reason})

    def resources(self) -> list[tuple[str, str | int]]:
        """Return (kind, value) for each resource, in the order of the GPUs."""
        return [pair for _index, (_gpu, pairs) in sorted(self._entries.items()) for pair in pairs]

    def gpus(self) -> list[Gpu]:
        """Return the cards that are advertised, whole or in part."""
        return [gpu for _index, (gpu, _pairs) in sorted(self._entries.items())]

    def advertised_mig_devices(self, gpu: Gpu) -> list[str]:
        """Return the advertised MIG devices of this card."""
        values = [value for _kind, value in self._entries[gpu["index"]][1] if isinstance(value, str) and value.startswith("MIG-")]
        return list(dict.fromkeys(device for value in values for device in devices_of(value)))

    def contains(self, uuid: str) -> bool:
        return any(gpu.get("uuid") == uuid for gpu, _pairs in self._entries.values())


# --- whole GPUs -----------------------------------------------------------------------------------------------------


def advertise_whole(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    for gpu in gpus:
        reason = why_unfit(gpu, shares)
        if reason:
            shares.exclude(gpu, reason)
        else:
            shares.add(gpu, rule["kind"], gpu["uuid"])


def advertise_by_model(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """Advertise whole GPUs with one kind per model. The kind is the user's kind of the first matching pattern, or is derived from the model's
    name."""
    names: dict[str, str] = {}
    for gpu in gpus:
        mapped = [kind for pattern, kind in (rule.get("kinds") or {}).items() if matches_model(gpu, pattern)]
        kind = mapped[0] if mapped else derived_kind(gpu.get("name") or gpu.get("model"))
        reason = why_unfit(gpu, shares) or (None if kind else "its model could not be read")
        if reason:
            shares.exclude(gpu, reason)
            continue
        other = names.setdefault(kind, gpu.get("name"))
        if not mapped and other != gpu.get("name"):
            raise PolicyError(
                f"advertise: the models {other!r} and {gpu.get('name')!r} would both be the kind {kind}. Name one of them in"
                " 'kinds' of the rule with as=model."
            )
        shares.add(gpu, kind, gpu["uuid"])


def derived_kind(name: str | None) -> str | None:
    """Return the kind for a model's name: ``NVIDIA H100 80GB HBM3`` -> ``NVIDIA-H100-80GB-HBM3``, ``Tesla T4`` -> ``NVIDIA-T4``. None without a name.

    Drivers since 465 put NVIDIA in front of most names. The kind must not change with the driver.
    """
    bare = label_safe(re.sub(r"^(NVIDIA[\s-]+)?(Tesla[\s-]+)?", "", name or "", flags=re.IGNORECASE))
    return "NVIDIA-" + bare if bare else None


def _failure(gpu: Gpu) -> str | None:
    health = gpu.get("health") or {}
    return ("; ".join(health.get("reasons") or []) or "it failed") if health.get("state") == "failed" else None


def why_unfit(gpu: Gpu, shares: Shares) -> str | None:
    """Return why this GPU cannot be advertised whole, or None."""
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


def advertise_memory(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """Advertise memory: one kind if the rule owns one GPU of the node. With several GPUs, advertise one kind per GPU, or the sum of all GPUs."""
    fit = [gpu for gpu in gpus if not _exclude_unfit(gpu, shares)]
    sizes = [(gpu, _size(rule, gpu, shares)) for gpu in fit]
    _check_shared(rule, fit)
    reserve = int(rule.get("reserve_mib", 0))
    shares.memory_mib += sum(size for _gpu, size in sizes)
    if rule.get("sum"):
        _advertise_sum(rule, sizes, reserve, shares)
        return
    for gpu, size in sizes:
        # Include failed GPUs, because a kind's name must not change when another card fails.
        place = place_name(gpu) if len(gpus) > 1 else ""
        if place is None:
            shares.exclude(gpu, "its PCI address, which would be part of its kind's name, could not be read")
            continue
        kind = "-".join(part for part in (rule["kind"], place) if part)
        shares.add(gpu, kind, size - reserve)
        shares.map_value(kind, generic_resources.AMOUNT, [(gpu, size)])


def _exclude_unfit(gpu: Gpu, shares: Shares) -> str | None:
    reason = _failure(gpu) or ("it is in MIG mode, where its memory is divided already" if in_mig_mode(gpu) else None)
    if reason:
        shares.exclude(gpu, reason)
    return reason


def _size(rule: Rule, gpu: Gpu, shares: Shares) -> int:
    """Return the GPU's memory in MiB. Raises PolicyError if the size is unknown, or not more than reserve_mib."""
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


def _advertise_sum(rule: Rule, sizes: Sequence[tuple[Gpu, int]], reserve: int, shares: Shares) -> None:
    if not sizes:
        return
    kind, total = rule["kind"], sum(size - reserve for _gpu, size in sizes)
    shares.add(sizes[0][0], kind, total)
    shares.map_value(kind, generic_resources.AMOUNT, sizes)
    for gpu, _size_mib in sizes[1:]:
        shares.mark_covered(gpu)
    if len(sizes) > 1:
        largest = max(size - reserve for _gpu, size in sizes)
        shares.warnings.append(
            f"{kind} is the sum over {len(sizes)} GPUs, {total} MiB: swarm accepts a task that reserves more than the {largest} MiB"
            " of the largest GPU, which then fits on none, and it places tasks although no single GPU has that much left. Without"
            " 'sum: true' each GPU has its own kind."
        )


# --- slots ----------------------------------------------------------------------------------------------------------


def advertise_slots(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """Advertise slots of each card, or of each MIG device of a card in MIG mode.

    All slots of one device are listed together. Swarm allocates from the front of the list, so tasks fill one device before the next.
    """
    for gpu in gpus:
        if in_mig_mode(gpu):
            _advertise_slots_of_mig_devices(rule, gpu, shares)
            continue
        reason = why_unfit(gpu, shares)
        if reason:
            shares.exclude(gpu, reason)
            continue
        _add_slots(rule, gpu, gpu, _count_slots(rule, gpu.get("memory_mib"), f"GPU {gpu['index']} ({gpu.get('model')})"), shares)


def _advertise_slots_of_mig_devices(rule: Rule, gpu: Gpu, shares: Shares) -> None:
    for device in _mig_devices(gpu, shares):
        size, name = device.get("memory_mib"), f"the MIG device {device.get('profile') or device['uuid']} of GPU {gpu['index']} ({gpu.get('model')})"
        if size is not None and "slot_mib" in rule and size - int(rule.get("reserve_mib", 0)) < int(rule["slot_mib"]):
            # No error: the user cannot assign a single MIG device to another rule.
            shares.exclude(gpu, f"{name} has {size} MiB, which is too little for a slot of {rule['slot_mib']} MiB", device["uuid"])
            continue
        _add_slots(rule, gpu, device, _count_slots(rule, size, name), shares)


def _add_slots(rule: Rule, gpu: Gpu, device: Mapping[str, Any], slots: tuple[int, int | None], shares: Shares) -> None:
    count, mib = slots
    for number in range(1, count + 1):
        value = slot_name(device["uuid"], number)
        shares.add(gpu, rule["kind"], value)
        shares.map_value(rule["kind"], value, [(device, device.get("memory_mib"))], mib, bool(rule.get("slots_together")))


def _count_slots(rule: Rule, size: int | None, name: str) -> tuple[int, int | None]:
    """Return (the number of slots of a card or MIG device, the MiB of each slot). The MiB are None if the device has no memory of its own."""
    reserve = int(rule.get("reserve_mib", 0))
    if size is None:
        if "slots" in rule:
            return int(rule["slots"]), None
        raise PolicyError(
            f"advertise: {name} has no memory of its own, as is usual with unified memory, so slot_mib={rule['slot_mib']} does not set how many"
            " slots it has. Set 'slots', or give that GPU to another rule with 'select'."
        )
    count = int(rule["slots"]) if "slots" in rule else (size - reserve) // int(rule["slot_mib"])
    mib = (size - reserve) // count if "slots" in rule else int(rule["slot_mib"])
    if count < 1 or mib < 1 or count > MOST_SLOTS:
        option = f"slots={rule['slots']}" if "slots" in rule else f"slot_mib={rule['slot_mib']}"
        problem = f"makes {count} slots, more than {MOST_SLOTS}," if count > MOST_SLOTS else "makes no slot"
        raise PolicyError(
            f"advertise: {option} with reserve_mib={reserve} {problem} of the {size} MiB of {name}. Change it, or give that GPU to another rule with"
            " 'select'."
        )
    return count, mib


# --- MIG devices ----------------------------------------------------------------------------------------------------


def advertise_mig(rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    """Advertise MIG devices with a kind per profile. The cards themselves are not advertised."""
    for gpu in gpus:
        for device in _mig_devices(gpu, shares):
            if not device.get("profile"):
                shares.exclude(gpu, "the profile of this MIG device could not be read", device["uuid"])
            else:
                shares.add(gpu, f"{rule['kind']}-{label_safe(device['profile'].replace('+', '.'))}", device["uuid"])


def _mig_devices(gpu: Gpu, shares: Shares) -> list[dict[str, Any]]:
    """Return the MIG devices of a card that can be advertised. Add the other MIG devices to the excluded GPUs."""
    reason, devices = _failure(gpu), []
    if not reason and not gpu.get("mig_devices"):
        reason = "it is in MIG mode but has no MIG devices; 'nvidia-smi mig -lgip' lists what 'nvidia-smi mig -cgi … -C' can create"
    if reason:
        shares.exclude(gpu, reason)
        return []
    for device in gpu["mig_devices"]:
        uuid = device.get("uuid")
        if uuid and MIG_UUID.fullmatch(uuid):
            devices.append(device)
        else:
            shares.exclude(gpu, f"{generic_resources.shorten(uuid)} is not a full MIG UUID, the toolkit would refuse it", uuid)
    return devices


# --- nothing --------------------------------------------------------------------------------------------------------


def leave_to_host(_rule: Rule, gpus: Sequence[Gpu], shares: Shares) -> None:
    shares.to_host.extend(gpus)
