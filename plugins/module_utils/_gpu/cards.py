# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Identifies cards for the person who replaces one (pure).

NVML cannot name a card that fell off the bus: no UUID, no serial number, no address. So a node records its cards while they still answer.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Mapping, Sequence

from .record import Gpu, label_safe

# A recorded card: FIELDS, and ``mig``, the UUIDs of its MIG devices. Unknown values are None.
Card = Dict[str, Any]
FIELDS = ("index", "uuid", "name", "pci_bus_id", "serial", "slot")
NO_RECORD = "it does not answer and was never recorded on this node"


def card_of(gpu: Mapping[str, Any]) -> Card:
    """Return the record of a card as NVML describes it now, without its slot."""
    known = {name: gpu.get(name) for name in FIELDS}
    return {**known, "mig": [one["uuid"] for one in gpu.get("mig_devices") or [] if one.get("uuid")]}


def fill_addresses(gpus: Sequence[Gpu], addresses: Iterable[str]) -> None:
    """Set the addresses of GPUs that lack one: the driver's remaining addresses, if there are exactly as many of them."""
    taken = {gpu["pci_bus_id"] for gpu in gpus}
    lost = [gpu for gpu in gpus if not gpu["pci_bus_id"]]
    free = sorted(set(addresses) - taken)
    for gpu, address in zip(lost, free) if len(lost) == len(free) else ():
        gpu["pci_bus_id"] = address


def updated_records(before: Iterable[Card], now: Sequence[Card], slots: Mapping[str, str], expected: Collection[str] = ()) -> list[Card]:
    """Return the records after a reading.

    A card that the reading does not contain stays recorded while the node advertises it (``expected``), or while any card does not answer.
    It is dropped if another card has its address. ``slots`` are the kernel's names of slots, by address.
    """
    earlier = {card["uuid"]: card for card in before}
    found = [_with_earlier_values(card, earlier.get(card["uuid"], {}), slots) for card in now if card["uuid"]]
    with_identity, places = {card["uuid"] for card in found}, {card["pci_bus_id"] for card in found} - {None}
    unnamed = len(found) < len(now)
    rest = [card for card in earlier.values() if card["uuid"] not in with_identity and card["pci_bus_id"] not in places]
    rest = [card for card in rest if unnamed or not {card["uuid"], *card["mig"]}.isdisjoint(expected)]
    return sorted(found + rest, key=lambda card: (card["index"], card["uuid"]))


def _with_earlier_values(card: Card, earlier: Mapping[str, Any], slots: Mapping[str, str]) -> Card:
    """Return the card; values that it no longer reports come from the ``earlier`` record."""
    known = {name: value if value not in (None, []) else earlier.get(name, value) for name, value in card.items()}
    return {**known, "slot": slots.get(_slot_address(known["pci_bus_id"]))}


def _slot_address(bus_id: str | None) -> str:
    """Return the slot's form of an address: NVML's ``00000000:C1:00.0`` is ``0000:c1:00``."""
    return (bus_id or "").lower().rpartition(".")[0][-len("0000:c1:00") :]


def match_records(now: Sequence[Card], known: Iterable[Card]) -> list[Card | None]:
    """Return the record of each card of a reading, or None.

    A card without a UUID is matched with the missing card at its address. If addresses are unknown, the cards without a UUID are matched with the
    missing cards in order, if there are equally many.
    """
    by_uuid = {card["uuid"]: card for card in known}
    unnamed = [card for card in now if not card["uuid"]]
    missed = [by_uuid[uuid] for uuid in by_uuid if uuid not in {card["uuid"] for card in now}]
    if all(card["pci_bus_id"] for card in unnamed):
        there = {card["pci_bus_id"]: card for card in missed}
        found = {card["index"]: there.get(card["pci_bus_id"]) for card in unnamed}
    else:
        found = {card["index"]: one for card, one in zip(unnamed, missed)} if len(unnamed) == len(missed) else {}
    return [by_uuid.get(card["uuid"]) or found.get(card["index"]) for card in now]


def with_identity(left_out: Iterable[Mapping[str, Any]], gpus: Sequence[Mapping[str, Any]], known: Iterable[Card]) -> list[dict[str, Any]]:
    """Return the excluded GPUs; failed ones get all FIELDS that are known. ``last_known`` marks a GPU that does not report its UUID."""
    now = [card_of(gpu) for gpu in gpus]
    records = {card["index"]: record or card for card, record in zip(now, match_records(now, known))}
    unnamed = {gpu["index"]: not gpu["uuid"] for gpu in gpus if gpu["health"]["state"] == "failed" or not gpu["uuid"]}
    found = []
    for one in left_out:
        if one["index"] in unnamed:
            known_of_it = {**{name: records[one["index"]][name] for name in FIELDS}, "last_known": unnamed[one["index"]]}
            one = {**known_of_it, **{key: value for key, value in one.items() if value is not None}}
        found.append(dict(one))
    return found


def find_card(known: Iterable[Card], uuid: str | None) -> Card | None:
    """Return the card with this UUID, or with a MIG device of this UUID."""
    return next((card for card in known if uuid in (card["uuid"], *card["mig"])), None)


def describe_gpu(one: Mapping[str, Any]) -> str:
    """Return a text about a GPU that follows the word "GPU": its index, model, UUID and place. ``last_known`` marks recorded values."""
    known = ", ".join(filter(None, [model_of(one), one.get("uuid"), describe_place(one)]))
    if not one.get("uuid"):
        known = "; ".join(filter(None, [known, NO_RECORD]))
    elif one.get("last_known"):
        known = "last known as %s" % known
    return "%s (%s)" % (one["index"], known)


def model_of(one: Mapping[str, Any]) -> str | None:
    """Return the model as the label gpu.model spells it, so that a run uses one spelling everywhere. None if it is unknown."""
    return label_safe(one["name"]) if one.get("name") else None


def describe_place(one: Mapping[str, Any]) -> str:
    """Return the PCI address, slot and serial number as text, as far as they are known."""
    words = (("PCI address", "pci_bus_id"), ("slot", "slot"), ("serial number", "serial"))
    return ", ".join("%s %s" % (word, one[name]) for word, name in words if one.get(name))
