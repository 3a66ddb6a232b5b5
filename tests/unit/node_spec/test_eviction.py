# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from swarm_api import A, discrete, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.leader import leader_engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec.eviction import broken, evictions


@pytest.mark.parametrize(
    ("constraint", "labels", "holds"),
    [
        ("node.labels.gpu.model==T4", {"gpu.model": "T4"}, True),
        ("node.labels.gpu.model == t4 ", {"gpu.model": "T4"}, True),
        ("node.labels.gpu.model==T4", {"gpu.Model": "T4"}, False),
        ("node.labels.gpu.model==T4", {}, False),
        ("node.labels.gpu.model!=T4", {}, True),
        ("node.labels.gpu.model!=T4", {"gpu.model": "T4"}, False),
        ("Node.Labels.gpu.model==T4", {"gpu.model": "H100"}, False),
        ("node.role==manager", {}, True),
        ("engine.labels.x==y", {}, True),
        ("node.labels.a", {}, True),
    ],
)
def test_constraints_on_node_labels_are_read_like_swarmkit_does(constraint, labels, holds):
    assert broken([constraint], labels) == (None if holds else constraint)


def test_the_first_broken_constraint_is_reported():
    constraints = ["node.role==worker", "node.labels.a==1", "node.labels.b==1"]
    assert broken(constraints, {"a": "1"}) == "node.labels.b==1"
    assert broken(None, {}) is None


def change(labels_before, labels_after, availability_before="active", availability_after="active", changed=True):
    return {
        "id": "n1",
        "hostname": "host-n1",
        "changed": changed,
        "before": {"Labels": labels_before, "Availability": availability_before},
        "after": {"Labels": labels_after, "Availability": availability_after},
    }


def verdicts(made, tasks=None, services=None, engine="26.1.5"):
    tasks = tasks or [task("t1")]
    services = [service(constraints=["node.labels.m==T4"])] if services is None else services
    (found,) = evictions([made], engine, Listed((), tasks, services))
    return [(item["task"], item["reason"], item["constraint"], item["deferred"]) for item in found]


T4, H100 = {"m": "T4"}, {"m": "H100"}
GONE = ("t1", "constraint", "node.labels.m==T4", False)
LATER = ("t1", "constraint", "node.labels.m==T4", True)
DRAINED = ("t1", "drain", None, False)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (change(T4, T4), []),
        (change(T4, H100), [GONE]),
        (change(T4, {}), [GONE]),
        (change(H100, T4), []),
        (change(H100, {}), []),
        (change(T4, H100, changed=False), []),
        (change(T4, H100, "pause", "pause"), [LATER]),
        (change(T4, H100, "active", "pause"), [LATER]),
        (change(H100, H100, "pause", "active"), [GONE]),
        (change(H100, {}, "pause", "pause"), []),
        (change(T4, T4, "active", "drain"), [DRAINED]),
        (change(T4, H100, "active", "drain"), [DRAINED]),
        (change(T4, H100, "drain", "drain"), []),
        (change(T4, T4, "drain", "active"), []),
    ],
    ids=[
        "same",
        "other value",
        "label away",
        "comes true",
        "was broken before",
        "not written",
        "paused: later",
        "pausing: later",
        "active again with a broken one",
        "paused, broken before",
        "drain",
        "drain and label",
        "drained already",
        "drain ends",
    ],
)
def test_these_tasks_are_evicted(made, expected):
    assert verdicts(made) == expected


@pytest.mark.parametrize(
    "gone",
    [
        task("t1", node_id="n2"),
        task("t1", node_id=None, state="pending"),
        task("t1", desired="shutdown"),
        task("t1", state="complete", desired="complete"),
        task("t1", state="failed"),
    ],
    ids=["elsewhere", "nowhere", "shutting down", "finished job", "failed"],
)
def test_tasks_without_a_node_cannot_be_evicted(gone):
    assert verdicts(change(T4, H100), [gone]) == []


@pytest.mark.parametrize("mode", ["ReplicatedJob", "GlobalJob"])
def test_a_drain_does_not_stop_jobs_but_a_constraint_does(mode):
    services = [service(mode=mode, constraints=["node.labels.m==T4"])]
    job = [task("t1", desired="complete")]
    assert verdicts(change(T4, T4, "active", "drain"), job, services) == []
    assert verdicts(change(T4, H100), job, services) == [GONE]


def test_constraints_of_the_service_count_and_not_those_of_tasks():
    tasks = [task("t1", constraints=["node.labels.m==T4"])]
    assert verdicts(change(T4, H100), tasks, [service()]) == []
    assert verdicts(change(T4, H100), tasks, []) == [GONE]


@pytest.mark.parametrize(
    ("engine", "holds", "rejected"),
    [
        ("20.10.24+dfsg1", named(A), True),
        ("23.0.1", named(A), True),
        ("23.0.2", named(A), False),
        ("26.1.5+dfsg1", named(A), False),
        ("20.10.24", discrete(3), False),
        ("23.0.2", discrete(3), True),
        ("25.0.3", discrete(3), False),
        ("20.10.24", [], False),
        ("library-import", named(A), False),
    ],
)
def test_old_leaders_reject_holders_at_any_update(engine, holds, rejected):
    expected = [("t1", "engine", None, False)] if rejected else []
    assert verdicts(change({}, {"x": "1"}), [task("t1", given=holds)], [service()], engine) == expected


def test_old_leaders_leave_nodes_alone_that_are_not_active():
    tasks = [task("t1", given=named(A))]
    assert verdicts(change({}, {"x": "1"}, "pause", "pause"), tasks, [service()], "20.10.24") == []


def test_the_version_of_the_leader_counts():
    assert leader_engine([node(engine="20.10.24"), node("n2", leader=True)]) == "26.1.5+dfsg1"
    assert leader_engine([node()]) is None


def test_a_record_names_service_task_and_node():
    found = evictions([change(T4, H100)], None, Listed((), [task("t1", slot=None)], [service(constraints=["node.labels.m==T4"])]))
    assert found == [
        [
            {
                "service": "train",
                "task": "t1",
                "slot": None,
                "node": "n1",
                "hostname": "host-n1",
                "reason": "constraint",
                "constraint": "node.labels.m==T4",
                "deferred": False,
                "movable": True,
                "kept": None,
                "restarts_left": None,
            }
        ]
    ]


def test_several_changes_of_one_node_are_distinguished():
    changes = [change(T4, H100), change(T4, T4), change(T4, T4, "active", "drain")]
    found = evictions(changes, "26.1.5", Listed((), iter([task("t1"), task("t2", restart="none")]), [service(constraints=["node.labels.m==T4"])]))
    assert [[(item["task"], item["reason"], item["movable"]) for item in records] for records in found] == [
        [("t1", "constraint", True), ("t2", "constraint", False)],
        [],
        [("t1", "drain", True), ("t2", "drain", False)],
    ]
