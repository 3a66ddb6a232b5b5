# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the texts that tell a person where the card to replace is."""

from __future__ import annotations

import pytest
from gpu_records import FAILED, cut, gpu, mig_uuid, uuid

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import cards

SLOTS = {"0000:c1:00": "12"}
UNREAD = {**FAILED, "uuid": None, "name": None, "model": None, "memory_mib": None, "pci_bus_id": None}


def read(*gpus):
    return [cards.card_of({"serial": f"13{one['index']}" if one["uuid"] else None, **one}) for one in gpus]


def record(*gpus):
    return cards.updated_records([], read(*gpus), SLOTS)


def uuids(found):
    return [card and card["uuid"] for card in found]


THREE = record(gpu(0), gpu(1), gpu(2))


def test_a_card_is_on_record_with_its_slot_and_serial_number():
    assert THREE[1] == {
        "index": 1,
        "uuid": uuid(1),
        "name": "NVIDIA H100 80GB HBM3",
        "pci_bus_id": "00000000:C1:00.0",
        "serial": "131",
        "slot": "12",
        "mig": [],
    }
    assert [card["slot"] for card in THREE] == [None, "12", None]


@pytest.mark.parametrize(
    ("now", "expected", "kept"),
    [
        ([gpu(0), gpu(1), gpu(2)], [], [0, 1, 2]),
        ([gpu(0), gpu(1, **UNREAD), gpu(2)], [], [0, 1, 2]),
        ([gpu(0), gpu(2)], [uuid(1)], [0, 1, 2]),  # the card is gone, but still advertised
        ([gpu(0), gpu(2)], [], [0, 2]),  # the user consented, or the card was moved to another machine
        ([gpu(0), gpu(1, uuid=uuid(7)), gpu(2)], [uuid(1)], [0, 7, 2]),  # another card replaced it
        ([], [uuid(0)], [0]),
    ],
)
def test_cards_stay_on_record(now, expected, kept):
    found = cards.updated_records(THREE, read(*now), SLOTS, expected)
    assert sorted(uuids(found)) == sorted(uuid(number) for number in kept)


def test_a_card_stays_on_record_while_a_mig_device_of_it_is_advertised():
    before = record(cut(0, "1g.10gb"))
    assert uuids(cards.updated_records(before, read(gpu(1)), {}, [mig_uuid(0)])) == [uuid(0), uuid(1)]
    assert cards.find_card(before, mig_uuid(0)) == before[0]


def test_a_card_that_moved_is_where_it_is_now():
    (card,) = cards.updated_records(record(gpu(1)), read(gpu(1, pci_bus_id="00000000:E2:00.0")), SLOTS)
    assert (card["pci_bus_id"], card["slot"]) == ("00000000:E2:00.0", None)


def test_a_card_that_dies_during_a_read_keeps_its_former_values():
    dying = {**cards.card_of(gpu(1, pci_bus_id=None, **FAILED)), "serial": None}
    assert cards.updated_records(THREE[1:2], [dying], SLOTS) == THREE[1:2]


@pytest.mark.parametrize(
    ("now", "known", "found"),
    [
        ([gpu(0), gpu(1), gpu(2)], THREE, [0, 1, 2]),
        ([gpu(0), gpu(1, **UNREAD), gpu(2)], THREE, [0, 1, 2]),
        ([gpu(0, **UNREAD), gpu(1, **UNREAD), gpu(2)], THREE, [0, 1, 2]),
        ([gpu(0), gpu(1, **{**UNREAD, "pci_bus_id": "00000000:C2:00.0"})], THREE, [0, 2]),  # recognised by its address
        ([gpu(0), gpu(1, **{**UNREAD, "pci_bus_id": "00000000:EE:00.0"}), gpu(2)], THREE, [0, None, 2]),  # another card, which never answered
        ([gpu(0), gpu(1, **UNREAD)], THREE, [0, None]),  # two cards are missing, and nobody knows which one this is
        ([gpu(0), gpu(1, **UNREAD), gpu(2)], [], [None, None, None]),  # an earlier release has no record
    ],
)
def test_a_card_that_does_not_answer_is_the_missing_one(now, known, found):
    assert uuids(cards.match_records(read(*now), known)) == [None if number is None else uuid(number) for number in found]


PLACE = "PCI address 00000000:C1:00.0, slot 12, serial number 131"


@pytest.mark.parametrize(
    ("one", "known", "text"),
    [
        (gpu(1, **UNREAD), THREE, f"GPU 1 (last known as NVIDIA-H100-80GB-HBM3, {uuid(1)}, {PLACE})"),
        (gpu(1, **UNREAD), [], "GPU 1 (it does not answer and was never recorded on this node)"),
        (gpu(1, **{**UNREAD, "pci_bus_id": "00000000:C1:00.0"}), [], f"GPU 1 (PCI address 00000000:C1:00.0; {cards.NO_RECORD})"),
        (gpu(1, **FAILED), THREE, f"GPU 1 (NVIDIA-H100-80GB-HBM3, {uuid(1)}, {PLACE})"),
        (gpu(1), THREE, f"GPU 1 (NVIDIA-H100-80GB-HBM3, {uuid(1)})"),  # the card is healthy, but excluded for another reason
    ],
)
def test_an_excluded_gpu_is_described(one, known, text):
    left = {"index": 1, "uuid": one["uuid"], "name": one["name"], "reason": "GPU is lost"}
    (found,) = cards.with_identity([left], [gpu(0), one, gpu(2)], known)
    assert f"GPU {cards.describe_gpu(found)}" == text
    assert found["reason"] == "GPU is lost"


@pytest.mark.parametrize(
    ("addresses", "places"),
    [
        (["00000000:C0:00.0", "00000000:C1:00.0", "00000000:C2:00.0"], [0xC0, 0xC1, 0xC2]),
        (["00000000:C1:00.0"], [0xC0, 0xC1, 0xC2]),
        ([], [0xC0, None, 0xC2]),
        (["00000000:C1:00.0", "00000000:EE:00.0"], [0xC0, None, 0xC2]),  # nobody knows which of the two addresses belongs to the card
    ],
)
def test_a_card_that_does_not_answer_has_its_location(addresses, places):
    """The driver knows the address of the card, even if the card has not answered since the node was provisioned."""
    gpus = [gpu(0), gpu(1, **UNREAD), gpu(2)]
    cards.fill_addresses(gpus, addresses)
    assert [one["pci_bus_id"] for one in gpus] == [place and f"00000000:{place:02X}:00.0" for place in places]
