# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from gpu_records import FAILED, cut, discrete, gpu, mig_uuid, named, t4, uuid

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import generic_resources
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.advertise import decide
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.shrink import advertised_before, shrink_refusal

GPU = [{"as": "gpu"}]
MIG_FIRST = [{"as": "mig"}, {"as": "gpu"}]
VRAM = [{"as": "vram", "reserve_mib": 512}]
SLOTS = [{"as": "slots", "kind": "SLOT", "slots": 1}]
BOTH = named("NVIDIA-GPU", uuid(0), uuid(1))
PARTS = named("MIG-1g.10gb", mig_uuid(0), mig_uuid(1))


def test_earlier_consent_is_only_for_lost_cards():
    """The earlier consent does not cover rules that drop a card. An expected number of GPUs overrides the consent."""
    assert refusal([gpu(0)], running=BOTH, may_lose=True) is None
    assert refusal([gpu(0), gpu(1, **FAILED)], running=BOTH, may_lose=True) is None
    assert refusal([cut(0)], MIG_FIRST, PARTS, may_lose=True) is None
    assert refusal([t4(0)], VRAM, None, {"resources": ["VRAM=30208"], "gpus": [uuid(0), uuid(1)]}, may_lose=True) is None
    assert refusal([gpu(0)], running=BOTH, may_lose=False)
    assert refusal([gpu(0)], running=BOTH, may_lose=True, expect=2)
    assert refusal([gpu(0), gpu(1)], [{"as": "gpu", "select": {"index": 0}}], BOTH, may_lose=True)
    assert refusal([], [], None, {"resources": [f"NVIDIA-GPU={uuid(0)}"]}, may_lose=True)


def refusal(gpus, rules=tuple(GPU), running=None, record=None, **consent):
    decided = decide(gpus, rules, present=generic_resources.from_info(running))
    return shrink_refusal(decided, advertised_before(running, record or {}, decided["owned_kinds"]), **consent)


# case -> (GPUs now, rules, the daemon's resources, the record, words of the refusal)
LESS = {
    "a GPU is gone": ([gpu(0)], GPU, BOTH, None, [f"{uuid(1)} is gone", "expect: 1", "gpu_node_expect", "gpu_node_allow_shrink"]),
    "a GPU failed": ([gpu(0), gpu(1, **FAILED)], GPU, BOTH, None, ["GPU 1 (", uuid(1), "GPU is lost"]),
    "all are gone": ([], GPU, BOTH, None, [uuid(0), uuid(1), "expect: 0"]),
    "a GPU with slots is gone": ([gpu(0)], SLOTS, named("SLOT", f"{uuid(0)}.slot1", f"{uuid(1)}.slot1"), None, [f"{uuid(1)} is gone"]),
    "fewer slots of a card": ([gpu(0)], SLOTS, named("SLOT", f"{uuid(0)}.slot1", f"{uuid(0)}.slot2"), None, []),
    "a GPU in the record is gone": ([gpu(0)], GPU, None, {"resources": [f"OLD={uuid(0)}", f"OLD={uuid(1)}"]}, [f"{uuid(1)} is gone"]),
    "a GPU with a shortened UUID is gone": ([gpu(0)], GPU, named("NVIDIA-GPU", "GPU-00000000", "GPU-00000001"), None, ["GPU-00000001 is gone"]),
    "one replaced, one gone": ([gpu(2)], GPU, BOTH, None, [uuid(0), uuid(1)]),
    "a lost MIG layout": ([cut(0)], MIG_FIRST, PARTS, None, [f"{mig_uuid(0)} is gone", f"{mig_uuid(1)} is gone"]),
    "a MIG mode that did not survive": ([gpu(0)], MIG_FIRST, None, {"resources": [f"MIG-1g.10gb={mig_uuid(0)}"]}, [mig_uuid(0)]),
    "the memory of a card": ([t4(0)], VRAM, None, {"resources": ["VRAM=30208"], "gpus": [uuid(0), uuid(1)]}, [f"{uuid(1)} is gone"]),
    "a card that the rules forget": (
        [gpu(0), gpu(1)],
        [{"as": "gpu", "select": {"index": 0}}],
        BOTH,
        None,
        [f"no rule selects GPU 1 (NVIDIA-H100-80GB-HBM3, {uuid(1)})", "Fix the rules, with 'as: none'", "expect: 1"],
    ),
    "rules for other cards": (
        [t4(0), t4(1)],
        [{"as": "mig"}, {"as": "gpu", "select": {"model": ["*H200*", "*B200*"], "min_memory_mib": 9}}],
        BOTH,
        None,
        [uuid(0), uuid(1), "advertise[0] (as mig), advertise[1] (as gpu, select model *H200*, *B200* and min_memory_mib 9) select nothing"],
    ),
    "one rule for other cards": ([t4(0)], [{"as": "gpu", "select": {"index": 7}}], BOTH, None, ["(as gpu, select index 7) selects nothing"]),
    "parts of a card that the rules forget": (
        [cut(0, "1g.10gb")],
        [{"as": "gpu", "select": {"index": 1}}],
        None,
        {"resources": [f"MIG-1g.10gb={mig_uuid(0)}"]},
        [f"no rule selects GPU 0 (NVIDIA-H100-80GB-HBM3, {mig_uuid(0)})"],
    ),
    "no rules": ([], [], None, {"resources": [f"NVIDIA-GPU={uuid(0)}"]}, [f"no rule is left for {uuid(0)}", "gpu_nodes", "gpu_node_allow_shrink"]),
    "rules that forget a card that was advertised by its memory": (
        [t4(0)],
        [{"as": "vram", "select": {"index": 1}}],
        None,
        {"resources": ["VRAM=15000"], "gpus": [uuid(0)]},
        [f"no rule selects GPU 0 (Tesla-T4, {uuid(0)})"],
    ),
    "memory that a person typed, of a card that the rules forget": (
        [t4(0)],
        [{"as": "vram", "select": {"index": 1}}],
        discrete("VRAM", 15000),
        None,
        ["memory: 15000 MiB so far", "have 0", "advertise[0] (as vram, select index 1) selects nothing"],
    ),
    "memory that a person typed": ([t4(0)], VRAM, discrete("VRAM", 16000), None, ["VRAM: 16000 MiB so far", "have 15360"]),
}
NOT_LESS = {
    "a fresh node": ([gpu(0)], GPU, None, None),
    "the same": ([gpu(0), gpu(1)], GPU, BOTH, {"resources": [f"NVIDIA-GPU={uuid(0)}"]}),
    "more": ([gpu(0), gpu(1), gpu(2)], GPU, BOTH, None),
    "a card was replaced": ([gpu(0), gpu(2)], GPU, BOTH, None),
    "another kind": ([gpu(0), gpu(1)], [{"as": "model"}], BOTH, None),
    "shortened UUIDs become full": ([gpu(0), gpu(1)], GPU, named("NVIDIA-GPU", "GPU-00000000", "GPU-00000001"), None),
    "a GPU that a rule leaves to the host": ([gpu(0), gpu(1)], [{"as": "none", "select": {"index": 1}}, *GPU], BOTH, None),
    "no rules, and nothing was advertised": ([], [], BOTH, {}),
    "one rule of several for other cards": ([gpu(0), gpu(1)], [{"as": "gpu", "select": {"model": "*H200*"}}, *GPU], BOTH, None),
    "another card instead": ([gpu(0), gpu(1)], [{"as": "gpu", "select": {"index": 1}}], named("NVIDIA-GPU", uuid(0)), None),
    "now as memory": ([gpu(0), gpu(1)], [{"as": "vram"}], BOTH, {"resources": generic_resources.to_entries({"NVIDIA-GPU": [uuid(0), uuid(1)]})}),
    "a GPU that is now divided": ([cut(0, "1g.10gb")], MIG_FIRST, named("NVIDIA-GPU", uuid(0)), None),
    "a GPU with a new division": ([cut(0, "1g.10gb", "1g.10gb")], MIG_FIRST, named("MIG-1g.10gb", mig_uuid(8), mig_uuid(9)), None),
    "parts left to the host": ([cut(0, "1g.10gb")], [{"as": "none"}], None, {"resources": [f"MIG-1g.10gb={mig_uuid(0)}"]}),
    "a larger reserve": ([t4(0)], VRAM, discrete("VRAM", 15000), None),
    "another total after a change of the driver": ([t4(0)], VRAM, discrete("VRAM", 16000), {"resources": ["VRAM=16000"], "gpus": [uuid(0)]}),
    "others' amounts": ([gpu(0)], GPU, discrete("SSD", 4), {"resources": ["SSD=9"]}),
}


@pytest.mark.parametrize(("gpus", "rules", "running", "record", "words"), LESS.values(), ids=LESS)
def test_less_than_before_needs_consent(gpus, rules, running, record, words):
    text = refusal(gpus, rules, running, record)
    for word in words:
        assert word in text
    assert refusal(gpus, rules, running, record, allow=True) is None


@pytest.mark.parametrize(("gpus", "rules", "running", "record"), NOT_LESS.values(), ids=NOT_LESS)
def test_these_changes_are_no_loss(gpus, rules, running, record):
    assert refusal(gpus, rules, running, record) is None


@pytest.mark.parametrize(
    ("gpus", "expect", "words"),
    [
        ([gpu(0)], 1, None),
        ([gpu(0)], "1", None),
        ([gpu(0)], 0, None),
        ([gpu(0)], 2, "2 GPUs are expected on this node and 1 can be advertised. Bring back"),
        ([gpu(0), gpu(1, **FAILED)], 2, "1 can be advertised: GPU 1 (NVIDIA-H100-80GB-HBM3"),
        ([cut(0, "1g.10gb", "1g.10gb"), gpu(1)], 3, None),  # GPUs and parts of GPUs
        ([cut(0, "1g.10gb"), gpu(1)], 3, "expect: 2"),
    ],
)
def test_a_number_of_gpus_is_expected(gpus, expect, words):
    text = refusal(gpus, MIG_FIRST, BOTH, expect=expect)
    assert text is None if words is None else words in text
    assert refusal(gpus, MIG_FIRST, BOTH, expect=expect, allow=True) is None


def test_fewer_than_expected_on_a_fresh_node():
    assert "8 GPUs are expected" in refusal([gpu(0)], expect=8)


def test_a_lost_card_is_named_from_the_record_of_the_node():
    """The message shows the person who replaces the card where the card is. Naming the card is no consent."""
    known = {"index": 1, "uuid": uuid(1), "name": "Tesla T4", "pci_bus_id": "00000000:C1:00.0", "slot": "12", "serial": "1322", "mig": [mig_uuid(1)]}
    place = "PCI address 00000000:C1:00.0, slot 12, serial number 1322"
    decided = {**decide([t4(0)], GPU, present=generic_resources.from_info(BOTH)), "cards": [known]}
    assert f"{uuid(1)} is gone (Tesla-T4, {place}). Bring back" in shrink_refusal(decided, advertised_before(BOTH, {}, decided["owned_kinds"]))
    earlier = advertised_before(named("MIG-1g.10gb", mig_uuid(1)), {"resources": [f"MIG-1g.10gb={mig_uuid(1)}"]}, ["MIG-1g.10gb"])
    text = shrink_refusal(decided, earlier)
    assert f"{mig_uuid(1)} is gone (Tesla-T4, {uuid(1)}, {place})" in text
