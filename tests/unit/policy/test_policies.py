# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every form of a rule: models, memory, MIG devices, extra resources, and what must hold for all of them."""

from __future__ import annotations

import pytest
from gpu_records import FAILED, MIG_ON, cut, discrete, gpu, mig_uuid, named, t4, unified, uuid
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import generic_resources
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.advertise import (
    PolicyError,
    check_rules,
    decide,
    find_drift,
    swarm_resource_drift,
)
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.allocation import derived_kind
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.selection import place_name

# --- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
        ("Tesla T4", "NVIDIA-T4"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),  # the same card with a driver older than 465
        ("GeForce RTX 3090", "NVIDIA-GeForce-RTX-3090"),
        ("NVIDIA GeForce RTX 3090", "NVIDIA-GeForce-RTX-3090"),
        ("Quadro RTX 6000", "NVIDIA-Quadro-RTX-6000"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA-RTX-6000-Ada-Generation"),
        ("NVIDIA Graphics=Device, \"x\"", "NVIDIA-Graphics-Device-x"),
        ("", None),
        (None, None),
    ],
)
def test_a_kind_is_made_from_a_model(name, kind):
    assert derived_kind(name) == kind


def test_each_model_has_its_kind():
    decided = decide([gpu(0), t4(1), gpu(2)], [{"as": "model"}])
    assert decided["resources"] == [f"NVIDIA-H100-80GB-HBM3={uuid(0)}", f"NVIDIA-T4={uuid(1)}", f"NVIDIA-H100-80GB-HBM3={uuid(2)}"]
    assert decided["swarm_resource"] == "DOCKER_RESOURCE_NVIDIA-H100-80GB-HBM3,DOCKER_RESOURCE_NVIDIA-T4"


def test_the_map_of_the_user_goes_first_and_other_kinds_are_derived():
    rules = [{"as": "model", "kinds": {"*H100*": "BIG", "*": "REST"}}]
    assert decide([gpu(0), t4(1)], rules)["kinds"] == ["BIG", "REST"]
    assert decide([gpu(0), t4(1)], [{"as": "model", "kinds": {"NVIDIA-H100-*": "BIG"}}])["kinds"] == ["BIG", "NVIDIA-T4"]
    assert decide([], rules)["owned_kinds"] == ["BIG", "REST"]


def test_two_models_with_one_kind_are_refused():
    twins = [gpu(0, name="NVIDIA X 1"), gpu(1, name="NVIDIA X-1")]
    with pytest.raises(PolicyError, match="'NVIDIA X 1' and 'NVIDIA X-1' would both be the kind NVIDIA-X-1.*kinds"):
        decide(twins, [{"as": "model"}])
    assert decide(twins, [{"as": "model", "kinds": {"*": "X"}}])["kinds"] == ["X"]


def test_an_unknown_model_is_refused():
    (left,) = decide([gpu(0, name=None, model=None)], [{"as": "model"}])["left_out"]
    assert left["reason"] == "its model could not be read"


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("00000000:C1:00.0", "C1"),
        ("00000000:00:1E.0", "00-1E"),
        ("00000001:C1:00.0", "0001-C1"),
        ("0002FFFF:C1:00.1", "2FFFF-C1.1"),
        (None, None),
        ("?", None),
    ],
)
def test_a_slot_is_part_of_a_name(address, name):
    assert place_name({"pci_bus_id": address}) == name


SLOTS = st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))


@given(SLOTS, SLOTS)
def test_slots_have_different_names(one, other):
    names = [place_name({"pci_bus_id": "%08X:%02X:%02X.%d" % slot}) for slot in (one, other)]
    assert (names[0] == names[1]) == (one == other)


VRAM = {"as": "vram", "reserve_mib": 512}
# case -> (GPUs, the rule, the advertised resources)
MEMORY = {
    "one GPU": ([t4(0)], {}, ["VRAM=14848"]),
    "another name of the kind": ([t4(0)], {"kind": "MIB"}, ["MIB=14848"]),
    "one of two by a rule": ([t4(0), gpu(1)], {"select": {"model": "*T4*"}}, ["VRAM=14848"]),
    "two GPUs": ([t4(0), gpu(1)], {}, ["VRAM-C0=14848", "VRAM-C1=81047"]),
    "two, one of them failed": ([t4(0), gpu(1, **FAILED)], {}, ["VRAM-C0=14848"]),
    "the sum": ([t4(0), gpu(1)], {"sum": True}, ["VRAM=95895"]),
    "the sum of one": ([t4(0)], {"sum": True}, ["VRAM=14848"]),
    "the sum of none": ([t4(0, **FAILED)], {"sum": True}, []),
    "unified memory": ([unified(0)], {"system_memory": True}, ["VRAM=119488"]),
    "a card in MIG mode": ([cut(0, "1g.10gb")], {}, []),
    "no PCI address, alone": ([t4(0, pci_bus_id=None)], {}, ["VRAM=14848"]),
    "no PCI address": ([t4(0, pci_bus_id=None), t4(1)], {}, ["VRAM-C1=14848"]),
}


@pytest.mark.parametrize(("gpus", "rule", "resources"), MEMORY.values(), ids=MEMORY)
def test_memory_is_advertised(gpus, rule, resources):
    decided = decide(gpus, [dict(VRAM, **rule)], system_memory_mib=120000)
    assert decided["resources"] == resources
    assert (decided["swarm_resource"], decided["gpu_kinds"]) == ("", [])
    assert len(decided["advertised"]) + len(decided["left_out"]) + len(decided["unselected"]) == len(gpus)


def test_each_kind_of_memory_has_its_card():
    """The guard's map names the card of each kind, so a task with such a reservation sees this card and its memory."""
    (one, two), share = (t4(0), gpu(1)), {"mib": None, "together": False}
    decided = decide([one, two], [VRAM])
    assert decided["map"] == {"VRAM-C0": {"": {"devices": [uuid(0)], **share}}, "VRAM-C1": {"": {"devices": [uuid(1)], **share}}}
    assert decided["card_mib"] == {uuid(0): 15360, uuid(1): 81559}
    assert decide([one], [VRAM])["map"] == {"VRAM": {"": {"devices": [uuid(0)], **share}}}
    assert decide([one, two], [dict(VRAM, sum=True)])["map"] == {"VRAM": {"": {"devices": [uuid(0), uuid(1)], **share}}}
    assert decide([unified(0)], [dict(VRAM, system_memory=True)], system_memory_mib=9000)["card_mib"] == {uuid(0): 9000}
    assert decide([t4(0, uuid=None)], [VRAM])["map"] == {"VRAM": {"": {"devices": [], **share}}}
    assert decide([one, cut(1, "1g.10gb")], [{"as": "mig"}, {"as": "gpu"}])["map"] == {}  # these values are devices themselves


def test_a_sum_is_reported_with_its_placement_problem():
    rule = dict(VRAM, sum=True)
    (warning,) = decide([t4(0), gpu(1)], [rule])["warnings"]
    for words in ("sum over 2 GPUs, 95895 MiB", "81047 MiB of the largest", "sum: true"):
        assert words in warning
    assert decide([t4(0)], [rule])["warnings"] == []


def test_unknown_memory_is_refused():
    with pytest.raises(PolicyError, match="NVIDIA-GB10.*no memory of its own.*'as: gpu'.*'system_memory: true'"):
        decide([unified(0)], [VRAM], system_memory_mib=120000)
    with pytest.raises(PolicyError, match="/proc/meminfo"):
        decide([unified(0)], [dict(VRAM, system_memory=True)])
    with pytest.raises(PolicyError, match="2 GPUs share the system's memory"):
        decide([unified(0), unified(1)], [dict(VRAM, system_memory=True, sum=True)], system_memory_mib=120000)
    assert decide([unified(0)])["resources"] == [f"NVIDIA-GPU={uuid(0)}"]


@pytest.mark.parametrize("reserve", [15360, 20000, "15360"])
def test_a_reserve_that_leaves_nothing_is_refused(reserve):
    with pytest.raises(PolicyError, match="leaves nothing of the 15360 MiB of GPU 0"):
        decide([t4(0)], [{"as": "vram", "reserve_mib": reserve}])


def test_two_rules_cannot_set_one_amount():
    rules = [dict(VRAM, select={"index": 0}), VRAM]
    with pytest.raises(PolicyError, match="VRAM would be advertised more than once"):
        decide([t4(0), t4(1)], rules)


# --- slots ----------------------------------------------------------------------------------------------------------

SLOTS = {"as": "slots", "slots": 2}


def of_slots(*numbers, kind="NVIDIA-SLOT"):
    """Return the entries of two slots for each of these cards."""
    return [f"{kind}={uuid(number)}.slot{slot}" for number in numbers for slot in (1, 2)]


# case -> (GPUs, the rule, the advertised resources, the MiB of the first slot)
SLOTTED = {
    "by number": ([t4(0)], SLOTS, of_slots(0), 7680),
    "less a reserve": ([t4(0)], dict(SLOTS, reserve_mib=361), of_slots(0), 7499),
    "two cards": ([gpu(1), t4(0)], SLOTS, of_slots(0, 1), 7680),
    "by memory": ([t4(0)], {"as": "slots", "slot_mib": 7680}, of_slots(0), 7680),
    "by memory, less a reserve": ([t4(0)], {"as": "slots", "slot_mib": 5000, "reserve_mib": "400"}, of_slots(0), 5000),
    "another name of the kind": ([t4(0)], {"as": "slots", "kind": "VRAM-8G", "slot_mib": "7000"}, of_slots(0, kind="VRAM-8G"), 7000),
    "unified memory": ([unified(0)], SLOTS, of_slots(0), None),
    "a failed card": ([gpu(0, **FAILED), gpu(1)], SLOTS, of_slots(1), 40779),
    "none": ([], SLOTS, [], None),
}


@pytest.mark.parametrize(("gpus", "rule", "resources", "mib"), SLOTTED.values(), ids=SLOTTED)
def test_slots_are_advertised(gpus, rule, resources, mib):
    decided = decide(gpus, [rule])
    assert decided["resources"] == resources
    kind = rule.get("kind", "NVIDIA-SLOT")
    values = [entry.partition("=")[2] for entry in resources]
    assert list(decided["map"].get(kind, {})) == values
    assert all(entry["devices"] == [value.partition(".")[0]] for value, entry in decided["map"].get(kind, {}).items())
    assert [decided["map"][kind][value]["mib"] for value in values[:1]] == [mib for dummy in values[:1]]
    # The kind is listed, so that a toolkit without the guard finds no such device and refuses the task.
    assert decided["swarm_resource"] == (f"DOCKER_RESOURCE_{kind}" if resources else "")
    assert len(decided["advertised"]) + len(decided["left_out"]) == len(gpus)


def parts(*sizes):
    """Return a card in MIG mode with devices of these sizes."""
    card = cut(0, *(f"{number}g.{size // 1000}gb" for number, size in enumerate(sizes, 1)))
    return dict(card, mig_devices=[dict(one, memory_mib=size) for one, size in zip(card["mig_devices"], sizes, strict=True)])


@pytest.mark.parametrize(
    ("rule", "expected", "mib", "left"),
    [
        pytest.param(SLOTS, [(0, 1), (0, 2), (1, 1), (1, 2)], [10000, 10000, 4750, 4750], [], id="by number"),
        pytest.param(dict(SLOTS, reserve_mib=500), [(0, 1), (0, 2), (1, 1), (1, 2)], [9750, 9750, 4500, 4500], [], id="less a reserve"),
        pytest.param({"as": "slots", "slot_mib": 9500}, [(0, 1), (0, 2), (1, 1)], [9500] * 3, [], id="by memory"),
        pytest.param({"as": "slots", "slot_mib": 10000}, [(0, 1), (0, 2)], [10000] * 2, [1], id="a MIG device that is too small"),
    ],
)
def test_mig_devices_have_slots(rule, expected, mib, left):
    card = parts(20000, 9500)
    decided = decide([card], [rule, {"as": "mig"}])
    values = [f"{mig_uuid(device)}.slot{slot}" for device, slot in expected]
    assert decided["resources"] == [f"NVIDIA-SLOT={value}" for value in values]
    assert {value: (one["devices"], one["mib"]) for value, one in decided["map"]["NVIDIA-SLOT"].items()} == {
        value: ([value.partition(".")[0]], size) for value, size in zip(values, mib, strict=True)
    }
    assert decided["card_mib"] == {mig_uuid(device): (20000, 9500)[device] for device, dummy in expected}  # not of the card
    assert [one["uuid"] for one in decided["left_out"]] == [mig_uuid(device) for device in left]
    assert all("which is too little for a slot of 10000 MiB" in one["reason"] for one in decided["left_out"])
    assert decided["advertised"][0]["devices"] == list(dict.fromkeys(mig_uuid(device) for device, dummy in expected))


def test_a_card_in_mig_mode_without_devices_has_no_slots():
    found = decide([cut(0), cut(1, "1g.10gb", **FAILED)], [SLOTS])
    assert [one["reason"].partition(";")[0] for one in found["left_out"]] == ["it is in MIG mode but has no MIG devices", "GPU is lost"]
    with pytest.raises(PolicyError, match="slots=2 with reserve_mib=9600 makes no slot of the 9500 MiB of the MIG device 1g.9gb of GPU 0"):
        decide([parts(9500)], [dict(SLOTS, reserve_mib=9600)])


def test_slots_may_have_to_be_on_one_card():
    (entry, *dummy) = decide([t4(0)], [dict(SLOTS, slots_together=True)])["map"]["NVIDIA-SLOT"].values()
    assert entry == {"devices": [uuid(0)], "mib": 7680, "together": True}


@pytest.mark.parametrize(
    ("card", "rule", "words"),
    [
        (t4(0), {"slot_mib": 20000}, "slot_mib=20000 with reserve_mib=0 makes no slot of the 15360 MiB of GPU 0 .Tesla-T4.. Change it, or"),
        (t4(0), {"slot_mib": 100}, "makes 153 slots, more than 100, of the 15360 MiB"),
        (t4(0), {"slots": 4, "reserve_mib": 15360}, "slots=4 with reserve_mib=15360 makes no slot"),
        (unified(0), {"slot_mib": 8000}, "has no memory of its own.*Set 'slots'"),
    ],
)
def test_slots_that_do_not_fit_on_a_card_are_refused(card, rule, words):
    with pytest.raises(PolicyError, match=words):
        decide([card], [{"as": "slots", **rule}])


def test_slots_become_whole_gpus_and_whole_gpus_become_slots():
    cards, running = [gpu(0), gpu(1)], generic_resources.to_info(generic_resources.parse(of_slots(0, 1)))
    whole = decide(cards, present=generic_resources.from_info(running))
    assert "NVIDIA-SLOT" in whole["owned_kinds"]
    assert any("2 GPUs not advertised as NVIDIA-GPU" in text for text in find_drift(whole, running))
    assert f"{uuid(0)}.slot1 is advertised as NVIDIA-SLOT but should not be: the rules advertise it as NVIDIA-GPU" in find_drift(whole, running)
    fewer = find_drift(decide(cards[:1], [dict(SLOTS, slots=1)]), running)
    assert f"{uuid(0)}.slot2 is advertised as NVIDIA-SLOT but should not be: its card has fewer slots" in fewer
    assert f"{uuid(1)}.slot1 is gone, but advertised as NVIDIA-SLOT" in fewer
    slotted = decide(cards, [dict(SLOTS, kind="NVIDIA-GPU")])
    found = find_drift(slotted, named("NVIDIA-GPU", uuid(0), uuid(1)))
    assert found[0] == f"{uuid(0)} is advertised as NVIDIA-GPU but should not be: its slots are"
    assert found[2].startswith("4 slots not advertised as NVIDIA-GPU")


# --- MIG ------------------------------------------------------------------------------------------------------------


def test_mig_devices_by_profile():
    gpus = [cut(0, "3g.40gb", "1g.10gb+me"), gpu(1)]
    decided = decide(gpus, [{"as": "mig"}, {"as": "gpu"}])
    assert decided["resources"] == [f"MIG-3g.40gb={mig_uuid(0)}", f"MIG-1g.10gb.me={mig_uuid(1)}", f"NVIDIA-GPU={uuid(1)}"]
    assert decided["swarm_resource"] == "DOCKER_RESOURCE_MIG-3G.40GB,DOCKER_RESOURCE_MIG-1G.10GB.ME,DOCKER_RESOURCE_NVIDIA-GPU"
    assert decided["left_out"] == []
    assert decide(gpus, [{"as": "mig", "kind": "PART"}])["kinds"] == ["PART-3g.40gb", "PART-1g.10gb.me"]


def test_a_mig_card_without_a_rule_is_excluded():
    decided = decide([cut(0, "3g.40gb"), gpu(1)], [{"as": "gpu"}, {"as": "mig"}])
    assert decided["resources"] == [f"NVIDIA-GPU={uuid(1)}"]
    assert "'as: mig' before this rule" in decided["left_out"][0]["reason"]
    decided = decide([gpu(0)], [{"as": "mig"}])
    assert [one["reason"] for one in decided["unselected"]] == ["no rule selects it"]


@pytest.mark.parametrize(
    ("card", "uuids", "reason"),
    [
        (cut(0), [uuid(0)], "has no MIG devices"),
        (cut(0, None), [mig_uuid(0)], "the profile of this MIG device could not be read"),
        (gpu(0, mig=MIG_ON, mig_devices=[{"uuid": "MIG-5c89", "profile": "1g.10gb"}]), ["MIG-5c89"], "is not a full MIG UUID"),
        (cut(0, "1g.10gb", **FAILED), [uuid(0)], "GPU is lost"),
    ],
)
def test_mig_devices_that_cannot_be_advertised_are_refused(card, uuids, reason):
    decided = decide([card], [{"as": "mig"}])
    assert decided["resources"] == []
    assert [one["uuid"] for one in decided["left_out"]] == uuids
    assert reason in decided["left_out"][0]["reason"]


def test_names_of_drivers_before_470_are_read():
    old = f"MIG-{uuid(0)}/3/0"
    card = gpu(0, mig=MIG_ON, mig_devices=[{"uuid": old, "profile": "1g.10gb"}])
    assert decide([card], [{"as": "mig"}])["resources"] == [f"MIG-1g.10gb={old}"]


# --- extra resources --------------------------------------------------------------------------------------------------


def test_extra_resources_are_advertised():
    decided = decide([gpu(0)], extra=["SSD=1", "FPGA=a", "FPGA=b"])
    assert decided["resources"] == [f"NVIDIA-GPU={uuid(0)}", "SSD=1", "FPGA=a", "FPGA=b"]
    assert decided["owned_kinds"] == decided["kinds"] == ["NVIDIA-GPU", "SSD", "FPGA"]
    assert (decided["gpu_kinds"], decided["swarm_resource"]) == (["NVIDIA-GPU"], "DOCKER_RESOURCE_NVIDIA-GPU")
    assert decide([], [], extra=["SSD=1"])["resources"] == ["SSD=1"]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("SSD=1", "is not a list"),
        ([1], "is not a list"),
        (["SSD"], "'SSD' is not of the form KIND=value"),
        (["A=b=c"], "exactly one '='"),
        (["SSD=1", "SSD=a"], "SSD mixes a number"),
        (["SSD=-1"], "negative"),
        (["FPGA=a", "FPGA=a"], "FPGA=a is listed twice"),
        (["FPGA="], "has no value"),
        (["S SD=1"], "cannot be the name of a kind"),
        (["SSD=1", "ssd=2"], "'SSD' and 'ssd'"),
        (["NVIDIA-GPU=1"], "NVIDIA-GPU is a kind that 'advertise' decides"),
        (["nvidia-gpu=x"], "Rename nvidia-gpu"),
        ([f"MINE={uuid(0)}"], "is a GPU"),
        (["MINE=GPU-c143e771"], "is a GPU"),
    ],
)
def test_impossible_extra_resources_are_refused(extra, message):
    with pytest.raises(PolicyError, match=message):
        decide([gpu(0)], extra=extra)


# --- existing entries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("present", "rules", "taken"),
    [
        ({"gpu": ["GPU-00000000"]}, [{"as": "gpu"}], ["gpu"]),  # a common recipe
        ({"GPU": [uuid(0), uuid(1)]}, [{"as": "model"}], ["GPU"]),
        ({"GPU": [uuid(7)]}, [{"as": "gpu"}], []),  # not a GPU of this node
        ({"FPGA": ["a"], "SSD": 1, "NIC": []}, [{"as": "gpu"}], []),
        ({"HOSTS": [uuid(1)]}, [{"as": "none", "select": {"index": 1}}, {"as": "gpu"}], []),
        ({"VRAM": 8000, "VRAM-D9": 1, "VRAM-00-1E": 1, "VRAM-TOTAL": 1}, [{"as": "vram"}], ["VRAM-D9", "VRAM-00-1E"]),
        ({"MIG-1g.10gb": [mig_uuid(99)], "MIG-x": 1}, [{"as": "mig"}], ["MIG-1g.10gb"]),
        ({"MIG-1g.10gb": [mig_uuid(99)], "VRAM-C1": 1}, [{"as": "gpu"}], []),
    ],
)
def test_entries_of_others_for_our_gpus_are_taken_over(present, rules, taken):
    gpus = [gpu(0), gpu(1)]
    owned = decide(gpus, rules, present=present)["owned_kinds"]
    assert [kind for kind in owned if kind not in decide(gpus, rules)["owned_kinds"]] == taken


@pytest.mark.parametrize(
    ("present", "extra", "rules", "named"),
    [
        ({"gpu": 1}, [], [{"as": "gpu"}], ["gpu=1"]),
        ({"nvidia.com/gpu": 2, "SSD": 1}, [], [{"as": "gpu"}], ["nvidia.com/gpu=2"]),
        ({}, ["CUDA_DEVICES=2"], [{"as": "slots", "slots": 4}], ["CUDA_DEVICES=2"]),
        ({"gpu": 1}, [], [{"as": "gpu", "kind": "gpu"}], []),  # adopted
        ({"gpu": 0, "gpuless": 1, "GPU-MIB": 81559, "NIC": ["a"]}, [], [{"as": "gpu"}], []),
        ({"gpu": 1}, [], [{"as": "vram"}], []),  # memory of a card, but no rule selects a single card
        ({"A": [uuid(0), "x"]}, [], [{"as": "gpu"}], ["A="]),
        ({"HOSTS": [uuid(1)]}, [], [{"as": "none", "select": {"index": 1}}, {"as": "gpu"}], []),
    ],
)
def test_a_kind_that_counts_gpus_twice_is_named_with_its_remedy(present, extra, rules, named):
    found = [one for one in decide([gpu(0), gpu(1)], rules, extra=extra, present=present)["warnings"] if "two tasks" in one]
    assert [one.startswith(name) for one, name in zip(found, named, strict=True)] == [True] * len(named)
    for text in found:
        assert "have a rule advertise it: {as: gpu, kind: " + text.partition("=")[0] + "}" in text


# --- checking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"as": "vram", "reserve_mib": -1}], r"advertise\[0\].reserve_mib: -1 is not a number of MiB"),
        ([{"as": "vram", "sum": "yes"}], "sum: 'yes' is neither true nor false"),
        ([{"as": "vram", "system_memory": 1}], "system_memory: 1 is neither"),
        ([{"as": "vram", "kind": "A B"}], "cannot be the name of a kind"),
        ([{"as": "model", "kinds": ["A"]}], "kinds: .* is not a mapping"),
        ([{"as": "model", "kinds": {"": "A"}}], "is not a model or a pattern"),
        ([{"as": "model", "kinds": {"*": "A,B"}}], r"kinds\[\*\]: 'A,B' cannot be"),
        ([{"as": "model", "kind": "A"}], "as=model does not know kind; use only: as, select, kinds"),
        ([{"as": "mig", "sum": True}], "as=mig does not know sum"),
        ([{"as": "slots"}], r"advertise\[0\]: a rule with as=slots needs either 'slots', .* or 'slot_mib'"),
        ([{"as": "slots", "slots": 2, "slot_mib": 8000}], "needs either"),
        ([{"as": "slots", "slots": 0}], "slots: 0 is not a number of slots from 1 to 100"),
        ([{"as": "slots", "slots": 101}], "101 is not a number of slots"),
        ([{"as": "slots", "slot_mib": 0}], "slot_mib: 0 is not a number of MiB, at least 1"),
        ([{"as": "slots", "slots": 2, "slots_together": "yes"}], "neither true nor false"),
        ([{"as": "slots", "slots": 2, "kind": "X"}, {"as": "gpu", "kind": "X"}], "X is slots of a card in one rule and something else in another"),
        ([{"as": "slots", "slots": 2, "kind": "VRAM"}, {"as": "vram"}], "VRAM is a list of GPUs in one rule and an amount"),
        ([{"as": "vram", "kind": "X"}, {"as": "gpu", "kind": "X"}], "X is a list of GPUs in one rule and an amount"),
        ([{"as": "model", "kinds": {"*": "vram"}}, {"as": "vram"}], "'vram' and 'VRAM'"),
    ],
)
def test_impossible_rules_are_refused(rules, message):
    with pytest.raises(PolicyError, match=message):
        check_rules(rules)


def test_a_derived_kind_must_differ_from_others():
    with pytest.raises(PolicyError, match="'nvidia-t4' and 'NVIDIA-T4'"):
        decide([t4(0)], [{"as": "gpu", "kind": "nvidia-t4", "select": {"index": 5}}, {"as": "model"}])


# --- comparing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (discrete("VRAM", 14848), []),
        (discrete("VRAM", 8000), ["VRAM is 8000, not 14848"]),
        (None, ["VRAM=14848 is not advertised"]),
        (named("VRAM", "x"), ["VRAM is x, not 14848"]),
        (
            discrete("VRAM", 14848) + discrete("VRAM-C1", 100),
            ["VRAM-C1 is the number 100, but the rules advertise nothing as that kind"],
        ),
    ],
)
def test_drift_of_memory_is_found(running, expected):
    decided = decide([t4(0)], [VRAM], present=generic_resources.from_info(running))
    assert find_drift(decided, running) == expected
    assert swarm_resource_drift(decided, None) == []


def test_drift_of_mig_devices_and_extra_resources_is_found():
    decided = decide([cut(0, "1g.10gb", "1g.10gb")], [{"as": "mig"}], extra=["FPGA=a", "SSD=2"])
    assert find_drift(decided, named("MIG-1g.10gb", mig_uuid(0), mig_uuid(9)) + discrete("SSD", 1)) == [
        f"{mig_uuid(9)} is gone, but advertised as MIG-1g.10gb",
        f"1 MIG device not advertised as MIG-1g.10gb: {mig_uuid(1)}",
        "1 value not advertised as FPGA: a",
        "SSD is 1, not 2",
    ]


# --- properties of any rules and GPUs ---------------------------------------------------------------------------------

CARDS = st.sampled_from(["H100", "T4", "cut", "failed", "unified"])
MAKE = {"H100": gpu, "T4": t4, "cut": lambda i: cut(i, "1g.10gb", "2g.20gb"), "failed": lambda i: gpu(i, **FAILED), "unified": unified}
SELECT = st.one_of(
    st.none(),
    st.fixed_dictionaries({"index": st.lists(st.integers(0, 5), min_size=1, max_size=3)}),
    st.sampled_from([{"model": "*T4*"}, {"min_memory_mib": 20000}, {"model": ["*H100*", "*GB10*"]}]),
)
FORMS = [
    {"as": "gpu"},
    {"as": "gpu", "kind": "OTHER"},
    {"as": "model"},
    {"as": "model", "kinds": {"*H100*": "BIG"}},
    {"as": "mig"},
    {"as": "none"},
    {"as": "slots", "slots": 3},
    {"as": "slots", "kind": "VRAM-8G", "slot_mib": 8000, "reserve_mib": 100},
    {"as": "vram", "kind": "VRAM"},
    {"as": "vram", "kind": "MEMORY", "reserve_mib": 100, "sum": True},
]
RULES = st.lists(st.builds(lambda form, select: dict(form, select=select), st.sampled_from(FORMS), SELECT), max_size=4)
FLEET = st.lists(CARDS, max_size=6).map(lambda names: [MAKE[name](index) for index, name in enumerate(names)])


def decided_or_none(gpus, rules):
    try:
        return decide(gpus, rules, extra=["SSD=1"])
    except PolicyError:
        return None  # for example, a rule for memory and a GPU without memory


@given(FLEET, RULES)
def test_no_gpu_is_in_two_kinds(gpus, rules):
    decided = decided_or_none(gpus, rules)
    if decided is None:
        return
    resources = generic_resources.parse(decided["resources"])  # dockerd would start with these resources
    values = [value for listed in resources.values() if isinstance(listed, list) for value in listed]
    assert len(values) == len(set(values))
    # Each card is either advertised in one form or excluded with a reason.
    out, left, unselected = ({one["index"] for one in decided[key]} for key in ("advertised", "left_out", "unselected"))
    assert out | left | unselected == {one["index"] for one in gpus}
    assert not (out | left) & unselected
    assert not out & left
    for one in gpus:
        parts = [device["uuid"] for device in one.get("mig_devices", [])]
        assert not (one["uuid"] in values and set(parts) & set(values))


@given(FLEET, RULES)
def test_swarm_resource_lists_exactly_the_named_gpu_kinds(gpus, rules):
    decided = decided_or_none(gpus, rules)
    if decided is None:
        return
    resources = generic_resources.parse(decided["resources"])
    wanted = [f"DOCKER_RESOURCE_{kind.upper()}" for kind, value in resources.items() if isinstance(value, list)]
    assert [part for part in decided["swarm_resource"].split(",") if part] == wanted
    assert set(decided["kinds"]) <= set(decided["owned_kinds"])


@given(FLEET, RULES)
def test_a_card_that_dies_changes_no_other_name(gpus, rules):
    decided = decided_or_none(gpus, rules)
    if decided is None or not gpus or any(rule.get("sum") for rule in rules):
        return
    dead = dict(gpus[0], **FAILED)
    after = decided_or_none([dead, *gpus[1:]], rules)
    if after is not None:
        assert set(after["resources"]) <= set(decided["resources"])
