# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which card is which, for the person who replaces it (pure).

A card that fell off the bus gives NVML neither its UUID nor its serial number nor its address. So a node keeps a record of its cards from the
time when they could be read. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Mapping, Sequence

from .record import Gpu, label_safe

# A card on record: FIELDS, and ``mig``, the UUIDs of its MIG devices. Unknown values are None.
Card = Dict[str, Any]
FIELDS = ("index", "uuid", "name", "pci_bus_id", "serial", "slot")
NO_RECORD = "it does not answer, and this node has no record of it"


def card_of(gpu: Mapping[str, Any]) -> Card:
    """A card as NVML names it now, but for its slot."""
    known = {name: gpu.get(name) for name in FIELDS}
    return {**known, "mig": [one["uuid"] for one in gpu.get("mig_devices") or [] if one.get("uuid")]}


def locate(gpus: Sequence[Gpu], addresses: Iterable[str]) -> None:
    """GPUs that do not say where they are have those addresses of the driver's that no other GPU has, if these are as many."""
    taken = {gpu["pci_bus_id"] for gpu in gpus}
    lost = [gpu for gpu in gpus if not gpu["pci_bus_id"]]
    free = sorted(set(addresses) - taken)
    for gpu, address in zip(lost, free) if len(lost) == len(free) else ():
        gpu["pci_bus_id"] = address


def remembered(before: Iterable[Card], now: Sequence[Card], slots: Mapping[str, str], expected: Collection[str] = ()) -> list[Card]:
    """The record after a reading. A card that the reading does not name stays on record while the node advertises it (``expected``), or while
    any card does not answer; not if another card is in its place. ``slots`` are the names of slots by address, as the kernel has them."""
    earlier = {card["uuid"]: card for card in before}
    found = [_filled(card, earlier.get(card["uuid"], {}), slots) for card in now if card["uuid"]]
    named, places = {card["uuid"] for card in found}, {card["pci_bus_id"] for card in found} - {None}
    unnamed = len(found) < len(now)
    rest = [card for card in earlier.values() if card["uuid"] not in named and card["pci_bus_id"] not in places]
    rest = [card for card in rest if unnamed or not {card["uuid"], *card["mig"]}.isdisjoint(expected)]
    return sorted(found + rest, key=lambda card: (card["index"], card["uuid"]))


def _filled(card: Card, earlier: Mapping[str, Any], slots: Mapping[str, str]) -> Card:
    """What one that fails in the middle of a reading does not say any more is as it was."""
    known = {name: value if value not in (None, []) else earlier.get(name, value) for name, value in card.items()}
    return {**known, "slot": slots.get(_slot_address(known["pci_bus_id"]))}


def _slot_address(bus_id: str | None) -> str:
    """``00000000:C1:00.0``, as NVML has it, is ``0000:c1:00`` of a slot."""
    return (bus_id or "").lower().rpartition(".")[0][-len("0000:c1:00") :]


def identified(now: Sequence[Card], known: Iterable[Card]) -> list[Card | None]:
    """The record of each card of a reading, None where there is none. One without a UUID is the one that is missed at its address; where addresses
    are not known, those without a UUID are those that are missed, if these are as many."""
    by_uuid = {card["uuid"]: card for card in known}
    unnamed = [card for card in now if not card["uuid"]]
    missed = [by_uuid[uuid] for uuid in by_uuid if uuid not in {card["uuid"] for card in now}]
    if all(card["pci_bus_id"] for card in unnamed):
        there = {card["pci_bus_id"]: card for card in missed}
        found = {card["index"]: there.get(card["pci_bus_id"]) for card in unnamed}
    else:
        found = {card["index"]: one for card, one in zip(unnamed, missed)} if len(unnamed) == len(missed) else {}
    return [by_uuid.get(card["uuid"]) or found.get(card["index"]) for card in now]


def named(left_out: Iterable[Mapping[str, Any]], gpus: Sequence[Mapping[str, Any]], known: Iterable[Card]) -> list[dict[str, Any]]:
    """GPUs that cannot be advertised, those that failed with all FIELDS, as far as they are known. ``last_known`` marks one that does not even say
    which it is."""
    now = [card_of(gpu) for gpu in gpus]
    records = {card["index"]: record or card for card, record in zip(now, identified(now, known))}
    unnamed = {gpu["index"]: not gpu["uuid"] for gpu in gpus if gpu["health"]["state"] == "failed" or not gpu["uuid"]}
    found = []
    for one in left_out:
        if one["index"] in unnamed:
            known_of_it = {**{name: records[one["index"]][name] for name in FIELDS}, "last_known": unnamed[one["index"]]}
            one = {**known_of_it, **{key: value for key, value in one.items() if value is not None}}
        found.append(dict(one))
    return found


def holding(known: Iterable[Card], uuid: str | None) -> Card | None:
    """The card of this UUID, or whose MIG device has it."""
    return next((card for card in known if uuid in (card["uuid"], *card["mig"])), None)


def in_words(one: Mapping[str, Any]) -> str:
    """A GPU with what is known of it, behind the word GPU. Of one that does not answer (``last_known``) that is what was read last."""
    known = ", ".join(filter(None, [model(one), one.get("uuid"), place(one)]))
    if not one.get("uuid"):
        known = "; ".join(filter(None, [known, NO_RECORD]))
    elif one.get("last_known"):
        known = "last known as %s" % known
    return "%s (%s)" % (one["index"], known)


def model(one: Mapping[str, Any]) -> str | None:
    """The model as the label gpu.model spells it, so that it is the same word wherever a run names it. None if it is not known."""
    return label_safe(one["name"]) if one.get("name") else None


def place(one: Mapping[str, Any]) -> str:
    """Where it is in its machine and what is printed on it, as far as that is known."""
    words = (("PCI address", "pci_bus_id"), ("slot", "slot"), ("serial number", "serial"))
    return ", ".join("%s %s" % (word, one[name]) for word, name in words if one.get(name))
