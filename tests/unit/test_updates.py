# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import LABELS, assessed, ledger, member, named
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._updates import (
    availability_updates,
    decided,
    difference,
    label_updates,
    manager_gate,
    node_id_of,
    not_shown,
    step_of,
)

OURS = "gpu-swarm.labels"


def variables(node_id="n1", **other):
    return dict({"gpu_node_assessed": assessed(node_id)}, **other)


def planned(name, **step):
    return {"gpu_swarm_plan": {"steps": {name: step}}}


def test_the_node_id_as_joined_goes_before_the_one_found():
    assert node_id_of(variables()) == "n1"
    assert node_id_of(variables(swarm_member_state={"node_id": "n2"})) == "n2"
    assert node_id_of(variables(swarm_member_state={"node_id": None})) == "n1"
    assert node_id_of(variables(swarm_member_state={"state": "inactive", "node_id": ""})) is None
    assert node_id_of({}) is None
    assert node_id_of({"gpu_node_assessed": {"failed": True}}) is None
    assert node_id_of({"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n3"}}}) == "n3"


def test_what_was_applied_goes_before_what_was_found():
    assert decided(variables())["resources"] == resources(0, 1)
    assert decided(variables(gpu_node_applied={"resources": []})) == {"resources": []}
    assert decided({}) == {}


def test_the_step_of_a_host_without_a_plan_is_empty():
    assert step_of("a", {"a": planned("a", error="x")}) == {"error": "x"}
    assert step_of("a", {"a": planned("b", error="x")}) == step_of("a", {"a": {}}) == {}


def test_work_is_kept_away_as_planned_and_nodes_are_given_back_whatever_happened():
    hosts = {
        "paused": variables("n1", **planned("paused", availability="pause")),
        "drained": variables("n2", **planned("drained", availability="drain")),
        "unplanned": variables("n3"),
        "failed": variables("n4", gpu_swarm_outcome="dockerd did not start"),
        "outside": variables(None),
        "unknown": {},
    }
    assert availability_updates(hosts, hosts, away=True) == [
        {"id": "n1", "availability": "pause", "remember": True},
        {"id": "n2", "availability": "drain", "remember": True},
        {"id": "n3", "availability": "pause", "remember": True},
        {"id": "n4", "availability": "pause", "remember": True},
    ]
    back = [{"id": f"n{number}", "availability": "former", "remember": False} for number in (1, 2, 3, 4)]
    assert availability_updates(hosts, hosts, away=False) == back
    assert availability_updates([], hosts, away=True) == []


def test_every_member_on_which_nothing_failed_is_labelled():
    hosts = {
        "gpu": variables("n1"),
        "changed": variables("n2", gpu_node_applied={"labels": {"gpu.count": "1"}}),
        "none": {"gpu_node_assessed": assessed("n3", gpus=0)},
        "failed": variables("n4", gpu_swarm_outcome="dockerd did not start"),
        "outside": variables(None),
        "joined": variables(None, swarm_member_state={"node_id": "n5"}),
        "undecided": {"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n6"}}},
        "unknown": {},
    }
    assert label_updates(hosts, hosts) == [
        {"id": "n1", "labels": LABELS},
        {"id": "n2", "labels": {"gpu.count": "1"}},
        {"id": "n3", "labels": {}},
        {"id": "n5", "labels": LABELS},
    ]


def test_labels_of_a_plan_go_before_what_was_decided():
    assert label_updates(["a"], {"a": variables(**planned("a", labels={"leaving": "a"}))}) == [{"id": "n1", "labels": {"leaving": "a"}}]
    assert label_updates(["a"], {"a": variables(**planned("a", labels={}))}) == [{"id": "n1", "labels": {}}]
    left = variables(swarm_member_state={"state": "inactive"}, **planned("a", labels={}))
    assert label_updates(["a"], {"a": left}) == availability_updates(["a"], {"a": left}, away=False) == []


@pytest.mark.parametrize(
    ("nodes", "asked"),
    [
        ([member()], False),
        ([member(labels={})], True),
        ([member(labels=dict(LABELS, **{"gpu.count": "3", OURS: "gpu.count,gpu.model"}))], True),
        ([member(labels=LABELS)], False),  # another's, and as wanted
        ([member(labels={"gpu.count": "3"})], False),  # a clash, which the plan tells
        ([member("other", labels={})], False),
        ([], False),
    ],
)
def test_with_a_ledger_only_labels_that_differ_are_asked_for(nodes, asked):
    assert label_updates(["a"], {"a": variables()}, ledger(*nodes)) == ([{"id": "n1", "labels": LABELS}] if asked else [])


def test_labels_that_could_not_be_told_stay():
    answer = assessed(labels={"gpu.y": "1"}, labels_unknown=["cpu."])
    there = {"cpu.x": "1", "gpu.y": "1", OURS: "cpu.x,gpu.y"}
    hosts = {"a": {"gpu_node_assessed": answer}}
    assert label_updates(["a"], hosts) == [{"id": "n1", "labels": {"gpu.y": "1"}, "keep": ["cpu."]}]
    assert label_updates(["a"], hosts, ledger(member(labels=there))) == []


def test_the_labels_of_a_host_that_left_gpu_nodes_are_taken_back():
    hosts = {"a": {"gpu_node_assessed": assessed(gpus=0)}}
    assert label_updates(["a"], hosts, ledger(member())) == [{"id": "n1", "labels": {}}]
    assert label_updates(["a"], hosts, ledger(member(labels={"gpu.count": "2"}))) == []  # never was ours


@pytest.mark.parametrize(
    ("values", "nodes", "shown"),
    [
        (variables(), [member()], True),
        (variables(), [member(shown=(0,))], False),
        (variables(), [member(shown=())], False),
        (variables(), [member(state="down")], False),
        (variables(), [member("other")], False),
        (variables(), [], False),
        (variables(gpu_swarm_outcome="x"), [], True),
        (variables(**planned("a", waits_for=["x"])), [], True),
        (variables(**planned("a", error="x")), [], True),
        (variables(**planned("b", error="x")), [], False),
    ],
)
def test_not_shown(values, nodes, shown):
    assert not_shown(["a"], {"a": values}, ledger(*nodes)) == ([] if shown else ["a"])
    if not nodes:
        assert not_shown(["a"], {"a": values}, None) == ([] if shown else ["a"])


@pytest.mark.parametrize(
    ("wanted", "there", "told"),
    [
        ({"resources": resources(0, 1)}, {"NVIDIA-GPU": named(1, 0)}, None),
        ({"resources": resources(0, 1)}, {"NVIDIA-GPU": named(0)}, "the manager shows 1 of 2 NVIDIA-GPU"),
        ({"resources": resources(0)}, {"NVIDIA-GPU": named(1)}, "the manager shows 1 of 1 NVIDIA-GPU"),
        ({"resources": resources(0)}, {}, "the manager shows 0 of 1 NVIDIA-GPU"),
        ({"resources": []}, {"SSD": {"type": "discrete", "total": 1, "free": 1}}, None),
        ({"resources": ["VRAM=9"]}, {"VRAM": {"type": "discrete", "total": 9, "free": 1}}, None),
        ({"resources": ["VRAM=9"]}, {"VRAM": {"type": "discrete", "total": 8, "free": 1}}, "the manager shows 8 of 9 VRAM"),
        ({"resources": ["VRAM=9"]}, {}, "the manager shows 0 of 9 VRAM"),
        ({}, {}, None),
    ],
)
def test_difference(wanted, there, told):
    assert difference(wanted, {"resources": there}) == told


# --- one manager after another ----------------------------------------------------------------------------------------


def managers(count, down=()):
    """A ledger of ``count`` managers, of which those numbered in ``down`` cannot be reached, and one worker."""
    shown = [member(f"n{n}", role="manager", reachability="unreachable" if n in down else "reachable") for n in range(1, count + 1)]
    return ledger(*shown, member("w1"))


# how many managers, which are down -> how many others are up where the first must be left alone
GATES = [
    (1, (), None),
    (2, (), None),
    (2, (2,), None),
    (3, (), None),
    (3, (1,), None),  # the one to be changed is the one that is down
    (3, (2,), 1),
    (3, (2, 3), 0),
    (4, (), None),
    (4, (4,), 2),
    (5, (), None),
    (5, (2,), None),
    (5, (2, 3), 2),
]


@pytest.mark.parametrize(("count", "down", "left"), GATES)
def test_a_manager_is_left_alone_where_the_swarm_would_stand_still_without_it(count, down, left):
    told = manager_gate("a", ["a"], {"a": variables("n1")}, managers(count, down))
    assert told == (
        ""
        if left is None
        else f"left alone: without it {left} of {count} managers could be reached, too few to run the swarm. "
        "Bring the other managers back and run this again."
    )


def test_after_a_manager_that_failed_no_other_is_touched():
    hosts = {"a": variables("n1"), "b": variables("n2", gpu_swarm_outcome="dockerd did not start"), "c": variables("n3")}
    for name in ("a", "c"):
        told = manager_gate(name, list(hosts), hosts, managers(3))
        assert told == "left alone, since the change of the manager b failed. Mend that and run this again."
    # Its own outcome is no news, and one that this run does not change is no reason.
    assert manager_gate("b", list(hosts), hosts, managers(3)) == ""
    assert manager_gate("a", ["a", "c"], hosts, managers(3)) == ""


@pytest.mark.parametrize(
    ("book", "reason"),
    [
        ({"failed": True, "msg": "The swarm does not have a leader."}, "The swarm does not have a leader."),
        ({"unreachable": True}, "it gave no list of nodes"),
        (ledger(), "it gave no list of nodes"),
        (None, "it gave no list of nodes"),
    ],
)
def test_without_a_ledger_no_manager_is_touched(book, reason):
    told = manager_gate("a", ["a"], {"a": variables("n1")}, book)
    assert told == f"left alone: no manager could be asked who else runs the swarm ({reason}). Mend that and run this again."
