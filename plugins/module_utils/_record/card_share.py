# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes the unit, the MiB and the number of cards of an allocation (pure). Unknown values are None.

A manager knows the values and amounts that a node advertises, and the node's labels. It does not know the node's policy.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from .._gpu.record import devices_of, is_slot
from .._health.label import valid_uuid
from .._ledger.node_labels import about_gpus

GPU, SLOT, GROUP, MIG, MIB = "GPU", "slot", "group", "MIG device", "MiB"
# The profile in the name of a kind of MIG devices: 1g.10gb has 10 GB of its card's memory.
_PROFILE = re.compile(r"(?:^|[^0-9])[1-9]g\.([1-9][0-9]{0,3})gb", re.IGNORECASE)
# If a kind is the memory of one card, its name ends with the card's PCI address.
_PLACE = re.compile(r"-[0-9A-F]{2}(?:-[0-9A-F]{2})?(?:\.[0-7])?\Z")
_EIGHTHS = 8  # the parts into which MIG divides the memory of a card


class Share(NamedTuple):
    """``amount`` counts ``unit``. ``cards`` is the number of cards, such as 0.25; None if unknown. ``devices`` are UUIDs."""

    amount: int
    unit: str
    mib: int | None = None
    cards: float | None = None
    devices: tuple[str, ...] = ()


def share_of_value(record: Mapping[str, Any], kind: str, value: str) -> Share:
    """Return the share for a value of a named kind. ``record`` is the node's record in the ledger."""
    devices = tuple(devices_of(value))
    if is_slot(value):
        return Share(1, SLOT, None, _slot(record, kind, value), devices)
    if len(devices) > 1:
        cards = float(len(set(devices))) if all(map(valid_uuid, devices)) else None
        return Share(1, GROUP, None, cards, devices)
    if value.startswith("GPU-"):
        return Share(1, GPU, None, 1.0, devices)
    if value.startswith("MIG-"):
        return Share(1, MIG, None, _mig(record, kind), devices)
    return Share(1, kind)


def share_of_amount(record: Mapping[str, Any], kind: str, amount: int) -> Share:
    """Return the share for an amount of a counted kind. Memory of cards counts in MiB, everything else in its own unit."""
    card_mib = _advertised_mib(record, kind)
    return Share(amount, MIB, amount, amount / card_mib) if card_mib else Share(amount, kind)


def _slot(record: Mapping[str, Any], kind: str, value: str) -> float | None:
    device = devices_of(value)[0]
    values = ((record.get("resources") or {}).get(kind) or {}).get("values") or ()
    slots = len({other for other in values if is_slot(other) and devices_of(other)[0] == device})
    whole = 1.0 if device.startswith("GPU-") else _mig(record, kind) if device.startswith("MIG-") else None
    return None if not slots or whole is None else whole / slots


def _mig(record: Mapping[str, Any], kind: str) -> float | None:
    """Return the MIG device's part of its card's memory, from the profile in the kind's name. The profile rounds the memory, so count eighths."""
    match, memory_gb = _PROFILE.search(kind), _number(record, "memory")
    eighths = round(_EIGHTHS * int(match.group(1)) / memory_gb) if match and memory_gb else 0
    return eighths / _EIGHTHS if 1 <= eighths <= _EIGHTHS else None


def _advertised_mib(record: Mapping[str, Any], kind: str) -> float | None:
    """Return the MiB that the node advertises of each card with this kind; None if the kind is not memory of cards, or the cards may differ."""
    resources = record.get("resources") or {}
    total, memory_gb = (resources.get(kind) or {}).get("total") or 0, _number(record, "memory")
    if not memory_gb or not total:
        return None
    named = {device for entry in resources.values() for value in entry.get("values") or () for device in devices_of(value)}
    cards = 1 if _PLACE.search(kind) else (_number(record, "count") or 0) - len(named)
    most = cards * memory_gb * 1024
    return total / cards if most / 2 < total <= most else None


def _number(record: Mapping[str, Any], name: str) -> int | None:
    """Return the number in a label about the node's GPUs. Cards that differ have no such label."""
    text = about_gpus(record.get("labels") or {}).get(name) or ""
    return int(text) if re.match(r"[1-9][0-9]{0,4}\Z", text) else None
