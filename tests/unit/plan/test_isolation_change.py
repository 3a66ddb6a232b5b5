# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole swarm has one level of isolation. Decides the level, the nodes to change, and the update of the swarm's label."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fleet_lab import host, ledger, member

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.isolation_state import result
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.isolation import LABEL, merged, read
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import IDLE, PREPARE, WINDOW, Step, Swarm
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan import isolation_change, isolation_label
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._plan.provision import plan

NOW = 1764000000
SHOWN = host().assessed["resources"]
COUNTED = {"train": {"forged": {"count": 3, "last": NOW - 60, "text": "x"}, "held-twice": {"count": 1, "last": NOW, "text": "x"}}}

WHOLE = {"found": {}, "whole": True}


def shows(value, *nodes, services=()):
    """Return a manager's ledger with this label of the swarm."""
    label = value if isinstance(value, str) else json.dumps(value)
    kept = result({"Labels": {LABEL: label}}, services, NOW)
    return {**ledger(*(nodes or [member()])), "swarm": {"isolation": kept}}


def at(level, name="gpu-1", node_id="n1", **more):
    found = {"level": level, "turned_off": False, "found": {}, **more}
    return host(name, node_id=node_id, shown=SHOWN, isolation=None if level == "off" else found)


def planned(one, level, label=""):
    known = shows(label)
    return plan([one], Swarm({"live": ["m"], "init_on": None, "error": None}, known), level=level)["gpu-1"]


@pytest.mark.parametrize(
    ("setting", "label", "level"),
    [
        (None, "", "off"),
        (None, {"level": "reserved"}, "reserved"),
        ("audit", "", "audit"),
        ("audit", {"level": "reserved"}, "audit"),
        ("off", {"level": "reserved"}, "off"),
        ("audit", "tight", "audit"),
    ],
)
def test_the_setting_goes_before_the_swarm_s_label(setting, label, level):
    assert isolation_change.level_of(setting, shows(label)) == level


def test_without_a_swarm_the_setting_counts():
    assert [isolation_change.level_of(setting, None) for setting in (None, "audit")] == ["off", "audit"]


@pytest.mark.parametrize(
    ("found", "shown", "level"),
    [
        ({"init_on": "m1"}, None, "reserved"),  # this run creates the swarm
        ({"live": ["m1"]}, shows("", member(bound=False)), "audit"),  # someone else created the swarm, and its tasks were not written for a guard
        ({"live": ["m1"]}, shows("", member()), None),  # an earlier run provisioned nodes without a level
        ({"live": ["m1"]}, shows("", member(shown=(), labels={})), "audit"),  # no node of this collection has GPUs
        ({"live": ["m1"]}, shows({"level": "audit"}, member(bound=False)), None),
        ({"live": ["m1"]}, shows("tight", member(bound=False)), None),
        ({"live": ["m1"]}, {"msg": "no Docker SDK"}, None),  # the level is unknown
        ({"error": "two swarms"}, None, None),
    ],
)
def test_without_a_setting_the_level_depends_on_the_creator_of_the_swarm(found, shown, level):
    swarm = Swarm({"live": [], "init_on": None, "error": None, **found}, shown)
    assert isolation_change.default_level(swarm) == level


def test_a_swarm_is_created_with_its_level():
    assert (isolation_label.initial_labels("off"), isolation_label.initial_labels("reserved")) == ({}, {LABEL: "reserved"})
    made = read({"Labels": isolation_label.initial_labels("audit")})
    assert (made.level, made.since) == ("audit", None)
    after = merged(made, {"nodes": {"n1": "audit"}, "listed": ["n1"]}, NOW)
    assert (after.level, after.since, merged(after, {"listed": ["n1"]}, NOW + 5).since) == ("audit", NOW, NOW)


def test_a_label_of_another_owner_is_an_error_with_a_remedy():
    with pytest.raises(GpuSwarmError, match=r"gpu-swarm\.isolation of the swarm is 'tight'.* Set gpu_swarm_isolation to off, audit, reserved or"):
        isolation_change.level_of(None, shows("tight"))


# -- nodes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["off", "reserved"])
@pytest.mark.parametrize("value", ["GPU-1.slot1", "MIG-1.slot1", "GPU-1+GPU-2"])
def test_slots_and_groups_exist_at_each_level(level, value):
    assert planned(host(resources=[f"NVIDIA-X={value}", "FPGA=x.slot1"]), level).error is None


@pytest.mark.parametrize(("resource", "restarts"), [("NVIDIA-SLOT=GPU-1.slot1", False), ("NVIDIA-GPU=GPU-1", True)])
def test_with_off_slots_keep_the_guard_without_a_restart(resource, restarts):
    one = at("audit")
    one.assessed.update(resources=[resource], isolation_level="audit", engine={"running": True, "lost_at_reload": ["--authorization-plugin"]})
    assert isolation_change.needs_restart(replace(one, isolation="off")) is restarts


@pytest.mark.parametrize(
    ("has", "wanted", "impact"),
    [
        ("off", "audit", ["isolation off → audit"]),
        ("audit", "reserved", ["isolation audit → reserved"]),
        ("exclusive", "off", ["isolation exclusive → off"]),
        ("off", "off", []),
    ],
)
def test_a_node_with_another_level_is_changed_without_a_window(has, wanted, impact):
    step = planned(at(has), wanted)
    assert step.impact == impact
    assert (step.needs, step.target.isolation) == ((["configure"], wanted) if has != wanted else ([], ""))
    assert (PREPARE in step.groups, {IDLE, WINDOW} & set(step.groups)) == (has != wanted, set())


def test_drift_of_the_level_is_reported_once():
    found = {"level": "audit", "turned_off": False, "found": {}}
    one = host(shown=SHOWN, drift=["isolation is audit, not reserved"], isolation=found, isolation_level="reserved")
    assert planned(one, "reserved").impact == ["isolation is audit, not reserved"]


@pytest.mark.parametrize(
    ("has", "assessed_for", "wanted", "lost", "restarts"),
    [
        ("off", "off", "reserved", ["--authorization-plugin"], True),
        ("reserved", "reserved", "off", ["--authorization-plugin"], True),
        ("off", "off", "reserved", [], False),
        ("audit", "audit", "reserved", ["--authorization-plugin"], False),  # the guard is already the runtime
        ("off", "reserved", "reserved", ["--authorization-plugin"], False),  # the assessment already used the wanted level
    ],
)
def test_installing_a_guard_needs_a_window_if_a_reload_would_lose_options(has, assessed_for, wanted, lost, restarts):
    one = at(has)
    one.assessed.update(isolation_level=assessed_for, engine={**one.assessed["engine"], "running": True, "lost_at_reload": lost})
    step = planned(one, wanted)
    assert (step.needs, PREPARE in step.groups) == ((["configure", "restart"], False) if restarts else (["configure"], True))


def test_hosts_without_gpus_have_no_level():
    assert "configure" not in planned(host(gpu=False, shown=()), "reserved").needs
    one = host(shown=())
    one.assessed.update(gpus=[], resources=[], labels={})  # gpu_node_advertise: []
    assert planned(one, "reserved").target.isolation == ""


def test_a_level_for_only_one_host_is_an_error():
    one = at("audit")
    one.settings = {"gpu_node_isolation": "audit"}
    assert planned(one, "audit").error is None
    error = planned(one, "reserved").error
    assert "gpu_node_isolation is 'audit' here, and the level of the swarm is 'reserved'" in error
    assert "set gpu_swarm_isolation in group_vars/all.yml" in error


# -- the update of the label --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "one", "label", "written"),
    [
        (None, at("off"), "", None),
        ("off", at("off"), "", None),
        ("audit", at("off"), "", {"level": "audit", "nodes": {"n1": "off"}}),
        (None, at("audit"), "", {"nodes": {"n1": "audit"}, **WHOLE}),  # another run changed the node, but could not record the change
        ("audit", at("audit"), {"level": "audit", "nodes": {"audit": ["n1"]}, "read": NOW}, None),
        ("reserved", at("audit"), {"level": "audit", "nodes": {"audit": ["n1"]}}, {"level": "reserved", "nodes": {"n1": "audit"}, **WHOLE}),
        (None, at("audit", turned_off=True), {"level": "audit", "nodes": {"audit": ["n1"]}}, {"nodes": {"n1": "off"}, **WHOLE}),
        (None, at("audit"), {"level": "audit", "nodes": {"audit": ["n1"]}, "read": NOW - 90000}, {"nodes": {"n1": "audit"}, **WHOLE}),
        (None, at("audit"), {"level": "audit", "nodes": {"audit": ["n1", "gone"]}, "read": NOW}, {"nodes": {"n1": "audit"}, **WHOLE}),
    ],
)
def test_the_level_is_written_before_any_change(setting, one, label, written):
    found = isolation_label.update_at_start(setting, [one], shows(label))
    assert found == ({**written, "listed": ["n1"]} if written else {})


def clashing(name="gpu-1"):
    one = at("audit", name)
    one.settings = {"gpu_node_isolation": "audit"}
    return one


@pytest.mark.parametrize(
    ("hosts", "errors", "written"),
    [
        ([at("audit")], (), "reserved"),
        ([at("audit"), at("audit", "gpu-2", "n2")], ("gpu-2",), "reserved"),
        ([at("audit"), at("audit", "gpu-2", "n2")], ("gpu-1", "gpu-2"), None),
        ([at("audit"), host("gpu-2", failed=True)], ("gpu-1",), None),
        ([at("audit", "gpu-2", "n2"), clashing()], ("gpu-1",), None),
        ([host("m1", gpu=False, shown=())], (), "reserved"),
        ([at("audit"), host("m1", gpu=False, shown=())], ("gpu-1",), None),
    ],
)
def test_the_level_of_the_swarm_stays_if_a_node_may_not_change(hosts, errors, written):
    steps = {one.name: Step(error="x" if one.name in errors else None) for one in hosts}
    assert isolation_label.level_to_write("reserved", hosts, steps) == written
    assert isolation_label.level_to_write(None, hosts, steps) is None


def test_counts_of_audit_are_written_once():
    one, label = at("audit", found=COUNTED), {"level": "audit", "since": 5, "nodes": {"audit": ["n1"]}, "read": NOW}
    found = isolation_label.update_at_start(None, [one], shows(label, services=["train"]))["found"]
    assert found == {"train": {"names": ["forged"], "last": NOW - 60}}
    recorded = {**label, "found": {"train": {"names": ["forged"], "last": 7}}}
    assert isolation_label.update_at_start(None, [one], shows(recorded, services=["train"])) == {}
    broken = {"a": {"broken": {"last": NOW}, "unread": {"last": NOW}}}
    found = isolation_label.update_at_start(None, [at("audit", found=broken)], shows(label, services=["a"]))["found"]
    assert found == {"a": {"names": ["broken"], "last": NOW}}
    assert isolation_label.update_at_start(None, [at("reserved", found=COUNTED)], shows({"level": "reserved", "nodes": {"reserved": ["n1"]}})) == {}


def test_removed_services_are_dropped_before_the_newest_are_kept():
    kept = {"short%02d" % place: {"names": ["hidden"], "last": NOW - place} for place in range(20)}
    label = {"level": "audit", "since": 5, "nodes": {"audit": ["n1"]}, "read": NOW, "found": kept}
    counted = {**COUNTED, "short99": {"hidden": {"last": NOW}}, "": {"broken": {"last": NOW}}}
    known = shows(label, services=["train"])
    found = isolation_label.update_at_start(None, [at("audit", found=counted)], known)["found"]
    after = merged(read({"Labels": {LABEL: json.dumps(label)}}), {"found": found}, NOW).found
    assert sorted(after) == ["", "train"]
    assert isolation_label.update_at_start(None, [at("audit")], known) == {}  # the label is not updated only to remove counts


def test_an_unread_node_keeps_its_counts():
    label = {"level": "audit", "since": 5, "nodes": {"audit": ["n1", "n2"]}}
    found = isolation_label.update_at_start(None, [at("audit", found=COUNTED)], shows(label, member(), member("n2"), services=["train"]))
    assert ("whole" in found, list(found["found"])) == (False, ["train"])
    assert isolation_label.update_at_start(None, [at("audit")], shows(label, member(), member("n2"))) == {}
    both = [at("audit"), at("audit", "gpu-2", "n2")]
    never = {"level": "audit", "since": 5, "nodes": {"audit": ["n1"]}}  # no run with this level has contained n2
    assert "whole" not in isolation_label.update_at_start(None, [at("audit", found=COUNTED)], shows(never, member(), member("n2")))
    one_off = [at("audit", found=COUNTED), at("off", "gpu-2", "n2")]
    assert "whole" not in isolation_label.update_at_start(None, one_off, shows(never, member(), member("n2")))
    without_gpus = member("n2", labels={}, shown=())
    assert isolation_label.update_at_start(None, [at("audit")], shows(never, member(), without_gpus))["whole"] is True
    assert isolation_label.update_at_start(None, both, shows(label, member(), member("n2")))["whole"] is True


@pytest.mark.parametrize("counted", [None, [], {"a": 1}, {"a": {"forged": 1}}, {"a": {"forged": {"last": "x"}}}, {"a": {"forged": {"last": -1}}}])
def test_a_lying_node_breaks_nothing(counted):
    assert isolation_label.update_at_start("audit", [at("audit", found=counted)], shows(""))["found"] == {}


CARD = "GPU-00000000-1111-2222-3333-444444444444"
FINDING = ["outside", CARD, "", "", "alice (py)", NOW - 60]


def found_by(found, name="gpu-1", node_id="n1"):
    one = at("off", name, node_id)
    one.assessed["health"] = {"label": "ok", "allocation_findings": found}
    return one


def known(found, read):
    return {"level": "off", "allocation_findings": {"n1": {"read": read, "found": found}}}


@pytest.mark.parametrize(
    ("found", "label", "written"),
    [
        ([], "", None),
        ([FINDING], "", [FINDING]),
        ([FINDING], known([FINDING], NOW - 60), None),
        ([[*FINDING[:5], NOW - 5]], known([FINDING], NOW - 60), None),  # the node is assessed again, after the watcher reported
        ([FINDING], known([FINDING], NOW - 90000), [FINDING]),
        ([["not-held", CARD, "t1", "", "py", 5]], known([FINDING], NOW - 60), [["not-held", CARD, "t1", "", "py", 5]]),
        ([], known([FINDING], NOW - 60), []),
        (None, known([FINDING], NOW - 60), []),
        ("x", "", None),
        ([["\x1b", *FINDING[1:]], 5], "", None),
    ],
)
def test_findings_of_a_watcher_are_written_once_even_without_a_guard(found, label, written):
    change = isolation_label.update_at_start(None, [found_by(found)], shows(label))
    assert change.get("allocation_findings") == (None if written is None else {"n1": written})
    other = found_by([FINDING], "gpu-2", "n2")
    after = isolation_label.update_at_start(None, [other], shows(known([FINDING], NOW - 90000), member(), member("n2")))
    assert after["allocation_findings"] == {"n2": [FINDING]}


def test_hosts_that_are_no_members_or_did_not_answer_are_skipped():
    assert isolation_label.update_at_start("audit", [at("audit", node_id="other"), host("x", failed=True)], shows(""))["nodes"] == {}
    assert isolation_label.update_at_start("audit", [at("off")], None) == {}


def test_the_change_of_the_swarm_is_announced():
    assert isolation_label.describe_change({"level": "audit"}, shows("")) == "The isolation of the swarm becomes audit; it is off."
    assert isolation_label.describe_change({"level": "audit"}, shows({"level": "audit"})) == isolation_label.describe_change({}, shows("")) == ""


@pytest.mark.parametrize(
    ("applied", "level"),
    [
        ({"isolation": {"level": "audit"}}, "reserved"),  # the answer of the host is outdated
        ({"isolation": {"level": "audit", "turned_off": True}}, "off"),
        ({"failed": True}, "audit"),
        ({}, "audit"),
    ],
)
def test_a_host_ends_with_this_level(applied, level):
    assert isolation_change.level_at_end(at("audit").assessed, applied, "reserved") == level


@pytest.mark.parametrize(
    ("level", "label", "written"),
    [
        ("off", "", {}),
        ("audit", "", {"level": "audit", "nodes": {"n1": "audit"}, "listed": ["n1"]}),
        ("off", {"level": "audit"}, {"level": "off", "nodes": {"n1": "audit"}, "listed": ["n1"]}),
    ],
)
def test_the_level_is_written_when_a_run_ends(level, label, written):
    assert isolation_label.update_at_end(level, True, {"n1": "audit"}, shows(label)) == written
    assert isolation_label.update_at_end(level, True, {"n1": "audit"}, None) == {}


def test_the_level_is_removed_with_the_last_node():
    assert isolation_label.update_after_removal([], shows("audit")) == {"level": "off", "listed": []}
    assert isolation_label.update_after_removal(["n2"], shows("audit")) == {"listed": ["n2"]}
    assert isolation_label.update_after_removal([], shows("")) == {}
