# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests which nodes are paused for a reported fault, by which manager, and how many at most."""

from __future__ import annotations

import pytest
import swarm_api as api

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager.decide import TURN_S, Memory, decide, limit
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec.updates import plan_one
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.owned_labels import PREFIX

LOST = f"fault {api.A} reason=lost since=1795380328"
OTHER = f"fault {api.B} reason=lost since=1795380400"


def reporting(node_id="g1", value=LOST, labels=None, availability="active", leader=False, **more):
    node = api.node(node_id, labels=labels, availability=availability, leader=leader, **more)
    node["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": value} if value is not None else {}
    return node


def manager(node_id="m1", leader=False, **more):
    node = reporting(node_id, None, leader=leader, **more)
    return {**node, "ManagerStatus": {"Leader": leader, "Reachability": "reachable"}}


def fleet(*nodes, healthy=9):
    return [manager(leader=True), *nodes, *(reporting(f"w{number}", "ok") for number in range(healthy))]


def decided(nodes, own="m1", memory=None, now=0.0, percent=20):
    return decide(nodes, own, percent, memory or Memory(), now)


def paused(node, fault=None):
    """Return the node after this service paused it."""
    want = {"id": node["ID"], "labels": None, "availability": "pause", "remember": True, "paused_for": fault or LOST, "now": "2026-11-20T12:00:00Z"}
    return {**node, "Spec": plan_one(node, want, PREFIX)["after"]}


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (LOST, LOST),
        ("fault reason=mismatch since=1", "fault reason=mismatch since=1"),
        (f"fault {api.A} reason=lost since=7 cards=2", f"fault {api.A} reason=lost since=7 cards=2"),
        ("fault MIG-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30 reason=lost since=7", "fault MIG-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30 reason=lost since=7"),
        # Values outside the vocabulary change nothing beyond the node.
        (f"fault {api.A} reason=lost since=7 drift=12345678 $(reboot) \x1b[31m", f"fault {api.A} reason=lost since=7"),
        ("ok", None),
        (f"warning {api.A} reason=degraded", None),
        ("unwatched", None),
        ("FAULT", None),
        ("", None),
    ],
)
def test_a_node_that_reports_a_fault_is_paused(value, fault):
    decision, _memory = decided(fleet(reporting(value=value)))
    assert [(node["ID"], what) for node, what in decision.pause] == ([("g1", fault)] if fault else [])
    assert decision.alarms == {}


@pytest.mark.parametrize(
    "node",
    [
        reporting(availability="pause"),
        reporting(availability="drain"),
        reporting(availability="pause", labels={"gpu-swarm.former-availability": "active"}),
        reporting(availability="drain", labels={"gpu-swarm.former-availability": "active/drain"}),
        reporting(State="down"),
        paused(reporting()),
    ],
    ids=["operator's pause", "operator's drain", "paused by a run", "drained by a run", "down", "paused by this service"],
)
def test_a_node_that_takes_no_tasks_stays_unchanged(node):
    decision, _memory = decided(fleet(node))
    assert (decision.pause, decision.alarms) == ([], {})


def test_with_report_the_node_is_not_paused():
    decision, memory = decided(fleet(reporting(labels={"fleet.gpu-swarm.on-loss": "report"})))
    assert decision.pause == []
    assert "gpu_node_on_loss is report" in decision.alarms["g1"]
    assert memory.handled == {}  # the pause was not needed


def test_with_shrink_the_node_is_paused_until_the_next_run():
    decision, _memory = decided(fleet(reporting(labels={"fleet.gpu-swarm.on-loss": "shrink"})))
    assert len(decision.pause) == 1


def test_a_node_returned_by_hand_stays_in_service_until_another_fault():
    node = paused(reporting())
    node["Spec"]["Availability"] = "active"  # returned by hand: the node still has the labels, which a new service reads
    decision, memory = decided(fleet(node))
    assert decision.pause == []
    assert "returned it to service" in decision.alarms["g1"]
    node["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": OTHER}
    decision, _memory = decided(fleet(node), memory=memory)
    assert [fault for _node, fault in decision.pause] == [OTHER]


def test_changes_during_a_pause_are_known_when_the_node_returns():
    anew = LOST.replace("328", "999")
    node = paused(reporting())
    node["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": anew}
    _decision, memory = decided(fleet(node))
    node["Spec"]["Availability"] = "active"
    decision, memory = decided(fleet(node), memory=memory)
    assert decision.pause == []
    node["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": LOST.replace("328", "1000")}
    assert len(decided(fleet(node), memory=memory)[0].pause) == 1


def test_a_fault_that_came_after_a_run_counts():
    """The run records the fault that it knows. The new fault was reported while the node was paused."""
    node = paused(reporting())
    node["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": LOST.replace("328", "999")}
    _decision, memory = decided(fleet(node))
    returned = reporting(value=LOST.replace("328", "999"))
    assert len(decided(fleet(returned), memory=memory)[0].pause) == 1
    returned["Spec"]["Labels"] = {"gpu-swarm.paused-for": LOST.replace("328", "999")}
    assert decided(fleet(returned), memory=memory)[0].pause == []


def test_a_node_that_a_run_returned_may_report_the_same_fault_a_little_longer():
    _decision, memory = decided(fleet(paused(reporting())))
    decision, memory = decided(fleet(reporting()), memory=memory)
    assert decision.pause == []
    _decision, memory = decided(fleet(reporting(value="ok")), memory=memory)
    decision, _memory = decided(fleet(reporting()), memory=memory)
    assert len(decision.pause) == 1


def test_a_fault_that_a_run_found_is_the_one_that_the_watcher_reports():
    """The node may report the fault slightly longer than the fault exists."""
    _decision, memory = decided(fleet(paused(reporting(), f"fault {api.A} reason=lost")))
    decision, _memory = decided(fleet(reporting()), memory=memory)
    assert decision.pause == []


@pytest.mark.parametrize(
    ("watched", "percent", "most"),
    [(1, 20, 1), (2, 20, 1), (3, 20, 2), (4, 20, 2), (10, 20, 2), (14, 20, 2), (200, 20, 40), (200, 0, 2), (3, 100, 3)],
)
def test_the_number_of_paused_nodes_is_limited(watched, percent, most):
    """The limit is a share of the nodes that report, and of the nodes that advertise GPUs without a report. Under an old leader, a node may not
    report.
    """
    others = [api.node(f"c{number}") for number in range(100)]
    assert limit([*(reporting(f"g{number}", "ok") for number in range(watched)), *others], percent) == most
    assert limit([*(api.node(f"g{number}", resources=api.named(api.A)) for number in range(watched)), *others], percent) == most


OWN_PREFIX = {"site/count": "2", "site/healthy": "true", "gpu-swarm.labels": "site/count,site/healthy"}


@pytest.mark.parametrize(
    ("labels", "resources", "counts"),
    [
        ({}, api.named(api.A), True),
        ({}, api.named("MIG-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30", kind="MIG-1g.10gb"), True),
        ({}, [*api.named("fast", kind="SSD"), *api.named(api.A, api.B, kind="NVIDIA-H100")], True),
        ({"gpu.count": "2"}, api.discrete(16000), True),
        (OWN_PREFIX, api.discrete(16000), True),
        ({"gpu.count": "2"}, (), False),  # no GPU task is placed on this node
        ({}, api.named("fast", kind="SSD"), False),
        ({}, api.discrete(1, kind="SSD"), False),
        ({"disk": "ssd"}, [*api.named("license-1", kind="LICENSE"), *api.discrete(8, kind="FPGA")], False),
    ],
)
def test_only_gpus_make_a_node_count(labels, resources, counts):
    others = [api.node(f"c{number}", labels=labels, resources=resources) for number in range(100)]
    assert limit([reporting(), *others], 20) == (20 if counts else 1)


def test_a_lying_node_keeps_no_other_one_in_service():
    """A node that is broken for a long time does not keep other nodes in service either. In a fleet of two, one node must work."""
    broken = paused(reporting("g1"))
    for healthy in (1, 3, 7):
        assert [node["ID"] for node, _fault in decided(fleet(broken, reporting("g2"), healthy=healthy))[0].pause] == ["g2"]
    assert decided(fleet(broken, reporting("g2"), healthy=0))[0].pause == []


def test_nodes_that_are_down_do_not_count():
    """Nodes that are down have old reports and take no tasks."""
    down = [reporting(f"d{number:02}", "ok", State="down") for number in range(100)]
    assert limit([*down, *(reporting(f"g{number}", "ok") for number in range(10))], 20) == 2
    gone = [paused(reporting(name, State="down")) for name in ("g1", "g2")]
    assert [node["ID"] for node, _fault in decided(fleet(*gone, reporting("g3")))[0].pause] == ["g3"]


def test_200_nodes_at_once():
    """The service pauses a fifth of the nodes, even if it polls again before all are paused. The other nodes raise an alarm."""
    nodes = {f"g{number:03}": reporting(f"g{number:03}") for number in range(200)}
    memory = Memory()
    for now in range(3):
        decision, memory = decided([manager(leader=True), *nodes.values()], memory=memory, now=now)
        for node, fault in decision.pause[:25]:  # the other updates arrive too late for the next poll
            nodes[node["ID"]] = paused(node, fault)
    assert sum(node["Spec"]["Availability"] == "pause" for node in nodes.values()) == 40
    assert len(decision.alarms) == 160
    assert "40 of the 200 GPU nodes" in decision.alarms["g199"]


def test_the_oldest_fault_comes_first_and_free_places_are_used_again():
    early, late = reporting("g9"), reporting("g1")
    decision, memory = decided(fleet(early, healthy=0), percent=20)
    nodes = fleet(late, early, healthy=0)
    decision, memory = decided(nodes, memory=memory, now=5)
    assert [node["ID"] for node, _fault in decision.pause] == ["g9"]
    assert list(decision.alarms) == ["g1"]
    back = reporting("g9", "ok")
    decision, _memory = decided(fleet(late, back, healthy=0), memory=memory, now=10)
    assert [node["ID"] for node, _fault in decision.pause] == ["g1"]


@pytest.mark.parametrize(
    ("own", "leader", "acts_after"),
    [("m1", "m1", 0), ("m2", "m1", TURN_S), ("m3", "m1", 2 * TURN_S), ("m1", "m3", TURN_S), ("m2", "m3", 2 * TURN_S), ("m2", None, 2 * TURN_S)],
)
def test_managers_take_turns(own, leader, acts_after):
    """The turn of a manager starts when the manager first sees the fault, by its own clock."""
    nodes = [*(manager(name, leader=name == leader) for name in ("m3", "m1", "m2")), reporting()]
    _decision, memory = decided(nodes, own, now=100.0)
    if acts_after:
        decision, memory = decided(nodes, own, memory, now=100.0 + acts_after - 0.5)
        assert (decision.pause, decision.turn_s) == ([], 0.5)
    decision, _memory = decided(nodes, own, memory, now=100.0 + acts_after)
    assert [node["ID"] for node, _fault in decision.pause] == ["g1"]


def test_a_lying_node_harms_only_itself():
    """A lying node cannot name another node, use up more than one of the allowed pauses, or hide reports of other nodes."""
    liars = [reporting("g1", f"fault g2 w1 {api.A} reason=lost cards=999999999999 since=999999999999"), reporting("g2", "x" * 100000)]
    decision, _memory = decided(fleet(*liars, reporting("g3"), healthy=8))
    assert [node["ID"] for node, _fault in decision.pause] == ["g1", "g3"]
    assert len(decision.pause[0][1]) < 200


def test_nodes_with_missing_parts_are_skipped():
    bare = {"ID": "x", "Spec": {"Availability": "active"}}
    decision, _memory = decided([manager(leader=True), bare, {**bare, "ID": "y", "Description": {}}])
    assert (decision.pause, decision.alarms) == ([], {})
