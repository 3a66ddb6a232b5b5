# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import LABELS, assessed, ledger, member, planned, task
from node_lab import resources

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.manager_updates import (
    availability_updates,
    fault_updates,
    label_updates,
    not_converged,
)
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import member_of, view

RECORD = "gpu-swarm.labels"
FAILED = {"state": "failed", "reason": "dockerd did not start"}
UNTOUCHED = {"state": "untouched", "reason": "x"}


OF_A = {"id": "n1", "host": "a", "labels": LABELS, "mark": "set"}


def variables(node_id="n1", **other):
    return dict({"gpu_node_assessed": assessed(node_id)}, **other)


def node_id_of(facts):
    return member_of("a", facts).node_id


def test_the_node_id_from_joining_overrides_the_one_found():
    assert node_id_of(variables()) == "n1"
    assert node_id_of(variables(swarm_member_state={"node_id": "n2"})) == "n2"
    assert node_id_of(variables(swarm_member_state={"node_id": None})) == "n1"
    assert node_id_of(variables(swarm_member_state={"state": "inactive", "node_id": ""})) is None
    assert node_id_of({}) is None
    assert node_id_of({"gpu_node_assessed": {"failed": True}}) is None
    assert node_id_of({"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n3"}}}) == "n3"


def test_applied_values_override_found_ones():
    assert member_of("a", variables()).decided["resources"] == resources(0, 1)
    assert member_of("a", variables(gpu_node_applied={"resources": []})).decided == {"resources": []}
    assert member_of("a", {}).decided == {}


def test_without_a_plan_for_a_host_anything_may_be_stopped_there():
    known = member_of("a", planned("a", error="x"))
    assert (known.planned, known.step.error) == (True, "x")
    for facts in (planned("b", error="x"), {}):
        unplanned = member_of("a", facts)
        assert (unplanned.planned, unplanned.step.error, unplanned.step.work.stops) == (False, None, "containers")


HOSTS = {
    "a": variables("n1"),
    "b": variables("n2", gpu_node_applied={"labels": {"x": "1"}, "labels_unknown": ["cpu."]}),
    "no answer": {"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n3"}}},
    "failed": variables("n4", gpu_swarm_outcome=FAILED),
    "untouched": variables("n5", gpu_swarm_outcome=UNTOUCHED),
    "waiting": variables("n6", gpu_swarm_outcome={"state": "waiting", "reason": "container x"}),
    "lost": variables("n7", gpu_swarm_outcome={"state": "lost", "reason": "x"}),
    "outside": variables(None),
    "unknown": {},
}


def test_healthy_hosts_are_paused():
    assert availability_updates(view(HOSTS, HOSTS), "pause") == [
        {"id": node_id, "host": name, "availability": "pause", "remember": True} for node_id, name in (("n1", "a"), ("n2", "b"), ("n3", "no answer"))
    ]
    assert availability_updates(view([], HOSTS), "pause") == []


def test_only_hosts_with_tasks_are_drained():
    book = ledger(member("n1"), member("n2", tasks=[task("t", "s")]), member("n4", tasks=[task("u", "s")]))
    assert availability_updates(view(HOSTS, HOSTS, book), "drain") == [{"id": "n2", "host": "b", "availability": "drain", "remember": True}]
    assert availability_updates(view(HOSTS, HOSTS), "drain") == []


def test_hosts_return_to_service_with_their_labels_but_not_those_that_wait_or_are_lost():
    back = {"availability": "former", "remember": False}
    assert availability_updates(view(HOSTS, HOSTS), "former") == [
        {"id": "n1", "host": "a", **back, "labels": LABELS, "mark": "set"},
        {"id": "n2", "host": "b", **back, "labels": {"x": "1"}, "mark": "set", "keep": ["cpu."]},
        {"id": "n3", "host": "no answer", **back},
        {"id": "n4", "host": "failed", **back},
        {"id": "n5", "host": "untouched", **back},
    ]
    gone = {"nodes": [{"id": "another"}]}
    assert availability_updates(view(HOSTS, HOSTS, gone), "former") == []  # meanwhile the nodes were removed from the swarm
    assert all("labels" not in update for update in availability_updates(view(HOSTS, HOSTS), "former", labels=False))


def test_at_the_end_only_paused_hosts_return_to_service():
    book = {"nodes": [{"id": "n1", "former_availability": "active"}, {"id": "n2", "former_availability": None}]}
    back = {"id": "n1", "host": "a", "availability": "former", "remember": False}
    assert availability_updates(view(HOSTS, HOSTS, book), "former", labels=False) == [back]


FAULT = "fault reason=mismatch"


@pytest.mark.parametrize(
    ("step", "found", "back"),
    [
        ({"fault": FAULT, "pauses": True}, {"gpu_node_applied": {"fault": FAULT}}, None),
        ({"fault": FAULT}, {}, FAULT),
        # A fault that appeared in the window.
        ({}, {"gpu_node_applied": {"fault": FAULT}}, None),
        # A person, an earlier run or a manager had paused the node.
        ({"paused_for": "fault reason=hang", "fault": FAULT}, {}, "fault reason=hang"),
        # The node was in service with this fault when the run began. It must not be paused, by a decision of the user or by the limit.
        ({"fault": FAULT, "left_in_service": True}, {"gpu_node_applied": {"fault": FAULT}}, FAULT),
        ({"fault": FAULT + " since=5", "left_in_service": True}, {"gpu_node_applied": {"fault": FAULT + " since=6"}}, FAULT + " since=5"),
        ({"fault": FAULT, "left_in_service": True}, {"gpu_node_applied": {"fault": "fault reason=hang"}}, None),
        ({"settings": {"gpu_node_on_loss": "report"}, "paused_for": FAULT}, {"gpu_node_applied": {"fault": FAULT}}, FAULT),
    ],
)
def test_a_node_returns_when_its_fault_has_ended(step, found, back):
    hosts = {"a": variables(**planned("a", node_id="n1", **step), **found)}
    updates = availability_updates(view(["a"], hosts), "former")
    assert [update["paused_for"] for update in updates] == ([back] if back else [])


@pytest.mark.parametrize(
    ("shown", "fault", "over"),
    [(FAULT + " since=5 drift=0a1b2c3d", None, FAULT + " since=5"), (FAULT, FAULT, None), ("ok", None, None), (None, None, None)],
)
def test_a_node_may_return_while_it_still_reports_an_ended_fault(shown, fault, over):
    found = {"fault": fault, "health": {"shown": shown}}
    settings = {"gpu_node_on_loss": "report"}
    hosts = {"a": variables(**planned("a", node_id="n1", settings=settings), gpu_node_applied=found)}
    [update] = availability_updates(view(["a"], hosts), "former")
    assert update.get("over") == over
    [update] = availability_updates(view(["a"], hosts), "pause")
    assert "over" not in update


def test_a_host_is_paused_for_its_fault_even_without_an_assessment():
    hosts = {"a": {"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n1"}}, **planned("a", node_id="n1")}, "b": planned("b", node_id=None)}
    assert fault_updates({"a": FAULT, "b": FAULT}, view({"a": FAULT, "b": FAULT}, hosts)) == [
        {"id": "n1", "host": "a", "availability": "pause", "remember": True, "paused_for": FAULT}
    ]


def test_a_node_that_was_removed_from_the_list_does_not_count():
    hosts = {name: {"gpu_node_assessed": {"failed": True}, **planned(name, node_id=node_id)} for name, node_id in (("a", "n1"), ("b", "n2"))}
    assert [update["id"] for update in fault_updates({"a": FAULT, "b": FAULT}, view({"a": FAULT, "b": FAULT}, hosts, ledger(member("n2"))))] == ["n2"]


@pytest.mark.parametrize(
    ("left_paused", "state", "back"), [(False, "failed", 1), (True, "failed", 0), (True, "out", 0), (True, "untouched", 1), (True, None, 1)]
)
def test_a_paused_node_that_this_run_could_not_change_stays_paused(left_paused, state, back):
    outcome = {"gpu_swarm_outcome": {"state": state, "reason": "x"}} if state else {}
    hosts = {"a": variables(**planned("a", left_paused=left_paused, node_id="n1"), **outcome)}
    assert len(availability_updates(view(["a"], hosts), "former")) == back


@pytest.mark.parametrize(("leave_paused", "back"), [(False, 1), (True, 0)])
def test_a_node_that_another_run_may_have_paused_stays_paused(leave_paused, back):
    outcome = {"gpu_swarm_outcome": {"state": "untouched", "reason": "x", "leave_paused": leave_paused}}
    hosts = {"a": variables("n1", gpu_swarm_lease={"acquired": True}, **planned("a", node_id="n1"), **outcome)}
    assert len(availability_updates(view(["a"], hosts), "former")) == back


def test_a_node_that_another_run_paused_does_not_return_to_service():
    hosts = {
        "its_own": variables("n1", gpu_swarm_lease={"acquired": True}),
        "who knows": variables("n2", gpu_swarm_lease={"failed": True}, gpu_swarm_outcome=UNTOUCHED),
        "theirs": variables("n3", gpu_swarm_lease={"acquired": False, "holder": "bob"}, gpu_swarm_outcome=UNTOUCHED),
    }
    assert [update["id"] for update in availability_updates(view(hosts, hosts), "former")] == ["n1"]


@pytest.mark.parametrize(
    ("host", "drained"),
    [
        (variables(), True),
        (variables(**planned("a", stops="nothing")), False),
        (variables(**planned("a", stops="tasks")), True),
        ({"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n1"}}}, False),
        ({"gpu_node_assessed": assessed("n1", containers=[("x", None)])}, False),
        ({"gpu_node_assessed": assessed("n1", containers=[("x", None)]), **planned("a", disrupt="all")}, True),
    ],
)
def test_only_nodes_with_stoppable_tasks_are_drained(host, drained):
    book = ledger(member("n1", tasks=[task("t", "s")]))
    assert bool(availability_updates(view(["a"], {"a": host}, book), "drain")) is drained
    # A drain would end the task j for good.
    book = ledger(member("n1", tasks=[task("t", "s"), task("j", "job", movable=False)]))
    assert bool(availability_updates(view(["a"], {"a": host}, book), "drain")) is (member_of("a", host).step.work.disrupt == "all")


def test_a_container_that_was_waited_for_keeps_no_task_from_being_drained():
    book = ledger(member("n1", tasks=[task("t", "s")]))
    host = {"gpu_node_assessed": assessed("n1", containers=[("by-hand", None)])}
    assert availability_updates(view(["a"], {"a": host}, book), "drain") == []
    # The wait for the container has read the node again.
    waited = {**host, "gpu_swarm_inspected": {"containers": [{"name": "t", "service": "s", "task": "t"}]}}
    assert len(availability_updates(view(["a"], {"a": waited}, book), "drain")) == 1
    assert availability_updates(view(["a"], {"a": {**host, "gpu_swarm_inspected": {"skipped": True}}}, book), "drain") == []


@pytest.mark.parametrize(("disrupt", "evict"), [("never", "none"), ("services", "movable"), ("all", "any")])
def test_an_update_names_what_it_may_evict(disrupt, evict):
    hosts = {"a": variables(**planned("a", disrupt=disrupt))}
    book = ledger(member("n1", labels={}, bound=False, tasks=[task("t", "s")]))
    assert [update["evict"] for update in label_updates(view(hosts, hosts))] == [evict]
    assert [update["evict"] for update in label_updates(view(hosts, hosts, book))] == [evict]
    assert [update["evict"] for update in availability_updates(view(hosts, hosts), "former")] == [evict]
    assert [update["evict"] for update in availability_updates(view(hosts, hosts, book), "drain")] == ([evict] if disrupt != "never" else [])
    assert "evict" not in availability_updates(view(hosts, hosts), "pause")[0]
    # Before a plan exists, the run only reads possible evictions and writes nothing.
    assert "evict" not in label_updates(view(["b"], {"b": variables()}))[0]


def test_a_skipped_host_gets_no_labels_with_its_availability():
    for step in ({"left_alone": True}, {"error": "a clash"}):
        (update,) = availability_updates(view(["a"], {"a": variables(**planned("a", **step))}), "former")
        assert "labels" not in update


def test_a_manager_that_its_peers_do_not_reach_yet_is_waited_for():
    nodes = ["NVIDIA-GPU=" + uuid for uuid in member("n1")["resources"]["NVIDIA-GPU"]["values"]]
    host = {"a": {"gpu_node_assessed": {**assessed("n1"), "resources": nodes}}}
    assert not_converged(view(["a"], host, ledger(member("n1", role="manager")))) == []
    assert not_converged(view(["a"], host, ledger(member("n1", role="manager", reachability="unreachable")))) == ["a"]


def test_every_member_on_which_nothing_failed_is_labelled():
    hosts = {
        "gpu": variables("n1"),
        "changed": variables("n2", gpu_node_applied={"labels": {"gpu.count": "1"}}),
        "none": {"gpu_node_assessed": assessed("n3", gpus=0)},
        "failed": variables("n4", gpu_swarm_outcome=FAILED),
        "outside": variables(None),
        "joined": variables(None, swarm_member_state={"node_id": "n5"}),
        "undecided": {"gpu_node_assessed": {"failed": True, "swarm": {"node_id": "n6"}}},
        "unknown": {},
    }
    assert label_updates(view(hosts, hosts)) == [
        {"id": "n1", "host": "gpu", "labels": LABELS, "mark": "set"},
        {"id": "n2", "host": "changed", "labels": {"gpu.count": "1"}, "mark": "set"},
        {"id": "n3", "host": "none", "labels": {}, "mark": "set"},
        {"id": "n5", "host": "joined", "labels": LABELS, "mark": "set"},
    ]


def test_labels_of_a_plan_go_before_what_was_decided():
    a = {"id": "n1", "host": "a"}
    leaves, remains = planned("a", labels={"leaving": "a"}, mark="keep"), planned("a", labels={}, mark="remove")
    evict = {"evict": "movable"}
    assert label_updates(view(["a"], {"a": variables(**leaves)})) == [{**a, "labels": {"leaving": "a"}, "mark": "keep", **evict}]
    assert label_updates(view(["a"], {"a": variables(**remains)})) == [{**a, "labels": {}, "mark": "remove", **evict}]
    left = variables(swarm_member_state={"state": "inactive"}, **planned("a", labels={}))
    assert label_updates(view(["a"], {"a": left})) == availability_updates(view(["a"], {"a": left}), "former") == []


@pytest.mark.parametrize(
    ("nodes", "returned"),
    [
        ([member(bound="a")], False),
        ([member(bound=None)], True),  # the only update is the binding to its host
        ([member(bound="b")], False),  # a node of another host, which the plan reports
        ([member(labels={}, bound="a")], True),
        ([member(labels=dict(LABELS, **{"gpu.count": "3", RECORD: "gpu.count,gpu.model"}), bound="a")], True),
        ([member(labels=LABELS, bound="a")], False),  # another owner's label with the wanted value
        ([member(labels={"gpu.count": "3"}, bound="a")], False),  # a conflict, which the plan reports
        ([member("other", labels={})], False),
        ([], False),
    ],
)
def test_with_a_ledger_only_labels_that_differ_are_returned(nodes, returned):
    assert label_updates(view(["a"], {"a": variables()}, ledger(*nodes))) == ([OF_A] if returned else [])


def test_a_conflict_is_returned_if_its_error_is_wanted():
    clash = ledger(member(labels={"gpu.count": "3"}, bound="a"))
    assert label_updates(view(["a"], {"a": variables()}, clash), clashes=True) == [OF_A]
    assert label_updates(view(["a"], {"a": variables()}, ledger(member(bound="a"))), clashes=True) == []


def test_unreadable_labels_stay():
    answer = assessed(labels={"gpu.y": "1"}, labels_unknown=["cpu."])
    there = {"cpu.x": "1", "gpu.y": "1", RECORD: "cpu.x,gpu.y"}
    hosts = {"a": {"gpu_node_assessed": answer}}
    assert label_updates(view(["a"], hosts)) == [{**OF_A, "labels": {"gpu.y": "1"}, "keep": ["cpu."]}]
    assert label_updates(view(["a"], hosts, ledger(member(labels=there, bound="a")))) == []


def test_a_node_that_joined_in_this_run_gets_the_labels_of_the_address_that_the_manager_shows():
    data = {"gpu-swarm.data-address": "10.0.0.5", "gpu-swarm.data-interface": "ib0"}
    answer = assessed(labels={"gpu.y": "1"}, labels_unknown=["gpu-swarm.data-"], labels_by_address={"10.0.0.5": data})
    hosts = {"a": {"gpu_node_assessed": answer}}
    for address, labels, keep in (("10.0.0.5", {"gpu.y": "1", **data}, {}), ("10.9.9.9", {"gpu.y": "1"}, {"keep": ["gpu-swarm.data-"]})):
        shown = ledger(dict(member(labels={}, bound="a"), addr=address))
        assert label_updates(view(["a"], hosts, shown)) == [{**OF_A, "labels": labels, **keep}]


def test_the_labels_of_a_host_that_left_gpu_nodes_are_removed():
    hosts = {"a": {"gpu_node_assessed": assessed(gpus=0)}}
    assert label_updates(view(["a"], hosts, ledger(member(bound="a")))) == [{**OF_A, "labels": {}}]
    assert label_updates(view(["a"], hosts, ledger(member(labels={"gpu.count": "2"}, bound="a")))) == []  # never a label of this collection


def test_hosts_that_show_one_id_are_not_labelled_and_the_others_are():
    hosts = {"a": variables("n1"), "b": variables("n1"), "c": variables("n2")}
    assert [update["host"] for update in label_updates(view(hosts, hosts, ledger(member(bound=None), member("n2", bound=None))))] == ["c"]


def test_a_host_keeps_the_node_that_the_plan_found():
    showing = variables("n9", swarm_member_state={"state": "active", "node_id": "n8"})
    member_of_plan, joined = planned("a", node_id="n1"), planned("a", node_id=None)
    assert [node_id_of({**showing, **plan}) for plan in (member_of_plan, joined, {})] == ["n1", "n8", "n8"]
    assert node_id_of({**variables("n9"), **joined}) is None  # the host was no member when the plan was made, and has not joined after that
    seen = view(["a"], {"a": {**showing, **member_of_plan}})
    for updates in (label_updates(seen), availability_updates(seen, "pause")):
        assert [update["id"] for update in updates] == ["n1"]


@pytest.mark.parametrize(
    ("values", "nodes", "shown"),
    [
        (variables(), [member()], True),
        (variables(), [member(shown=(0,))], False),
        (variables(), [member(shown=())], False),
        (variables(), [member(state="down")], False),
        (variables(), [member("other")], False),
        (variables(), [], False),
        (variables(gpu_swarm_outcome=FAILED), [], True),
        (variables(**planned("a", waits_for=["x"], left_alone=True)), [], True),
        (variables(**planned("a", error="x")), [], True),
        (variables(**planned("b", error="x")), [], False),
    ],
)
def test_hosts_that_did_not_converge_are_found(values, nodes, shown):
    assert not_converged(view(["a"], {"a": values}, ledger(*nodes))) == ([] if shown else ["a"])
    if not nodes:
        assert not_converged(view(["a"], {"a": values})) == ([] if shown else ["a"])


@pytest.mark.parametrize(
    ("needs", "settings", "applied", "outcome", "noted"),
    [
        (["maintain"], {"maintain_id": "x"}, {"changed": False}, {}, "x"),
        (["maintain"], {"maintain_id": ""}, {"changed": False}, {}, None),
        (["restart"], {"maintain_id": "x"}, {"changed": False}, {}, None),  # a run of provision
        (["maintain"], {"maintain_id": "x"}, {}, {}, None),  # the batch of the host has not started
        (["maintain"], {"maintain_id": "x"}, {"changed": False}, {"state": "failed", "reason": "why"}, None),
    ],
)
def test_a_finished_maintenance_is_recorded(needs, settings, applied, outcome, noted):
    plan = planned("g1", needs=needs, settings=settings)
    found = {"gpu_node_assessed": {"labels": {}}, "gpu_node_applied": applied, "gpu_swarm_outcome": outcome}
    (update,) = availability_updates(view(["g1"], {"g1": {**plan, **found}}), "former")
    assert update.get("maintained") == noted
    # The same holds at the end of a run, when labels are written separately.
    (update,) = availability_updates(view(["g1"], {"g1": {**plan, **found}}), "former", labels=False)
    assert (update.get("maintained"), "labels" in update) == (noted, False)


WISH = '{"gpu.class.h100-12345678":{"wants":{"model":"*h100*"}}}'


def test_labels_of_classes_are_written_with_the_others():
    hosts = {"a": variables(**planned("a", node_id="n1"))}
    labels = {**LABELS, "gpu.class.h100-12345678": "true"}
    (update,) = availability_updates(view(["a"], hosts, {**ledger(member()), "classes": [WISH]}), "former")
    assert update["labels"] == labels
    assert label_updates(view(["a"], hosts, {**ledger(member(bound="a")), "classes": [WISH]})) == [{**OF_A, "labels": labels, "evict": "movable"}]
    (update,) = availability_updates(view(["a"], hosts, {"msg": "no answer"}), "former")
    assert (update["labels"], update["keep"]) == (LABELS, ["gpu.class."])
