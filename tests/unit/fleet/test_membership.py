# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.membership import (
    Candidate,
    demotion_error,
    find_swarm,
    listening_at,
    membership,
)


def answer(state="inactive", node_id=None, control=False, half_joined=False, error=None, **more):
    return {
        "swarm": {
            "state": state,
            "node_id": node_id,
            "control_available": control,
            "half_joined": half_joined,
            "error": error,
            "managers": ["10.0.0.9:2377"],
            **more,
        }
    }


FRESH = answer()
RUNS = answer("active", "m1", control=True)
WORKER = answer("active", "w1")
DEAD = {"unreachable": True, "msg": "No route to host"}
# A manager, and a host that the manager knows under another role.
VOUCHES = answer("active", "m1", control=True, id="s1", manager_ids=["m1", "x1"])
VOUCHED = answer("active", "x1", control=True, id="s1", manager_ids=["m1", "x1"])
BROKEN = {"failed": True, "msg": "live-restore is true\nmore"}
STOPPED = answer("unknown")
BARE = FRESH | {"missing": ["engine"]}


def without_gpus(said):
    """Return the other parts of an answer after NVML failed."""
    return said | {"failed": True, "msg": "NVML: driver/library version mismatch. Reboot."}


def node(node_id, role="worker", reachable=True, addr=None):
    message = {"ID": node_id, "Spec": {"Role": role}, "Status": {"Addr": "10.0.0.7"}}
    if role == "manager":
        message["ManagerStatus"] = {
            "Reachability": "reachable" if reachable else "unreachable",
            "Addr": addr or f"{node_id}:2377",
        }
    return message


FOUND = {
    "a fresh fleet is initialised on its first manager": ({"a": FRESH, "b": FRESH, "w": FRESH}, ["a", "b"], ["a", "b", "w"], [], "a"),
    "a fresh fleet is initialised on the first manager in the run": ({"a": FRESH, "b": FRESH}, ["a", "b"], ["b"], [], "b"),
    "a manager that runs a swarm is found": ({"a": FRESH, "b": RUNS}, ["a", "b"], ["a"], ["b"], None),
    "a dead manager does not matter if another runs the swarm": ({"a": DEAD, "b": RUNS}, ["a", "b"], ["a"], ["b"], None),
    "a confirmed former manager is queried last": (
        {"x": VOUCHED, "b": VOUCHES}, ["b"], ["b", "x"], ["b", "x"], None
    ),
    "an unconfirmed host is ignored": ({"x": answer("active", "x9", True, id="s1"), "b": VOUCHES}, ["b"], ["b", "x"], ["b"], None),
    "a host with the id of another swarm is ignored": ({"x": answer("active", "x1", True, id="s2"), "b": VOUCHES}, ["b"], ["b", "x"], ["b"], None),
    "a host without the id of the swarm is ignored": (
        {"x": answer("active", "x1", True), "b": answer("active", "m1", True, manager_ids=["m1", "x1"])}, ["b"], ["b", "x"], ["b"], None
    ),
    "two hosts with the same node id are ignored": ({"x": VOUCHED, "y": VOUCHED, "b": VOUCHES}, ["b"], ["b", "x", "y"], ["b"], None),
    "a confirmed host is ignored while a manager is locked": (
        {"x": VOUCHED, "b": VOUCHES, "c": answer("locked")}, ["b", "c"], ["b", "x"], ["b"], None
    ),
    "a confirmed host is ignored while a manager is unreachable": ({"x": VOUCHED, "b": VOUCHES, "c": DEAD}, ["b", "c"], ["b", "x"], ["b"], None),
    "a confirmed host is used before a manager joins": ({"x": VOUCHED, "b": VOUCHES, "c": FRESH}, ["b", "c"], ["b", "x"], ["b", "x"], None),
    "a manager with an error is queried last": (
        {"a": answer("active", "m1", True, error="no leader"), "b": RUNS},
        ["a", "b"],
        [],
        ["b", "a"],
        None,
    ),
    "a manager runs the swarm although its NVML fails": (
        {"a": FRESH, "b": without_gpus(RUNS)},
        ["a", "b"],
        ["a"],
        ["b"],
        None,
    ),
    "a manager whose NVML fails answered that it is in no swarm": ({"a": FRESH, "b": without_gpus(FRESH)}, ["a", "b"], ["a"], [], "a"),
    "a stopped dockerd does not matter if another manager runs the swarm": (
        {"a": STOPPED, "b": RUNS},
        ["a", "b"],
        ["a"],
        ["b"],
        None,
    ),
    "no swarm is initialised on a manager without Docker": ({"a": BARE, "b": FRESH}, ["a", "b"], ["a", "b"], [], "b"),
    "a half-joined manager was never in a swarm": ({"a": answer("error", half_joined=True)}, ["a"], ["a"], [], "a"),
    "a worker's claim does not stop the others": ({"b": FRESH, "x": RUNS}, ["b"], ["b", "x"], [], "b"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_the_swarm_is_found(case):
    answers, managers, in_play, live, init_on = FOUND[case]
    found = find_swarm(answers, managers, in_play)
    assert (found["live"], found["init_on"], found["error"]) == (live, init_on, None)


NOT_FOUND = {
    "no manager named": ({"w": FRESH}, [], ["w"], "swarm_managers"),
    "a manager is dead": ({"a": FRESH, "b": DEAD}, ["a", "b"], ["a"], "b: No route to host"),
    "a manager failed": ({"a": FRESH, "b": BROKEN}, ["a", "b"], ["a"], "b: live-restore is true."),
    "a manager's dockerd is stopped": ({"a": FRESH, "b": STOPPED}, ["a", "b"], ["a"], "dockerd is not running on b: start it."),
    "all managers' dockerds are stopped": ({"a": STOPPED}, ["a"], ["a"], "dockerd is not running on a: start it."),
    "a manager's dockerd is stopped, and its NVML fails": (
        {"a": FRESH, "b": without_gpus(STOPPED)},
        ["a", "b"],
        ["a"],
        "dockerd is not running on b: start it.",
    ),
    "a manager's dockerd is stopped, and another host runs a swarm": (
        {"a": STOPPED, "x": RUNS},
        ["a"],
        ["a", "x"],
        "dockerd is not running on a: start it.",
    ),
    "a manager whose NVML fails is a worker": (
        {"a": FRESH, "b": without_gpus(WORKER)},
        ["a", "b"],
        ["a"],
        "b: swarm state active",
    ),
    "a queried manager failed": (
        {"a": FRESH, "b": BROKEN | {"failed": False}},
        ["a", "b"],
        ["a"],
        "b: live-restore is true.",
    ),
    "a manager was not queried": ({"a": FRESH}, ["a", "b"], ["a"], "b: it was not queried"),
    "a manager is a worker of some swarm": ({"a": FRESH, "b": WORKER}, ["a", "b"], ["a"], "b: swarm state active"),
    "a manager's swarm is locked": ({"a": answer("locked")}, ["a"], ["a"], "The swarm is locked on a, as"),
    "one of two managers is locked": (
        {"a": answer("locked"), "b": FRESH},
        ["a", "b"],
        ["a", "b"],
        "run 'docker swarm unlock' there and give it the unlock key",
    ),
    "a manager is in error after a membership": (
        {"a": answer("error", error="certificate expired")},
        ["a"],
        ["a"],
        "certificate expired",
    ),
    "no manager is in the run": ({"a": FRESH, "w": FRESH}, ["a"], ["w"], "--limit"),
}


# Answers of a manager that cannot contradict a worker's claim, and words of the error.
MUTE = {
    "locked": (answer("locked", "m1"), "The swarm is locked on a"),
    "pending": (answer("pending", "m1"), "a: swarm state pending"),
    "in error": (answer("error", "m1", error="no route"), "a: swarm state error"),
    "stopped": (STOPPED, "dockerd is not running on a"),
    "unreachable": (DEAD, "a: No route to host"),
    # Every worker knows the ids of the managers. It does not know the id of the swarm.
    "a worker": (answer("active", "m1", manager_ids=["x1"]), "a: swarm state active"),
}


@pytest.mark.parametrize("case", MUTE)
def test_a_worker_that_claims_to_be_a_manager_is_not_believed(case):
    said, words = MUTE[case]
    found = find_swarm({"a": said, "x": VOUCHED}, ["a"], ["a", "x", "w"])
    assert (found["live"], found["init_on"], found["claims"]) == ([], None, ["x"])
    assert words in found["error"]
    assert "x reports that it is the manager of a swarm, but no manager of the group swarm_managers confirms this" in found["error"]


@pytest.mark.parametrize("case", NOT_FOUND)
def test_no_swarm_may_be_created(case):
    answers, managers, in_play, words = NOT_FOUND[case]
    found = find_swarm(answers, managers, in_play)
    assert (found["live"], found["init_on"]) == ([], None)
    assert words in found["error"]


def manages(swarm_id, node_id="m1"):
    found = answer("active", node_id, control=True)
    return {"swarm": found["swarm"] | {"id": swarm_id}}


# Answers of the hosts a1, a2 and b1 of the group swarm_managers, and the words of the error.
TWO_SWARMS = {
    "two": ({"a1": manages("swarm-a"), "b1": manages("swarm-b")}, "a1 swarm swarm-a, b1 swarm swarm-b"),
    "two, with a manager that is down": ({"a1": manages("swarm-a"), "a2": DEAD, "b1": manages("swarm-b")}, "a1 swarm swarm-a, b1 swarm swarm-b"),
    "one swarm with several managers": ({"a1": manages("swarm-a"), "a2": manages("swarm-a", "m2"), "b1": FRESH}, None),
    "one, and a manager without a quorum knows no id": ({"a1": manages("swarm-a"), "b1": manages(None)}, None),
    "one, and a host outside the group runs its own": ({"a1": manages("swarm-a"), "x": manages("swarm-x")}, None),
    "an id with control characters": ({"a1": manages("swarm-a"), "b1": manages("b\x1b[2J")}, "b1 swarm b"),
}


@pytest.mark.parametrize("case", TWO_SWARMS)
def test_no_swarm_is_chosen_if_the_managers_run_several(case):
    """With --limit, the run may have only hosts of the other swarm."""
    answers, named = TWO_SWARMS[case]
    found = find_swarm(answers, ["a1", "a2", "b1"], ["b1", "w"])
    assert "a1" in found["live"]
    assert found["init_on"] is None
    if named:
        assert named in found["error"]
        assert "\x1b" not in found["error"]
        assert "docs/operate/several-swarms.md" in found["error"]
    else:
        assert found["error"] is None


NODES = [node("m1", "manager"), node("m2", "manager"), node("m3", "manager"), node("w1")]

PLANS = {
    "fresh": (FRESH, NODES, "worker", {}, "join"),
    "fresh, no swarm yet": (FRESH, None, "manager", {}, "join"),
    "member": (WORKER, NODES, "worker", {}, "none"),
    "manager": (RUNS, NODES, "manager", {}, "none"),
    "promote": (WORKER, NODES, "manager", {}, "promote"),
    "demote": (RUNS, NODES, "worker", {}, "demote"),
    "member, though its NVML fails": (without_gpus(WORKER), NODES, "worker", {}, "none"),
    "list not known": (WORKER, None, "worker", {}, "unknown"),
    "half-joined": (answer("error", half_joined=True), NODES, "worker", {}, "recover"),
    "worker of another swarm, with consent to move": (answer("active", "w9"), NODES, "worker", {"move": True}, "move"),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_host_gets_the_right_membership_step(case):
    said, nodes, role, options, action = PLANS[case]
    plan = membership(Candidate(said, role, **options), nodes)
    assert (plan["action"], plan["error"]) == (action, None)


REFUSED = {
    "unreachable": (DEAD, "worker", {}, "No route to host"),
    "dockerd is stopped": (STOPPED, "worker", {}, "dockerd is not running on this host: start it."),
    "no Docker": (BARE, "worker", {}, "Docker Engine is not installed on this host: install it."),
    "another swarm": (answer("active", "w9"), "worker", {}, "swarm_member_move"),
    "manager of another swarm": (answer("active", "m9", True), "worker", {"move": True}, "manager of another swarm"),
    "locked": (answer("locked"), "worker", {}, "run 'docker swarm unlock' there and give it the unlock key"),
    "pending": (answer("pending"), "worker", {}, "pending"),
    "error after a membership": (answer("error", "w1", error="expired"), "worker", {"move": True}, "expired"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_membership_is_refused(case):
    said, role, options, words = REFUSED[case]
    assert words in membership(Candidate(said, role, **options), NODES)["error"]


DEMOTIONS = {
    "one of three": (NODES, "m1", [], None),
    "the last": ([node("m1", "manager")], "m1", [], "last manager"),
    "one of two leaves one": ([node("m1", "manager"), node("m2", "manager")], "m1", [], None),
    "the working one of two": ([node("m1", "manager"), node("m2", "manager", reachable=False)], "m1", [], "quorum"),
    "the dead one of two": ([node("m1", "manager", reachable=False), node("m2", "manager")], "m1", [], None),
    "a working one of three with one dead": (
        [node("m1", "manager"), node("m2", "manager"), node("m3", "manager", reachable=False)],
        "m1",
        [],
        "quorum",
    ),
    "all three, the first": (NODES, "m1", ["m1", "m2", "m3"], None),
    "all three, the second": (NODES, "m2", ["m1", "m2", "m3"], None),
    "all three, the last": (NODES, "m3", ["m1", "m2", "m3"], "last manager"),
}


@pytest.mark.parametrize("case", DEMOTIONS)
def test_a_manager_may_be_demoted(case):
    nodes, node_id, leaving, words = DEMOTIONS[case]
    error = demotion_error(nodes, node_id, leaving)
    assert error is None if words is None else words in error


COMING = {
    "the last, when another host is promoted before": ([node("m1", "manager"), node("w1")], [WORKER], None),
    "the last, when another host joins before": ([node("m1", "manager")], [FRESH], None),
    "the last, although it is in the list of new managers": ([node("m1", "manager")], [RUNS], "last manager"),
    "a dead manager is not a new manager": (
        [node("m1", "manager"), node("m2", "manager", reachable=False)],
        [answer("active", "m2", control=True)],
        "quorum",
    ),
}


@pytest.mark.parametrize("case", COMING)
def test_a_demotion_waits_for_other_managers(case):
    nodes, coming, words = COMING[case]
    error = membership(Candidate(RUNS), nodes, new_managers=coming)["error"]
    assert error is None if words is None else words in error


@pytest.mark.parametrize("role", ["worker", "manager"])
@pytest.mark.parametrize(("bound", "error"), [(None, False), ("g1", False), ("g2", True)])
def test_a_node_that_belongs_to_another_host_is_not_this_one(role, bound, error):
    listed = [*NODES[:3], node("w1")]
    listed[-1]["Spec"]["Labels"] = {"gpu-swarm.host": bound} if bound else {}
    plan = membership(Candidate(WORKER, role, "g1"), listed)
    assert plan["action"] == ("none" if error or role == "worker" else "promote")
    assert ("belongs to the host g2" in (plan["error"] or "")) is error
    assert membership(Candidate(WORKER, role), listed)["error"] is None  # the candidate has no host name


def test_addresses_of_reachable_managers():
    nodes = [
        node("m1", "manager", addr="0.0.0.0:2377"),
        node("m2", "manager", addr="[fd00::2]:2378"),
        node("m3", "manager", reachable=False),
        node("w1"),
    ]
    assert listening_at(nodes) == ["10.0.0.7:2377", "[fd00::2]:2378"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1:2377"),
        ("name:2400", "name:2400"),
        ("fd00::1", "[fd00::1]:2377"),
        ("[fd00::1]", "[fd00::1]:2377"),
        ("[fd00::1]:2400", "[fd00::1]:2400"),
    ],
)
def test_an_address_from_a_user_gets_its_port(text, address):
    assert listening_at([text]) == [address]
