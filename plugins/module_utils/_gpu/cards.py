# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Identifies cards for the person who replaces a card (pure).

If a card fell off the bus, NVML knows neither its UUID nor its serial number nor its address. So a node records its cards while they still answer.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, Mapping, Sequence

from .record import Gpu, label_safe

# A recorded card: FIELDS, and ``mig``, the UUIDs of its MIG devices. Unknown values are None.
Card = Dict[str, Any]
FIELDS = ("index", "uuid", "name", "pci_bus_id", "serial", "slot")
NO_RECORD = "it does not answer and was never recorded on this node"


def card_of(gpu: Mapping[str, Any]) -> Card:
    """Return the record of a card from NVML's present values, without its slot."""
    fields = {name: gpu.get(name) for name in FIELDS}
    return {**fields, "mig": [device["uuid"] for device in gpu.get("mig_devices") or [] if device.get("uuid")]}


def fill_addresses(gpus: Sequence[Gpu], addresses: Iterable[str]) -> None:
    """Assign the driver's remaining addresses to the GPUs without an address, if the numbers of both are equal."""
    taken = {gpu["pci_bus_id"] for gpu in gpus}
    unaddressed = [gpu for gpu in gpus if not gpu["pci_bus_id"]]
    free = sorted(set(addresses) - taken)
    for gpu, address in zip(unaddressed, free) if len(unaddressed) == len(free) else ():
        gpu["pci_bus_id"] = address


def updated_records(before: Iterable[Card], cards_now: Sequence[Card], slots: Mapping[str, str], expected: Collection[str] = ()) -> list[Card]:
    """Return the records after a reading.

    A card that the reading does not contain stays recorded while the node advertises it (``expected``), or while any card does not answer.
    The record is dropped if another card has the address. ``slots`` are the kernel's names of slots, by address.
    """
    earlier = {card["uuid"]: card for card in before}
    present = [_with_earlier_values(card, earlier.get(card["uuid"], {}), slots) for card in cards_now if card["uuid"]]
    present_uuids, present_addresses = {card["uuid"] for card in present}, {card["pci_bus_id"] for card in present} - {None}
    unnamed = len(present) < len(cards_now)
    absent = [card for card in earlier.values() if card["uuid"] not in present_uuids and card["pci_bus_id"] not in present_addresses]
    absent = [card for card in absent if unnamed or not {card["uuid"], *card["mig"]}.isdisjoint(expected)]
    return sorted(present + absent, key=lambda card: (card["index"], card["uuid"]))


def _with_earlier_values(card: Card, earlier: Mapping[str, Any], slots: Mapping[str, str]) -> Card:
    """Return the card. Values that the card no longer reports come from the ``earlier`` record."""
    merged = {name: value if value not in (None, []) else earlier.get(name, value) for name, value in card.items()}
    return {**merged, "slot": slots.get(_slot_address(merged["pci_bus_id"]))}


def _slot_address(bus_id: str | None) -> str:
    """Return an address in the form that slots use: NVML's ``00000000:C1:00.0`` becomes ``0000:c1:00``."""
    return (bus_id or "").lower().rpartition(".")[0][-len("0000:c1:00") :]


def match_records(cards_now: Sequence[Card], records: Iterable[Card]) -> list[Card | None]:
    """Return the record of each card of a reading, or None.

    A card without a UUID is matched with the missing card at its address. If addresses are unknown, the cards without a UUID are matched with the
    missing cards in order, provided that the numbers of both are equal.
    """
    by_uuid = {card["uuid"]: card for card in records}
    unnamed = [card for card in cards_now if not card["uuid"]]
    missing = [by_uuid[uuid] for uuid in by_uuid if uuid not in {card["uuid"] for card in cards_now}]
    if all(card["pci_bus_id"] for card in unnamed):
        by_address = {card["pci_bus_id"]: card for card in missing}
        matches = {card["index"]: by_address.get(card["pci_bus_id"]) for card in unnamed}
    else:
        matches = {card["index"]: record for card, record in zip(unnamed, missing)} if len(unnamed) == len(missing) else {}
    return [by_uuid.get(card["uuid"]) or matches.get(card["index"]) for card in cards_now]


def with_identity(excluded: Iterable[Mapping[str, Any]], gpus: Sequence[Mapping[str, Any]], card_records: Iterable[Card]) -> list[dict[str, Any]]:
    """Return the excluded GPUs. A failed GPU gets all known FIELDS. ``last_known`` marks a GPU that does not report its UUID."""
    now = [card_of(gpu) for gpu in gpus]
    records = {card["index"]: record or card for card, record in zip(now, match_records(now, card_records))}
    lacks_uuid = {gpu["index"]: not gpu["uuid"] for gpu in gpus if gpu["health"]["state"] == "failed" or not gpu["uuid"]}
    result = []
    for gpu_entry in excluded:
        if gpu_entry["index"] in lacks_uuid:
            known_values = {**{name: records[gpu_entry["index"]][name] for name in FIELDS}, "last_known": lacks_uuid[gpu_entry["index"]]}
            gpu_entry = {**known_values, **{key: value for key, value in gpu_entry.items() if value is not None}}
        result.append(dict(gpu_entry))
    return result


def find_card(records: Iterable[Card], uuid: str | None) -> Card | None:
    """Return the card with this UUID, or with a MIG device of this UUID."""
    return next((card for card in records if uuid in (card["uuid"], *card["mig"])), None)


def describe_gpu(gpu: Mapping[str, Any]) -> str:
    """Return a text about a GPU that follows the word "GPU": its index, model, UUID and place. ``last_known`` marks recorded values."""
    description = ", ".join(filter(None, [model_of(gpu), gpu.get("uuid"), describe_place(gpu)]))
    if not gpu.get("uuid"):
        description = "; ".join(filter(None, [description, NO_RECORD]))
    elif gpu.get("last_known"):
        description = "last known as %s" % description
    return "%s (%s)" % (gpu["index"], description)


def model_of(gpu: Mapping[str, Any]) -> str | None:
    """Return the model in the spelling of the label gpu.model, so that a run uses one spelling everywhere. None if the model is unknown."""
    return label_safe(gpu["name"]) if gpu.get("name") else None


def describe_place(gpu: Mapping[str, Any]) -> str:
    """Return the PCI address, slot and serial number as text, as far as they are known."""
    names = (("PCI address", "pci_bus_id"), ("slot", "slot"), ("serial number", "serial"))
    return ", ".join("%s %s" % (text, gpu[name]) for text, name in names if gpu.get(name))
