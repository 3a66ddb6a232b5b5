# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which GPUs form a group, with the links of real machines, and after a card fails or returns."""

from __future__ import annotations

import pytest
from gpu_records import FAILED, MIG_ON, gpu, named, uuid
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy import generic_resources
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.advertise import PolicyError, check_rules, decide, find_drift
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._policy.shrink import Before, shrink_refusal

PAIRS = {"as": "group", "size": 2}


def machine(count, peers=None, ways=None, **changes):
    """Return the GPUs of a machine.

    ``peers`` maps pairs of indices to their number of NVLinks; None means no links. ``ways`` maps pairs of indices to their PCIe connection.
    """

    def of(table, one, default):
        found = {other: table.get((min(one, other), max(one, other)), default) for other in range(count) if other != one}
        return {uuid(other): value for other, value in found.items() if value is not None}

    def links(one):
        found = of(peers, one, None) if peers is not None else of({}, one, 0)
        return {"nvlink_active": 4 if found else 0, "nvlink_total": 4, "nvlink_peers": found, "topology": of(ways or {}, one, "system")}

    return [gpu(one, links=links(one), **changes) for one in range(count)]


def sockets(count):
    """Return the PCIe connection of each pair of cards on a machine with two sockets. Each PCIe switch connects two cards."""

    def way(one, other):
        return "single" if one // 2 == other // 2 else "node" if one * 2 // count == other * 2 // count else "system"

    return {(one, other): way(one, other) for one in range(count) for other in range(one + 1, count)}


def named_group(*numbers):
    return "+".join(uuid(number) for number in numbers)


def groups(decided):
    """Return the indices of each group."""
    number = {uuid(one): one for one in range(32)}
    return [[number[one] for one in entry.partition("=")[2].split("+")] for entry in decided["resources"]]


def left(decided):
    return [one["index"] for one in decided["left_out"]]


BRIDGES = {(0, 2): 4, (1, 3): 4}
# The hybrid cube mesh of eight V100. Some pairs have two links, and other pairs have one link.
MESH = {(0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1}
MESH.update({(4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2})
PCIE = {"as": "group", "size": 2, "by": "pcie"}
FORMED = {
    "bridges": (machine(4, BRIDGES), PAIRS, [[0, 2], [1, 3]], []),
    "NVSwitches, by the nearest on PCIe": (machine(8, None, sockets(8)), PAIRS, [[0, 1], [2, 3], [4, 5], [6, 7]], []),
    "NVSwitches, one card gone": ([one for one in machine(8, None, sockets(8)) if one["index"] != 1], PAIRS, [[2, 3], [4, 5], [6, 7]], [0]),
    "NVSwitches, fours": (machine(8, None, sockets(8)), dict(PAIRS, size="4"), [[0, 1, 2, 3], [4, 5, 6, 7]], []),
    "NVSwitches, all": (machine(8, None, sockets(8)), dict(PAIRS, size=8), [list(range(8))], []),
    "NVSwitches, sixteen": (machine(16, None, sockets(16)), dict(PAIRS, size=8), [list(range(8)), list(range(8, 16))], []),
    "a mesh": (machine(8, MESH, sockets(8)), PAIRS, [[0, 4], [1, 5], [2, 3], [6, 7]], []),  # two links each
    "a mesh, fours": (machine(8, MESH), dict(PAIRS, size=4), [[0, 1, 2, 3], [4, 5, 6, 7]], []),
    "a chain begins at its ends": (machine(4, {(0, 1): 1, (1, 2): 2, (2, 3): 1}), PAIRS, [[0, 1], [2, 3]], []),
    "an odd number": (machine(5, None), PAIRS, [[0, 1], [2, 3]], [4]),
    "a card without a bridge": (machine(3, {(0, 2): 4}), PAIRS, [[0, 2]], [1]),
    "no clique": (machine(4, {(0, 1): 1, (1, 2): 1, (2, 3): 1}), dict(PAIRS, size=3), [], [0, 1, 2, 3]),
    "PCIe": (machine(4, {}, sockets(4)), PCIE, [[0, 1], [2, 3]], []),
    "PCIe, not across sockets": (machine(6, {}, sockets(6)), dict(PCIE, size=2, select={"index": [0, 1, 2, 4, 5]}), [[0, 1], [4, 5]], [2]),
    "PCIe, more than a socket has": (machine(4, {}, sockets(4)), dict(PCIE, size=4), [], [0, 1, 2, 3]),
    "a failed card": ([*machine(4, None)[:3], gpu(3, **FAILED)], PAIRS, [[0, 1]], [2, 3]),
    "a card in MIG mode": ([*machine(4, None)[:3], gpu(3, mig=MIG_ON)], PAIRS, [[0, 1]], [2, 3]),
    "two models": ([*machine(4, None)[:2], *machine(4, None, name="NVIDIA X")[2:]], dict(PAIRS, size=3), [], [0, 1, 2, 3]),
    "one UUID twice": ([*machine(2, None), gpu(2, uuid=uuid(1))], PAIRS, [[0, 1]], [2]),
    "no records of links": ([gpu(0), gpu(1)], PAIRS, [], [0, 1]),
    "none": ([], PAIRS, [], []),
}


@pytest.mark.parametrize(("gpus", "rule", "expected", "over"), FORMED.values(), ids=FORMED)
def test_these_groups_are_formed(gpus, rule, expected, over):
    decided = decide(gpus, [rule, {"as": "none"}])
    assert (groups(decided), left(decided)) == (expected, over)
    values = [named_group(*members) for members in expected]
    assert decided["resources"] == [f"NVIDIA-GROUP={value}" for value in values]
    assert decided["map"] == ({"NVIDIA-GROUP": {v: {"devices": v.split("+"), "mib": None, "together": False} for v in values}} if values else {})
    assert decided["swarm_resource"] == ("DOCKER_RESOURCE_NVIDIA-GROUP" if values else "")
    assert sorted(one["index"] for one in decided["advertised"]) == sorted(one for members in expected for one in members)
    # The groups are the same if NVML lists the cards in another order, and if the node already advertises the groups.
    assert decide(gpus[::-1], [rule, {"as": "none"}], present=generic_resources.parse(decided["resources"]))["resources"] == decided["resources"]
    assert decide(gpus[::-1], [rule, {"as": "none"}])["resources"] == decided["resources"]


def test_a_value_is_neither_a_number_nor_has_a_separator():
    (entry,) = decide(machine(2), [PAIRS])["resources"]
    assert generic_resources.parse([entry]) == {"NVIDIA-GROUP": [named_group(0, 1)]}
    assert not set(",= ") & set(entry.partition("=")[2])


REASONS = {
    "no NVLink": ([gpu(0, links={"nvlink_total": None}), gpu(1)], "it has no NVLink"),
    "links that are down": (machine(2, {}), "its NVLinks are down"),
    "no bridge to it": (
        machine(4, {(0, 1): 4, (2, 3): 4})[:3],
        "it reaches over NVLink fewer than 1 GPUs of its model that the rule can advertise",
    ),
    "no Fabric Manager": (
        [dict(one, links={**one["links"], "nvlink_active": 4}) for one in machine(2, {})],
        "its NVLinks reach no working GPU; if they lead to NVSwitches, nvidia-fabricmanager must run",
    ),
    "one too many": (machine(3, None), "the GPUs that it reaches over NVLink form no other group"),
}


@pytest.mark.parametrize(("gpus", "why"), REASONS.values(), ids=REASONS)
def test_a_gpu_that_is_left_over_says_why(gpus, why):
    reason = decide(gpus, [PAIRS])["left_out"][-1]["reason"]
    assert reason == f"it is in no group of 2: {why}. To advertise it alone, select it in another rule"


# --- cards fail and return --------------------------------------------------------------------------------------------

EIGHT = machine(8, None, sockets(8))
BEFORE = decide(EIGHT, [PAIRS])


def after(gpus, present=None, rule=None):
    return decide(gpus, [rule or PAIRS], present=generic_resources.parse((present or BEFORE)["resources"]))


@pytest.mark.parametrize("dead", range(8))
@pytest.mark.parametrize("gone", [True, False], ids=["gone", "failed"])
def test_a_card_that_dies_removes_only_its_group(dead, gone):
    rest = [one for one in EIGHT if one["index"] != dead]
    now = after(rest if gone else [*rest, dict(EIGHT[dead], **FAILED)])
    assert set(BEFORE["resources"]) - set(now["resources"]) == {BEFORE["resources"][dead // 2]}
    assert set(now["resources"]) < set(BEFORE["resources"])
    assert dead ^ 1 in left(now)
    earlier = Before(BEFORE["resources"][0].partition("=")[2].split("+") + [uuid(one) for one in range(2, 8)], 0)
    refused = shrink_refusal(now, earlier)
    assert refused.count(uuid(dead)) == 1
    assert f"GPU {dead ^ 1} " in refused
    assert "'expect: 6'" in refused
    assert after(EIGHT, now)["resources"] == BEFORE["resources"]


def test_the_remaining_cards_of_two_groups_do_not_form_a_new_one():
    now = after([one for one in EIGHT if one["index"] not in (1, 2)])
    assert groups(now) == [[0, 3], [4, 5], [6, 7]]
    again = after(EIGHT, now)
    assert groups(again) == [[0, 3], [1, 2], [4, 5], [6, 7]]


def test_a_group_is_formed_again_after_a_move_or_a_change_of_its_rule():
    assert groups(after(machine(8, {(0, 2): 4, (4, 5): 4}))) == [[0, 2], [4, 5]]
    assert groups(after(EIGHT, rule=dict(PAIRS, size=4))) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert groups(after(EIGHT, rule=dict(PAIRS, select={"index": [0, 2, 3, 5]}))) == [[0, 5], [2, 3]]
    odd = {"resources": [f"NVIDIA-GROUP={one}" for one in (named_group(0, 1), named_group(1, 2), named_group(3, 3), uuid(4), "x+y")]}
    assert groups(after(EIGHT, odd)) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_drift_has_its_reason():
    running = named("NVIDIA-GROUP", named_group(0, 1), named_group(2, 3))
    found = find_drift(decide(machine(4, BRIDGES), [PAIRS]), running)
    assert found[0] == f"{named_group(0, 1)} is advertised as NVIDIA-GROUP but should not be: its cards are in other groups"
    assert found[2] == f"2 groups not advertised as NVIDIA-GROUP: {named_group(0, 2)}, {named_group(1, 3)}"
    broken = find_drift(after([one for one in EIGHT if one["index"] != 1]), running)
    assert broken[0].startswith(f"{named_group(0, 1)} is advertised as NVIDIA-GROUP but should not be: it is in no group of 2: ")
    whole = find_drift(decide(machine(4, BRIDGES), [{"as": "gpu"}], present=generic_resources.from_info(running)), running)
    assert f"{named_group(0, 1)} is advertised as NVIDIA-GROUP but should not be: the rules advertise it as NVIDIA-GPU" in whole
    grouped = find_drift(decide(EIGHT[:2], [PAIRS], present={"NVIDIA-GPU": [uuid(0)]}), named("NVIDIA-GPU", uuid(0)))
    assert f"{uuid(0)} is advertised as NVIDIA-GPU but should not be: the rules advertise it as NVIDIA-GROUP" in grouped
    same = find_drift(decide(EIGHT[:2], [dict(PAIRS, kind="NVIDIA-GPU")]), named("NVIDIA-GPU", uuid(0)))
    assert same[0] == f"{uuid(0)} is advertised as NVIDIA-GPU but should not be: its group is"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"as": "group"}], r"advertise\[0\]: a rule with as=group needs 'size', the number of GPUs in a group"),
        ([{"as": "group", "size": 1}], r"advertise\[0\].size: 1 is not a number of GPUs, at least 2"),
        ([{"as": "group", "size": "two"}], "'two' is not a number of GPUs"),
        ([dict(PAIRS, by="numa")], r"advertise\[0\].by: 'numa' is not known; use one of: nvlink, pcie"),
        ([dict(PAIRS, slots=2)], "as=group does not know slots; use only: as, select, kind, size, by"),
        ([dict(PAIRS, kind="X"), {"as": "gpu", "kind": "X"}], "X is groups of GPUs in one rule and something else in another"),
        ([dict(PAIRS, kind="X"), {"as": "slots", "slots": 2, "kind": "X"}], "X is slots of a card in one rule and something else"),
        ([PAIRS, dict(PAIRS, size=4)], "NVIDIA-GROUP is groups of 2 GPUs in one rule and of 4 in another"),
    ],
)
def test_impossible_rules_are_refused(rules, message):
    with pytest.raises(PolicyError, match=message):
        check_rules(rules)


def test_two_rules_of_one_kind_and_size_are_merged():
    rules = [dict(PAIRS, select={"index": [0, 3]}), PAIRS]
    decided = decide(EIGHT[:4], rules)
    assert groups(decided) == [[0, 3], [1, 2]]
    assert groups(decide(EIGHT[:4], rules, present=generic_resources.parse(decided["resources"]))) == [[0, 3], [1, 2]]


LINKS = st.dictionaries(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda two: two[0] < two[1]), st.integers(0, 4))


@given(LINKS, st.integers(2, 5), st.sets(st.integers(0, 7)))
def test_any_links_give_valid_groups(links, size, dead):
    gpus, rule = machine(8, links), dict(PAIRS, size=size)
    decided = decide(gpus, [rule])
    formed = groups(decided)
    used = [one for members in formed for one in members]
    assert len(used) == len(set(used))
    assert all(len(members) == size for members in formed)
    assert all((one, other) in links for members in formed for one in members for other in members if one < other)
    assert sorted(used + left(decided)) == list(range(8))
    rest = after([dict(one, **FAILED) if one["index"] in dead else one for one in gpus], decided, rule)
    assert {entry for entry, members in zip(decided["resources"], formed, strict=True) if not dead & set(members)} <= set(rest["resources"])
    assert after([dict(one, **FAILED) if one["index"] in dead else one for one in gpus], rest, rule)["resources"] == rest["resources"]
