# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import LABELS, assessed, host, ledger, member, named
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import (
    END,
    JOIN,
    LABEL,
    PREPARE,
    WINDOW,
    WINDOW_MANAGERS,
    Host,
    Step,
    decided,
    difference,
    label_change,
    node_id_of,
    node_updates,
    not_shown,
    plan,
)

DRIFT = ["2 GPUs not advertised as NVIDIA-GPU: a, b"]
RESTART = {"restart_required": True, "drift": DRIFT}
RELOAD = {"drift": ["the default runtime is runc, not nvidia"], "shown": resources(0, 1)}
FRESH = {"node_id": None, "toolkit_version": None, **RESTART}
BUSY = [("train.1.x", "train"), ("train.2.y", "train"), ("by-hand", None)]


def step_of(one, book=None, toolkit=None, disrupt="never"):
    return plan([one], book, toolkit, disrupt)[one.name]


# the host, the ledger -> (what it needs, its groups)
STEPS = {
    "nothing to do": (host(), ledger(member()), [], []),
    "a manager without GPU": (host(gpu=False, manager=True), ledger(member(role="manager", labels={})), [], []),
    "labels of others are nothing to do": (host(gpu=False), ledger(member(labels={"a": "b"}, shown=())), [], []),
    "fresh": (host(**FRESH), None, ["toolkit", "configure", "restart", "join"], [PREPARE, JOIN, LABEL, END]),
    "fresh without GPU": (host(gpu=False, node_id=None), None, ["join"], [JOIN, END]),
    "only to join": (host(node_id=None), ledger(member("other")), ["join"], [JOIN, LABEL, END]),
    "in another swarm": (host(node_id="elsewhere"), ledger(member()), ["join"], [JOIN, LABEL, END]),
    "member with drift": (host(**RESTART), ledger(member()), ["configure", "restart"], [WINDOW, END]),
    "manager with drift": (
        host(manager=True, **RESTART),
        ledger(member(role="manager")),
        ["configure", "restart"],
        [WINDOW_MANAGERS, END],
    ),
    "a reload hurts nobody": (host(containers=BUSY, **RELOAD), ledger(member()), ["configure"], [PREPARE, END]),
    "another toolkit": (host(toolkit_version="1.19.0"), ledger(member()), ["toolkit"], [WINDOW, END]),
    "the SDK of a worker is only for joining": (host(missing=["docker_sdk"]), ledger(member()), [], []),
    "the SDK of a manager": (
        host(manager=True, missing=["docker_sdk"]),
        ledger(member(role="manager")),
        ["docker_sdk"],
        [JOIN, END],
    ),
    "to promote": (host(manager=True), ledger(member()), ["role"], [JOIN, END]),
    "to demote": (host(), ledger(member(role="manager")), ["role"], [JOIN, END]),
    "labels": (host(), ledger(member(labels={})), ["labels"], [LABEL, END]),
    "a label of another": (host(), ledger(member(labels={"gpu.count": "7"})), ["labels"], [LABEL, END]),
    "left paused by a run that was killed": (
        host(gpu=False),
        ledger(member(labels={}, shown=(), former_availability="active", availability="pause")),
        ["availability"],
        [LABEL, END],
    ),
}


@pytest.mark.parametrize(("one", "book", "needs", "groups"), STEPS.values(), ids=STEPS)
def test_what_a_host_needs(one, book, needs, groups):
    step = step_of(one, book, toolkit="1.20.0" if one.gpu else None)
    assert (step.needs, step.groups, step.waits_for, step.error) == (needs, groups, [], None)
    assert bool(step.impact) == bool(needs)


def test_nobodys_work_is_stopped_unasked():
    step = step_of(host(containers=BUSY, **RESTART), ledger(member()))
    assert step.waits_for == ["service train (2 tasks)", "container by-hand"]
    assert step.groups == [END]
    step = step_of(host(containers=BUSY, **RESTART), ledger(member()), disrupt="all")
    assert (step.waits_for, step.groups) == ([], [WINDOW, END])
    assert "stops service train (2 tasks), container by-hand" in step.impact
    assert step_of(host(containers=BUSY), ledger(member(labels={}))).groups == [LABEL, END]
    outside = step_of(host(containers=BUSY[2:], **FRESH), None)
    assert (outside.waits_for, outside.groups) == (["container by-hand"], [END])


# an assessment -> what the run means there
IMPACTS = {
    "fresh": (FRESH, ["installs toolkit 1.20.0", "+2 NVIDIA-GPU", "restarts dockerd", "joins the swarm"]),
    "another toolkit": ({"toolkit_version": "1.19.0"}, ["toolkit 1.19.0 → 1.20.0"]),
    "another kind": (
        {**RESTART, "shown": [*resources(0, 1, kind="GPU"), "SSD=1", "FPGA=a"]},
        ["+2 NVIDIA-GPU", "−2 GPU", "restarts dockerd"],
    ),
    "another GPU": ({**RESTART, "shown": resources(0, 2)}, ["+1 NVIDIA-GPU", "−1 NVIDIA-GPU", "restarts dockerd"]),
    "no other GPUs": (RELOAD, RELOAD["drift"]),
    "a library to keep": ({"missing": ["nvml_binding"], "shown": resources(0, 1)}, ["keeps pynvml on the node"]),
}


@pytest.mark.parametrize(("answer", "impact"), IMPACTS.values(), ids=IMPACTS)
def test_what_a_change_means_is_told(answer, impact):
    book = None if "node_id" in answer else ledger(member())
    assert step_of(host(**answer), book, "1.20.0").impact == impact


def test_any_toolkit():
    assert step_of(host(toolkit_version=None), ledger(member())).impact == ["installs toolkit"]


@pytest.mark.parametrize("toolkit", [None, "1.20.0"])
def test_the_toolkit_that_is_there_is_kept(toolkit):
    assert step_of(host(), ledger(member()), toolkit).needs == []


NO_ENGINE = "Docker Engine is not installed. Install it on this host and run this again."


@pytest.mark.parametrize(
    ("answer", "error", "groups"),
    [
        (None, "not assessed", []),
        ({}, "not assessed", []),
        ({"unreachable": True, "msg": "no route to host"}, "unreachable: no route to host", []),
        ({"failed": True, "msg": "daemon.json: it is not JSON."}, "daemon.json: it is not JSON.", []),
        ({"failed": True}, "the assessment failed", []),
        # Ansible has not given this one up: it is to fail at the end of the run.
        (assessed(missing=["engine"], engine=None), NO_ENGINE, [END]),
    ],
)
def test_a_host_with_which_nothing_can_be_done(answer, error, groups):
    step = plan([Host("a", True, False, answer), host("b")], ledger(member()), None, "never")["a"]
    assert (step.error, step.groups, step.needs) == (error, groups, [])


def test_one_bad_host_does_not_hide_the_others():
    steps = plan([Host("a", True, False, None), host("b", **RESTART)], ledger(member()), None, "never")
    assert (steps["a"].groups, steps["b"].groups) == ([], [WINDOW, END])


OURS = "gpu-swarm.labels"


@pytest.mark.parametrize(
    ("there", "wanted", "differs"),
    [
        ({}, {}, False),
        ({"a": "1", OURS: "a"}, {"a": "1"}, False),
        ({"a": "1"}, {"a": "1"}, False),  # another's, and as wanted
        ({"a": "1", OURS: "a"}, {"a": "2"}, True),
        ({"a": "1", OURS: "a"}, {}, True),
        ({"a": "1"}, {"a": "2"}, True),  # a clash is for swarm_nodes to tell
        ({"b": "1"}, {"a": "2"}, True),
    ],
)
def test_label_change(there, wanted, differs):
    assert label_change({"labels": there}, wanted) is differs


# --- what the later plays ask ---------------------------------------------------------------------------------------


def variables(node_id="n1", **other):
    return dict({"gpu_node_assessed": assessed(node_id)}, **other)


def test_the_node_id_as_joined_goes_before_the_one_found():
    assert node_id_of(variables()) == "n1"
    assert node_id_of(variables(swarm_member_state={"node_id": "n2"})) == "n2"
    assert node_id_of(variables(swarm_member_state={"node_id": None})) == "n1"
    assert node_id_of({}) is None
    assert node_id_of({"gpu_node_assessed": {"failed": True}}) is None


def test_what_was_applied_goes_before_what_was_found():
    assert decided(variables())["resources"] == resources(0, 1)
    assert decided(variables(gpu_node_applied={"resources": []})) == {"resources": []}
    assert decided({}) == {}


def test_node_updates():
    hosts = {
        "a": variables("n1"),
        "failed": variables("n2", gpu_swarm_outcome="dockerd did not start"),
        "outside": variables(None),
        "unknown": {},
    }
    assert node_updates(list(hosts), hosts, "pause") == [
        {"id": "n1", "availability": "pause", "remember": True},
        {"id": "n2", "availability": "pause", "remember": True},
    ]
    assert node_updates(list(hosts), hosts, "former", labels=True) == [
        {"id": "n1", "availability": "former", "remember": False, "labels": LABELS},
        {"id": "n2", "availability": "former", "remember": False},
    ]
    assert node_updates(list(hosts), hosts, labels=True) == [{"id": "n1", "labels": LABELS}]
    assert node_updates([], hosts, "pause") == []


WAITING = {"gpu_swarm_plan": {"steps": {"a": {"waits_for": ["x"]}}}}
HOPELESS = {"gpu_swarm_plan": {"steps": {"a": {"error": "x"}}}}


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
        (variables(**WAITING), [], True),
        (variables(**HOPELESS), [], True),
        (variables(gpu_swarm_plan={"steps": {}}), [], False),
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
        ({}, {}, None),
    ],
)
def test_difference(wanted, there, told):
    assert difference(wanted, {"resources": there}) == told


def test_a_step_travels_as_plain_data():
    assert Step(**vars(Step(needs=["join"], error=None))) == Step(needs=["join"])
