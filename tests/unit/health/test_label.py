# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import label
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import Label

CARD = "GPU-00000000-1111-2222-3333-444444444444"
MIG = "MIG-00000000-1111-2222-3333-444444444444"

TEXTS = [
    (Label("ok"), "ok"),
    (Label("unwatched"), "unwatched"),
    (Label("ok", drift="1f2e3d4c"), "ok drift=1f2e3d4c"),
    (Label("fault", CARD, xid=79), f"fault {CARD} xid=79"),
    (Label("fault", MIG, "lost", since=1764000000), f"fault {MIG} reason=lost since=1764000000"),
    (
        Label("fault", CARD, "lost", pci="00000000:C1:00.0", slot="12", serial="1320221054323"),
        f"fault {CARD} reason=lost pci=00000000:C1:00.0 slot=12 serial=1320221054323",
    ),
    (Label("fault", reason="lost", gpu=5), "fault reason=lost gpu=5"),
    (Label("warning", CARD, "degraded", None, 3, 1764000000, "1f2e3d4c"), f"warning {CARD} reason=degraded since=1764000000 drift=1f2e3d4c cards=3"),
    (Label("ok", model="NVIDIA-H100-80GB-HBM3"), "ok model=NVIDIA-H100-80GB-HBM3"),
    (Label("fault", CARD, "lost", None, 2, model="mixed"), f"fault {CARD} reason=lost cards=2 model=mixed"),
]


@pytest.mark.parametrize(("one", "value"), TEXTS)
def test_a_label_is_written_and_read(one, value):
    assert label.format_label(one) == value
    assert label.parse_label(value) == one


def test_the_longest_label_is_short():
    longest = Label("unwatched", CARD, "x" * 20, 10**12 - 1, 10**12 - 1, 10**12 - 1, "ffffffff", "0" * 8 + ":C1:00.0", "x" * 24, "x" * 24, 10**12 - 1)
    longest = longest._replace(model="M" * 60)
    assert len(label.format_label(longest).encode()) <= label.LIMIT


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("", Label("unknown")),
        ("fine, really", Label("unknown")),
        ("ok GPU-0", Label("ok")),
        ("fault GPU-00000000-1111-2222-3333-44444444444X", Label("fault")),
        ("fault reason=\x1b[31mred xid=-1 since=soon cards=0 drift=zz", Label("fault")),
        ("fault xid=" + "9" * 400, Label("fault")),
        ("fault = == a= =b", Label("fault")),
        ("fault pci=/etc slot=<b> serial=" + "9" * 25 + " gpu=x", Label("fault")),
        ("ok model=<b>T4</b>", Label("ok")),
        ("ok model=" + "T" * 61, Label("ok")),
        ("ok model=", Label("ok")),
    ],
)
def test_unknown_words_in_a_label_are_ignored(value, found):
    assert label.parse_label(value) == found


PLACE = "pci=00000000:C1:00.0 slot=12 serial=1322"


def test_a_fault_stays_the_same_with_or_without_the_location_of_the_card():
    """A watcher of an earlier release omits the location. If the user returned a node to service, an upgrade must not pause the node again."""
    assert label.is_same_fault(f"fault {CARD} reason=lost since=5", f"fault {CARD} reason=lost since=5 {PLACE}")
    assert not label.is_same_fault(f"fault {CARD} reason=lost since=5", f"fault {CARD} reason=lost since=6 {PLACE}")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (f"fault {CARD} reason=lost since=5 {PLACE}", f"{CARD} lost (PCI address 00000000:C1:00.0, slot 12, serial number 1322)"),
        (f"fault {CARD} reason=lost xid=79 cards=2 serial=1322", f"{CARD} lost xid=79 2 cards (serial number 1322)"),
        ("fault reason=lost gpu=5", "GPU 5 lost"),
        ("fault reason=hang", "hang"),
    ],
)
def test_a_card_is_described(value, words):
    assert label.describe_label(label.parse_label(value)) == words


def test_excluded_gpus_are_described():
    labels = {label.LEFT_OUT: f"fault {CARD} reason=lost {PLACE}; fault reason=lost gpu=5"}
    first = Label("fault", CARD, "lost", pci="00000000:C1:00.0", slot="12", serial="1322")
    assert label.unaccepted_losses(labels) == [first, Label("fault", None, "lost", gpu=5)]
    assert label.unaccepted_losses({label.LEFT_OUT: f"ok {CARD} reason=lost; fault reason=lost gpu=5"}) == [Label("fault", None, "lost", gpu=5)]
    assert label.unaccepted_losses({}) == label.unaccepted_losses({label.LEFT_OUT: " ; "}) == []


@pytest.mark.parametrize(
    ("now", "wanted", "then"),
    [
        (None, "fault {a} reason=lost", "fault {a} reason=lost"),
        ("ok {a} reason=lost", "fault {a} reason=lost pci=00000000:C1:00.0", "ok {a} reason=lost pci=00000000:C1:00.0"),
        ("ok {a} reason=lost", "fault {a} reason=lost; fault {b} reason=failed", "ok {a} reason=lost; fault {b} reason=failed"),
        ("fault {a} reason=lost", "ok {a} reason=lost", "ok {a} reason=lost"),
        ("ok reason=lost gpu=5", "fault reason=lost gpu=5; fault reason=lost gpu=6", "ok reason=lost gpu=5; fault reason=lost gpu=6"),
    ],
)
def test_consent_to_exclude_a_card_stays(now, wanted, then):
    """Consent that the user gave on the command line of one run is kept too."""
    cards = {"a": CARD, "b": CARD.replace("4444", "5555")}
    assert label.with_earlier_consent(now and now.format(**cards), wanted.format(**cards)) == then.format(**cards)
