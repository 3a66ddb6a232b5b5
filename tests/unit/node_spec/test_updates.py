# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json

import pytest
from swarm_api import cluster, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec import updates
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node_spec import write as module
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.lease import Leased
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.manager import OutOfSequence, SwarmError

PREFIX = "gpu-swarm."
RECORD = "gpu-swarm.labels"
MARK = "gpu-swarm.former-availability"
SINCE = "gpu-swarm.paused-since"
BY = "gpu-swarm.paused-by"


def want(node_id="n1", labels=None, availability=None, remember=False):
    return {"id": node_id, "labels": labels, "availability": availability, "remember": remember}


class FakeManager:
    """A store with versions, like a manager's. `interfere` runs right before an update reaches the store."""

    time = None
    cluster_fails = False

    def __init__(self, *nodes, interfere=None, tasks=None, lease=None):
        self.lease = lease
        self.there = [task("t1")] if tasks is None else tasks
        self.store = {item["ID"]: copy.deepcopy(item) for item in nodes}
        self.interfere = interfere or (lambda store: None)
        self.updates = []

    def cluster(self):
        return cluster({"gpu-swarm.lease": json.dumps(self.lease)} if self.lease else {}), "2026-11-21T02:10:00Z"

    def update_cluster(self, version, spec):
        if self.cluster_fails:
            raise SwarmError("no quorum")
        self.updates.append(spec["Labels"])

    def nodes(self):
        return copy.deepcopy(list(self.store.values()))

    def node(self, node_id):
        return copy.deepcopy(self.store[node_id])

    def tasks(self):
        return iter(self.there)

    def services(self):
        return [service(constraints=["node.labels.m==T4"])]

    def update_node(self, node_id, version, spec):
        self.interfere(self.store)
        if self.store[node_id]["Version"]["Index"] != version:
            raise OutOfSequence("changed meanwhile")
        self.store[node_id]["Spec"] = copy.deepcopy(spec)
        self.store[node_id]["Version"]["Index"] += 1
        self.updates.append(node_id)


def run(manager, *wants, check_mode=False, monkeypatch, holder=None, keep_label="gpu-swarm.keep", **of_release):
    monkeypatch.setattr(module, "connect", lambda params: manager)
    options = {"release": None, "outcomes": None, "always": False, "isolation": None, "queues": None, **of_release}
    return module.write({"nodes": list(wants), "prefix": PREFIX, "holder": holder, "keep_label": keep_label, **options}, check_mode)


LEASE = {"holder": "run 1", "since": "2026-11-21T01:00:00Z", "until": "2026-11-21T03:00:00Z"}


@pytest.mark.parametrize("lease", [None, {**LEASE, "holder": "run 2"}])
def test_without_the_lease_of_its_run_nothing_is_written(lease, monkeypatch):
    manager = FakeManager(node(), lease=lease)
    with pytest.raises(SwarmError, match="run 1 no longer has the lease of this swarm: (nobody|run 2) has it now"):
        run(manager, want(availability="pause"), monkeypatch=monkeypatch, holder="run 1")
    assert manager.updates == []


@pytest.mark.parametrize("until", [LEASE["until"], "2026-11-21T02:00:00Z"])
def test_a_lease_that_no_one_else_took_still_belongs_to_its_run(until, monkeypatch):
    manager = FakeManager(node(), lease={**LEASE, "until": until})
    assert run(manager, want(availability="pause"), monkeypatch=monkeypatch, holder="run 1")["changed"]


def test_a_lease_lost_between_two_nodes_is_noticed(monkeypatch):
    manager = FakeManager(node("n1"), node("n2"), lease=LEASE)
    monkeypatch.setattr(Leased, "CHECK_AGAIN_S", 0.0)
    manager.interfere = lambda store: setattr(manager, "lease", None)
    with pytest.raises(SwarmError, match="nobody has it"):
        run(manager, want("n1", availability="pause"), want("n2", availability="pause"), monkeypatch=monkeypatch, holder="run 1")
    assert manager.updates == ["n1"]


@pytest.mark.parametrize(("wanted", "changed"), [({"role": "manager"}, True), ({"role": "worker"}, False), ({"role": None}, False), ({}, False)])
def test_a_role_is_changed(wanted, changed, monkeypatch):
    manager = FakeManager(node())
    result = run(manager, {**want("n1"), **wanted}, monkeypatch=monkeypatch)
    assert result["changed"] is changed
    assert manager.updates == (["n1"] if changed else [])
    assert manager.store["n1"]["Spec"] == {**node()["Spec"], "Role": "manager" if changed else "worker"}
    assert (result["nodes"][0]["role_before"], result["nodes"][0]["role"]) == ("worker", "manager" if changed else "worker")


@pytest.mark.parametrize(
    ("labels", "availability", "wanted", "labels_after", "availability_after"),
    [
        ({}, "active", want(), {}, "active"),
        ({}, "active", want(labels={"m": "T4"}), {"m": "T4", RECORD: "m"}, "active"),
        ({"m": "T4", RECORD: "m"}, "active", want(labels={}), {}, "active"),
        ({"m": "T4", RECORD: "m"}, "active", want(availability="pause"), {"m": "T4", RECORD: "m"}, "pause"),
        ({}, "active", want(availability="pause", remember=True), {MARK: "active"}, "pause"),
        ({}, "drain", want(availability="pause", remember=True), {MARK: "drain"}, "pause"),
        ({}, "pause", want(availability="pause", remember=True), {MARK: "pause"}, "pause"),
        ({}, "active", want(availability="drain", remember=True), {MARK: "active/drain"}, "drain"),
        ({}, "drain", want(availability="drain", remember=True), {MARK: "drain/drain"}, "drain"),
        # A killed run left its mark. The former state must still be restored,
        ({MARK: "active"}, "pause", want(availability="pause", remember=True), {MARK: "active"}, "pause"),
        ({MARK: "active"}, "pause", want(availability="drain", remember=True), {MARK: "active/drain"}, "drain"),
        ({MARK: "active/drain"}, "drain", want(availability="pause", remember=True), {MARK: "active"}, "pause"),
        # unless someone has changed the availability after that run.
        ({MARK: "active"}, "drain", want(availability="pause", remember=True), {MARK: "drain"}, "pause"),
        ({MARK: "drain"}, "active", want(availability="drain", remember=True), {MARK: "active/drain"}, "drain"),
        ({MARK: "active"}, "pause", want(availability="drain"), {MARK: "active"}, "drain"),
        ({MARK: "active"}, "pause", want(labels={"m": "1"}), {MARK: "active", "m": "1", RECORD: "m"}, "pause"),
        ({MARK: "active"}, "pause", want(availability="former"), {}, "active"),
        ({MARK: "drain"}, "pause", want(availability="former"), {}, "drain"),
        ({MARK: "active/drain"}, "drain", want(availability="former"), {}, "active"),
        ({MARK: "pause/drain"}, "drain", want(availability="former"), {}, "pause"),
        # Someone has changed the availability after that run: it is not changed back.
        ({MARK: "active"}, "drain", want(availability="former"), {}, "drain"),
        ({MARK: "drain"}, "active", want(availability="former"), {}, "active"),
        ({MARK: "active/drain"}, "pause", want(availability="former"), {}, "pause"),
        ({}, "pause", want(availability="former"), {}, "pause"),
        ({}, "drain", want(availability="former"), {}, "drain"),
        ({MARK: "active", "m": "1"}, "pause", want(labels={"m": "1"}, availability="former"), {"m": "1"}, "active"),
    ],
)
def test_the_change_of_a_node_is_planned(labels, availability, wanted, labels_after, availability_after):
    change = updates.plan_one(node(labels=labels, availability=availability), wanted, PREFIX)
    assert change["problems"] == []
    assert change["after"] == {"Labels": labels_after, "Role": "worker", "Availability": availability_after}
    assert change["changed"] == ((labels, availability) != (labels_after, availability_after))
    again = updates.plan_one({**node(), "Spec": change["after"]}, wanted, PREFIX)
    assert not again["changed"]


@pytest.mark.parametrize(
    ("value", "mark"),
    [
        (None, (None, "pause")),
        ("active", ("active", "pause")),
        ("active/drain", ("active", "drain")),
        ("drain/drain", ("drain", "drain")),
        ("active/", ("active", "pause")),
    ],
)
def test_a_mark_is_read(value, mark):
    assert updates.read_mark(value) == mark


THEN, LATER = "2026-11-20T09:00:00Z", "2026-11-20T10:00:00Z"


@pytest.mark.parametrize(
    ("labels", "availability", "wanted", "since"),
    [
        ({}, "active", want(availability="pause", remember=True), LATER),
        ({}, "active", want(availability="pause"), None),
        # A run continues the pause of another run, and a run drains a node that it paused.
        ({MARK: "active", SINCE: THEN}, "pause", want(availability="pause", remember=True), THEN),
        ({MARK: "active", SINCE: THEN}, "pause", want(availability="drain", remember=True), THEN),
        # Someone has changed the availability after the pause.
        ({MARK: "active", SINCE: THEN}, "drain", want(availability="pause", remember=True), LATER),
        ({MARK: "active", SINCE: THEN}, "pause", want(availability="former"), None),
        ({MARK: "active", SINCE: THEN}, "drain", want(availability="former"), None),
    ],
)
def test_the_start_and_the_cause_of_a_pause_are_recorded(labels, availability, wanted, since):
    noted = {**labels, **({BY: "maintain"} if SINCE in labels else {})}
    change = updates.plan_one(node(labels=noted, availability=availability), {**wanted, "now": LATER, "by": "provision"}, PREFIX)
    after = change["after"]["Labels"]
    assert (after.get(SINCE), after.get(BY)) == (since, {THEN: "maintain", LATER: "provision"}.get(since))


def test_the_time_is_that_of_the_manager(monkeypatch):
    manager = FakeManager(node())
    manager.time = "2026-11-20T11:00:00.123456789+02:00"
    run(manager, want(availability="pause", remember=True), monkeypatch=monkeypatch)
    assert manager.store["n1"]["Spec"]["Labels"] == {MARK: "active", SINCE: THEN}


FAULT = "fault GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30 reason=lost since=1795380328"
PAUSED_FOR = "gpu-swarm.paused-for"
PAUSED = {MARK: "active", PAUSED_FOR: FAULT}


@pytest.mark.parametrize(
    ("labels", "availability", "wanted", "after", "becomes"),
    [
        ({}, "active", {"availability": "pause", "remember": True, "paused_for": FAULT}, PAUSED, "pause"),
        # An operator keeps work away from the node now.
        ({}, "pause", {"availability": "pause", "remember": True, "paused_for": FAULT}, {}, "pause"),
        ({}, "drain", {"availability": "pause", "remember": True, "paused_for": FAULT}, {}, "drain"),
        ({MARK: "active"}, "pause", {"availability": "pause", "remember": True, "paused_for": FAULT}, {MARK: "active"}, "pause"),
        # An operator returned the node to service, and a run now pauses it for another reason.
        (PAUSED, "active", {"availability": "pause", "remember": True}, {MARK: "active"}, "pause"),
        # A run pauses or drains the node, although the node is already paused for the fault.
        (PAUSED, "pause", {"availability": "pause", "remember": True}, PAUSED, "pause"),
        (PAUSED, "pause", {"availability": "drain", "remember": True}, {**PAUSED, MARK: "active/drain"}, "drain"),
        # Only a caller that knows the reason of the pause returns the node to service.
        (PAUSED, "pause", {"availability": "former", "paused_for": FAULT}, {}, "active"),
        (PAUSED, "pause", {"availability": "former"}, PAUSED, "pause"),
        (PAUSED, "pause", {"availability": "former", "paused_for": "fault reason=hang"}, PAUSED, "pause"),
        ({**PAUSED, MARK: "active/drain"}, "drain", {"availability": "former"}, {**PAUSED, MARK: "active/drain"}, "drain"),
        # An operator has changed the availability after the pause.
        (PAUSED, "drain", {"availability": "former"}, {}, "drain"),
        ({MARK: "drain", PAUSED_FOR: FAULT}, "active", {"availability": "former"}, {}, "active"),
        ({MARK: "active"}, "pause", {"availability": "former", "paused_for": FAULT}, {}, "active"),
    ],
)
def test_a_pause_for_a_fault_is_written(labels, availability, wanted, after, becomes):
    change = updates.plan_one(node(labels=labels, availability=availability), {**want(), **wanted}, PREFIX)
    assert (change["after"]["Labels"], change["after"]["Availability"]) == (after, becomes)


@pytest.mark.parametrize(
    ("noted", "reported", "left"),
    [
        (FAULT, FAULT, FAULT),
        ("fault GPU-5fa2e7a4-0b1e-4c53-9d1f-0c9a7d1e2f30 reason=lost", FAULT, FAULT),  # the node reports the start of the fault
        (FAULT, "ok", None),
        (FAULT, "fault reason=hang since=5", None),
        (FAULT, FAULT.replace("328", "999"), None),
    ],
)
def test_an_ended_fault_is_recorded_as_long_as_the_node_reports_it(noted, reported, left):
    one = node(labels={MARK: "active", PAUSED_FOR: noted}, availability="pause")
    one["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": reported}
    back = updates.plan_one(one, {**want(availability="former"), "paused_for": noted}, PREFIX)["after"]
    assert (back["Availability"], back["Labels"]) == ("active", {PAUSED_FOR: left} if left else {})
    gone = updates.plan_one(one, {**want(availability="former", labels={}), "paused_for": noted, "host": "a", "mark": "remove"}, PREFIX)["after"]
    assert gone["Labels"] == {}


@pytest.mark.parametrize("labels", [{}, {MARK: "active"}, {MARK: "active", PAUSED_FOR: FAULT.replace("328", "100")}])
@pytest.mark.parametrize(("over", "left"), [(FAULT, FAULT), (FAULT.replace("328", "999"), None), (None, None)])
def test_a_fault_that_the_assessment_found_ended_is_recorded_in_any_pause(labels, over, left):
    one = node(labels=labels, availability="pause" if labels else "active")
    one["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": FAULT}
    back = updates.plan_one(one, {**want(availability="former"), "paused_for": labels.get(PAUSED_FOR), "over": over}, PREFIX)["after"]
    assert (back["Availability"], back["Labels"]) == ("active", {PAUSED_FOR: left} if left else {})


@pytest.mark.parametrize(
    ("over", "becomes"),
    [
        (FAULT, "active"),  # the run found that the fault had ended
        (FAULT.replace("328", "999"), "pause"),  # the fault has come back after that
        (None, "pause"),
    ],
)
def test_a_node_that_was_paused_meanwhile_returns_if_that_fault_is_over(over, becomes):
    one = node(labels={MARK: "active", PAUSED_FOR: FAULT}, availability="pause")
    one["Description"]["Engine"]["Labels"] = {"fleet.gpu-swarm.health": FAULT}
    after = updates.plan_one(one, {**want(availability="former"), "over": over}, PREFIX)["after"]
    assert (after["Availability"], after["Labels"]) == (becomes, {PAUSED_FOR: FAULT, **({} if becomes == "active" else {MARK: "active"})})


@pytest.mark.parametrize("by_run", ["pause", "drain"])
@pytest.mark.parametrize("former", ["active", "pause", "drain"])
def test_a_pause_and_a_return_restore_the_node(former, by_run):
    paused = updates.plan_one(node(labels={"a": "b"}, availability=former), want(availability=by_run, remember=True), PREFIX)
    assert paused["after"]["Availability"] == by_run
    back = updates.plan_one({**node(), "Spec": paused["after"]}, want(availability="former"), PREFIX)
    assert back["after"] == paused["before"]


def test_an_invalid_mark_is_refused():
    with pytest.raises(SwarmError, match=r"gpu-swarm\.former-availability=up"):
        updates.plan([node(labels={MARK: "up"})], [want(availability="former")], PREFIX)


@pytest.mark.parametrize(
    ("wants", "prefix", "expected"),
    [
        ([want(), want()], PREFIX, "listed twice"),
        ([want(availability="former", remember=True)], PREFIX, "remember=true"),
        ([want(labels={"a b": "1"})], PREFIX, "'a b'"),
        ([want()], "", "prefix ''"),
        ([want()], "a,", "prefix 'a,'"),
    ],
)
def test_a_contradicting_request_is_refused(wants, prefix, expected):
    with pytest.raises(updates.SwarmError.__base__, match=expected):
        updates.check(wants, prefix)


def test_all_unknown_nodes_are_named(monkeypatch):
    manager = FakeManager(node())
    with pytest.raises(SwarmError, match=r"host-n1 \(that is a host name; its id is n1\), n9") as caught:
        run(manager, want("host-n1"), want("n9"), want(labels={"m": "1"}), monkeypatch=monkeypatch)
    assert caught.value.details == {"unknown": ["host-n1", "n9"]}
    assert manager.updates == []


def test_one_conflict_keeps_all_nodes_unchanged(monkeypatch):
    manager = FakeManager(node(), node("n2", labels={"m": "bob"}), node("n3", labels={"k": "eve"}))
    wants = [want(labels={"m": "T4"}), want("n2", labels={"m": "T4"}), want("n3", labels={"k": "T4"})]
    with pytest.raises(SwarmError) as caught:
        run(manager, *wants, monkeypatch=monkeypatch)
    assert "host-n2 (n2) has the label m=bob, which this collection did not set, so it is not changed to T4" in caught.value.message
    assert "host-n3 (n3) has the label k=eve" in caught.value.message
    assert manager.updates == []


@pytest.mark.parametrize("check_mode", [True, False])
def test_only_nodes_that_differ_are_written_and_none_in_check_mode(check_mode, monkeypatch):
    manager = FakeManager(node(labels={"m": "T4", RECORD: "m"}), node("n2"), node("n3"))
    wants = [want(labels={"m": "H100"}), want("n2", labels={"m": "T4"}), want("n3", labels={})]
    result = run(manager, *wants, check_mode=check_mode, monkeypatch=monkeypatch)
    assert result["changed"] is True
    assert [item["changed"] for item in result["nodes"]] == [True, True, False]
    assert manager.updates == ([] if check_mode else ["n1", "n2"])
    assert [item["task"] for item in result["evicted"]] == ["t1"]
    assert set(result["diff"]["after"]) == {"host-n1 (n1)", "host-n2 (n2)"}
    assert result["diff"]["before"]["host-n2 (n2)"] == {"availability": "active", "labels": {}, "role": "worker"}


def test_without_changes_only_nodes_are_read(monkeypatch):
    manager = FakeManager(node(labels={"m": "T4", RECORD: "m"}))
    manager.tasks = manager.services = None
    result = run(manager, want(labels={"m": "T4"}), monkeypatch=monkeypatch)
    assert (result["changed"], result["evicted"], result["diff"]) == (False, [], {"before": {}, "after": {}})


def interfere_once(change):
    pending = [change]

    def now(store):
        if pending:
            pending.pop()(store["n1"])
            store["n1"]["Version"]["Index"] += 1

    return now


def test_a_conflict_is_read_and_decided_again(monkeypatch):
    manager = FakeManager(node(), interfere=interfere_once(lambda n: n["Spec"]["Labels"].update(owner="bob")))
    result = run(manager, want(labels={"m": "T4"}, availability="pause", remember=True), monkeypatch=monkeypatch)
    assert manager.store["n1"]["Spec"]["Labels"] == {"owner": "bob", "m": "T4", RECORD: "m", MARK: "active"}
    assert result["nodes"][0]["labels_before"] == {"owner": "bob"}
    assert manager.updates == ["n1"]


def test_the_remembered_availability_is_the_one_at_the_time_of_writing(monkeypatch):
    manager = FakeManager(node(), interfere=interfere_once(lambda n: n["Spec"].update(Availability="drain")))
    run(manager, want(availability="pause", remember=True), monkeypatch=monkeypatch)
    assert manager.store["n1"]["Spec"]["Labels"] == {MARK: "drain"}


def test_a_later_conflict_is_reported_with_what_was_written(monkeypatch):
    other = interfere_once(lambda n: n["Spec"]["Labels"].update(m="bob"))
    manager = FakeManager(node("n0"), node(), interfere=lambda store: other(store) if manager.updates else None)
    with pytest.raises(SwarmError, match=r"m=bob.*before this: n0") as caught:
        run(manager, want("n0", labels={"m": "T4"}), want(labels={"m": "T4"}), monkeypatch=monkeypatch)
    assert caught.value.details == {"updated": ["n0"]}
    assert manager.store["n1"]["Spec"]["Labels"] == {"m": "bob"}


def test_someone_else_may_have_made_the_same_change(monkeypatch):
    manager = FakeManager(node(), interfere=interfere_once(lambda n: n["Spec"].update(Availability="drain")))
    result = run(manager, want(availability="drain"), monkeypatch=monkeypatch)
    assert (result["changed"], manager.updates) == (False, [])


def test_a_node_that_changes_forever_is_given_up(monkeypatch):
    def busy(store):
        store["n1"]["Version"]["Index"] += 1

    manager = FakeManager(node(), interfere=busy)
    with pytest.raises(SwarmError, match="each of 10 attempts"):
        run(manager, want(availability="drain"), monkeypatch=monkeypatch)


HOST = "gpu-swarm.host"


@pytest.mark.parametrize(
    ("labels", "wanted", "after"),
    [
        ({}, {"host": "g1", "mark": "set"}, {HOST: "g1"}),
        ({}, {"host": "g1", "mark": "keep"}, {}),
        ({}, {"host": "g1"}, {}),
        ({HOST: "g1"}, {"host": "g1", "mark": "set"}, {HOST: "g1"}),
        ({HOST: "g1"}, {"host": "g1", "mark": "remove"}, {}),
        ({HOST: "g1"}, {"host": "g1"}, {HOST: "g1"}),
        ({HOST: "g1"}, {}, {HOST: "g1"}),
        ({HOST: "g1", "m": "1", RECORD: "m"}, {"labels": {}}, {HOST: "g1"}),
    ],
)
def test_a_node_is_bound_to_a_host(labels, wanted, after):
    change = updates.plan_one(node(labels=labels), {**want(), **wanted}, PREFIX)
    assert (change["problems"], change["after"]["Labels"]) == ([], after)


LEFT = {MARK: "active", SINCE: "2026-11-20T12:00:00Z", BY: "provision", "gpu-swarm.paused-for": "fault reason=mismatch"}


@pytest.mark.parametrize(
    ("availability", "wanted", "after"),
    [
        ("active", {"mark": "remove", "host": "g1"}, {"rack": "r1"}),
        ("drain", {"mark": "remove", "host": "g1"}, {"rack": "r1"}),
        ("active", {"mark": "set", "host": "g1"}, {"rack": "r1", HOST: "g1", **LEFT}),
        # The node is still paused. The update that returns the node to service removes the marks.
        ("pause", {"mark": "remove", "host": "g1"}, {"rack": "r1", MARK: "active", SINCE: LEFT[SINCE], BY: "provision"}),
        ("pause", {"mark": "remove", "host": "g1", "availability": "former", "paused_for": "fault reason=mismatch"}, {"rack": "r1"}),
        ("active", {"mark": "remove", "host": "g1", "availability": "former"}, {"rack": "r1"}),
    ],
)
def test_leftovers_of_an_ended_pause_are_removed_with_the_binding(availability, wanted, after):
    change = updates.plan_one(node(labels={"rack": "r1", **LEFT}, availability=availability), {**want(), **wanted}, PREFIX)
    assert (change["problems"], change["after"]["Labels"]) == ([], after)


@pytest.mark.parametrize("wanted", [{"availability": "drain"}, {"role": "manager"}, {"labels": {}, "mark": "set"}, {"mark": "remove"}])
def test_a_node_that_belongs_to_another_host_is_refused(wanted, monkeypatch):
    manager = FakeManager(node(labels={HOST: "g1"}), node("n2"))
    with pytest.raises(SwarmError, match=r"host-n1 \(n1\) belongs to the host g1 by its label gpu-swarm\.host, and g7 is not that host"):
        run(manager, {**want(), "host": "g7", **wanted}, want("n2", availability="drain"), monkeypatch=monkeypatch)
    assert manager.updates == []


def test_a_mark_needs_a_host():
    with pytest.raises(SwarmError, match=r"node n1 has mark=set and no host"):
        updates.check([{**want(), "mark": "set"}], PREFIX)


# -- tasks that may be evicted (option evict) --------------------------------------------------------------------------

LABELLED = {"m": "T4", RECORD: "m"}
SERVICE, ONCE = task("t1"), task("t2", restart="none", slot=2)


def refused(result):
    return [(item["id"], item["hostname"], [one["task"] for one in item["tasks"]]) for item in result["refused"]]


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("evict", "tasks", "held"),
    [
        ({}, [SERVICE, ONCE], []),
        ({"evict": "any"}, [SERVICE, ONCE], []),
        ({"evict": "movable"}, [SERVICE], []),
        ({"evict": "movable"}, [SERVICE, ONCE], ["t2"]),
        ({"evict": "none"}, [SERVICE, ONCE], ["t1", "t2"]),
        ({"evict": "none"}, [], []),
    ],
)
def test_labels_that_would_evict_a_protected_task_stay(evict, tasks, held, check_mode, monkeypatch):
    manager = FakeManager(node(labels=LABELLED), node("n2"), tasks=tasks)
    result = run(manager, {**want(labels={"m": "H100"}), **evict}, want("n2", labels={"m": "T4"}), check_mode=check_mode, monkeypatch=monkeypatch)
    assert refused(result) == ([("n1", "host-n1", held)] if held else [])
    assert [item["changed"] for item in result["nodes"]] == [not held, True]
    assert [item["task"] for item in result["evicted"]] == ([] if held else [one["ID"] for one in tasks])
    assert manager.updates == ([] if check_mode else [*([] if held else ["n1"]), "n2"])
    assert set(result["diff"]["after"]) == {"host-n2 (n2)"} | (set() if held else {"host-n1 (n1)"})


def test_a_node_has_the_label_of_devices_only_while_it_has_them_and_no_task_is_evicted_without_consent(monkeypatch):
    device = {"gpu-swarm.device.rdma": "true"}
    manager = FakeManager(node(), tasks=[ONCE])
    manager.services = lambda: [service(constraints=["node.labels.gpu-swarm.device.rdma==true"])]
    for _run in range(2):  # the second run writes nothing
        run(manager, want(labels=device), monkeypatch=monkeypatch)
    assert (manager.store["n1"]["Spec"]["Labels"], manager.updates) == ({**device, RECORD: "gpu-swarm.device.rdma"}, ["n1"])
    assert refused(run(manager, {**want(labels={}), "evict": "movable"}, monkeypatch=monkeypatch)) == [("n1", "host-n1", ["t2"])]
    assert manager.updates == ["n1"]
    result = run(manager, {**want(labels={}), "evict": "any"}, monkeypatch=monkeypatch)
    assert ([one["task"] for one in result["evicted"]], manager.store["n1"]["Spec"]["Labels"]) == (["t2"], {})


@pytest.mark.parametrize(("evict", "key", "held"), [("movable", "gpu-swarm.keep", ["t1"]), ("movable", "other", []), ("any", "gpu-swarm.keep", [])])
def test_a_task_that_its_service_keeps_is_not_evicted(evict, key, held, monkeypatch):
    manager = FakeManager(node(), tasks=[SERVICE])
    labelled = service()
    labelled["Spec"]["Labels"] = {"gpu-swarm.keep": "true"}
    manager.services = lambda: [labelled]
    result = run(manager, {**want(availability="drain"), "evict": evict}, keep_label=key, monkeypatch=monkeypatch)
    assert refused(result) == ([("n1", "host-n1", held)] if held else [])
    assert manager.updates == ([] if held else ["n1"])


NOTED = "gpu-swarm.maintained"


def test_a_finished_maintenance_is_recorded_with_the_return_to_service(monkeypatch):
    """This holds even if labels cannot be changed. If the node does not return to service, nothing is recorded."""
    for tasks, labels, availability, noted in (([], None, "active", "x"), ([ONCE], {"m": "H100"}, "active", "x")):
        manager = FakeManager(node(labels={**LABELLED, MARK: "active"}, availability="pause"), tasks=tasks)
        run(manager, {**want(labels=labels, availability="former"), "maintained": "x", "evict": "movable"}, monkeypatch=monkeypatch)
        spec = manager.store["n1"]["Spec"]
        assert (spec["Availability"], spec["Labels"].get(NOTED), manager.updates) == (availability, noted, ["n1"])
    run(manager, {**want(availability="former"), "maintained": "x"}, monkeypatch=monkeypatch)
    assert manager.updates == ["n1"]
    broken = FakeManager(node(labels={"m": "H100", RECORD: "m", MARK: "active"}, availability="pause"), tasks=[ONCE])
    run(broken, {**want(labels={"m": "H100"}, availability="former"), "maintained": "x", "evict": "movable"}, monkeypatch=monkeypatch)
    assert broken.updates == []


def test_a_node_whose_labels_stay_still_returns_to_service(monkeypatch):
    manager = FakeManager(node(labels={**LABELLED, MARK: "active"}, availability="pause"), tasks=[ONCE])
    result = run(manager, {**want(labels={"m": "H100"}, availability="former"), "evict": "movable"}, monkeypatch=monkeypatch)
    assert refused(result) == [("n1", "host-n1", ["t2"])]
    assert manager.store["n1"]["Spec"] == {"Labels": LABELLED, "Role": "worker", "Availability": "active"}
    assert (result["evicted"], result["nodes"][0]["changed"], result["nodes"][0]["labels_after"]) == ([], True, LABELLED)


def test_a_node_stays_paused_if_its_availability_alone_would_evict_a_task(monkeypatch):
    """Its constraint was broken while the node was paused. Swarm enforces it when the node becomes active."""
    before = node(labels={"m": "H100", RECORD: "m", MARK: "active"}, availability="pause")
    manager = FakeManager(before, tasks=[ONCE])
    result = run(manager, {**want(labels={"m": "H100"}, availability="former"), "evict": "movable"}, monkeypatch=monkeypatch)
    assert refused(result) == [("n1", "host-n1", ["t2"])]
    assert (result["changed"], manager.updates, manager.store["n1"]) == (False, [], before)


def test_a_drain_that_would_end_a_task_for_good_is_not_written(monkeypatch):
    manager = FakeManager(node(labels={MARK: "active"}, availability="pause"), tasks=[SERVICE, ONCE])
    drained = {**want(availability="drain", remember=True), "evict": "movable"}
    assert refused(run(manager, drained, monkeypatch=monkeypatch)) == [("n1", "host-n1", ["t2"])]
    assert manager.updates == []
    manager.there = [SERVICE]
    assert refused(run(manager, drained, monkeypatch=monkeypatch)) == []
    assert manager.store["n1"]["Spec"]["Availability"] == "drain"


def test_tasks_that_arrive_between_two_attempts_count_too(monkeypatch):
    def one_comes(_node):
        manager.there = [ONCE]

    manager = FakeManager(node(labels=LABELLED), interfere=interfere_once(one_comes), tasks=[])
    result = run(manager, {**want(labels={"m": "H100"}), "evict": "movable"}, monkeypatch=monkeypatch)
    assert refused(result) == [("n1", "host-n1", ["t2"])]
    assert (result["changed"], manager.updates) == (False, [])


def test_a_node_that_does_not_show_its_resources_waits_while_others_are_written(monkeypatch):
    manager = FakeManager(node("n1"), node("n2"))
    waits = {**want("n1", availability="drain"), "if_shown": ["FPGA=1"]}
    result = run(manager, waits, want("n2", availability="drain"), monkeypatch=monkeypatch)
    assert [one["id"] for one in result["held_back"]] == ["n1"]
    assert [one["id"] for one in result["nodes"]] == ["n2"]
    assert [manager.store[one]["Spec"]["Availability"] for one in ("n1", "n2")] == ["active", "drain"]


@pytest.mark.parametrize("lease", [LEASE, None])
def test_the_lease_is_released_after_the_last_write(lease, monkeypatch):
    manager = FakeManager(node(), lease=lease)
    result = run(manager, want(labels={"m": "T4"}), monkeypatch=monkeypatch, release="run 1", outcomes={"done": 3})
    node_id, labels = manager.updates
    assert (node_id, set(labels)) == ("n1", {"gpu-swarm.last-run"})
    assert json.loads(labels["gpu-swarm.last-run"])["hosts"] == {"done": 3}
    assert (result["lease"]["acquired"], result["lease"]["holder"]) == (False, None)


def test_the_lease_of_another_run_stays(monkeypatch):
    manager = FakeManager(node(), lease={**LEASE, "holder": "run 2"})
    result = run(manager, want(labels={"m": "T4"}), monkeypatch=monkeypatch, release="run 1", outcomes={"done": 3})
    assert (manager.updates, result["lease"]["holder"]) == (["n1"], "run 2")


@pytest.mark.parametrize("wanted", [{**want(availability="drain"), "if_shown": ["FPGA=1"]}, {**want(availability="drain"), "evict": "none"}])
def test_the_lease_stays_while_a_node_is_unchanged(wanted, monkeypatch):
    manager = FakeManager(node(), lease=LEASE)
    result = run(manager, wanted, monkeypatch=monkeypatch, release="run 1", outcomes={"done": 3})
    assert result["held_back"] or result["refused"]
    assert ("lease" in result, manager.updates) == (False, [])


def test_a_failed_release_of_the_lease_does_not_fail_the_writes(monkeypatch):
    manager = FakeManager(node(), lease=LEASE)
    manager.cluster_fails = True
    result = run(manager, want(labels={"m": "T4"}), monkeypatch=monkeypatch, release="run 1", outcomes={})
    assert (result["changed"], "lease" in result, manager.updates) == (True, False, ["n1"])


def test_check_mode_releases_nothing(monkeypatch):
    manager = FakeManager(node(), lease=LEASE)
    result = run(manager, want(labels={"m": "T4"}), monkeypatch=monkeypatch, release="run 1", outcomes={}, check_mode=True)
    assert (result["changed"], result["lease"]["changed"], manager.updates) == (True, True, [])
