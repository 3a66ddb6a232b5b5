# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The level of isolation in a label of the swarm: changes of the label, its writers, and its content after the level off."""

from __future__ import annotations

import copy
import json

import pytest
from swarm_api import cluster

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health import allocation_findings
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.allocation_findings import Finding
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import isolation
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import lease as swarm_lease
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.isolation import AuditCount, Isolation, NodeFindings

CLOCK = "2026-11-21T02:10:00.652836451Z"
NOW = swarm_lease.seconds(CLOCK)
ME, BOB = "me", "bob"
DAY = 86400


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (Isolation(), {"level": "audit"}, Isolation("audit", NOW)),
        (Isolation("audit", 5), {"level": "audit"}, Isolation("audit", 5)),
        (Isolation("audit", 5), {"level": "reserved"}, Isolation("reserved", NOW)),
        (Isolation("audit", 5), {}, Isolation("audit", 5)),
        (Isolation("audit", 5, {"n1": "audit"}), {"level": "off"}, Isolation("off", NOW, {"n1": "audit"})),  # the run has not changed n1 yet
        (Isolation("off", 5, {"n1": "audit"}), {"nodes": {"n1": "off"}}, Isolation("off", 5)),
        (
            Isolation("audit", 5, {"n1": "audit"}),
            {"nodes": {"n2": "off", "n3": "audit"}},
            Isolation("audit", 5, {"n1": "audit", "n3": "audit"}, joined=NOW),
        ),
        (Isolation("audit", 5, {"n1": "audit"}, joined=7), {"nodes": {"n1": "audit"}}, Isolation("audit", 5, {"n1": "audit"}, joined=7)),
        (Isolation("audit", 5, {"n1": "audit"}, joined=7), {"nodes": {"n1": "reserved"}}, Isolation("audit", 5, {"n1": "reserved"}, joined=7)),
        (Isolation("audit", 5, {"n1": "off"}, joined=7), {"nodes": {"n1": "audit"}}, Isolation("audit", 5, {"n1": "audit"}, joined=NOW)),
        (Isolation("audit", 5, {"n1": "audit"}, joined=7), {"level": "reserved"}, Isolation("reserved", NOW, {"n1": "audit"})),
        (Isolation("audit", 5, {"n1": "audit", "n2": "off"}), {"listed": ["n1"]}, Isolation("audit", 5, {"n1": "audit"})),
        (Isolation("audit", 5, {"n1": "audit"}), {"level": "off", "listed": []}, Isolation("off", NOW)),
        (Isolation("unknown"), {"nodes": {"n1": "audit"}}, Isolation("unknown", None, {"n1": "audit"})),
        (Isolation("unknown"), {"level": "reserved"}, Isolation("reserved", NOW)),
    ],
)
def test_the_label_changes_like_this(before, change, after):
    assert isolation.merged(before, change, NOW) == after


def one(last, *names):
    return {"names": list(names or ["hidden"]), "last": last}


@pytest.mark.parametrize(
    ("known", "found", "after"),
    [
        ({}, {}, {}),
        ({}, {"a": one(NOW - 5)}, {"a": AuditCount(("hidden",), NOW - 5)}),
        ({"a": AuditCount(("forged",), NOW - 9)}, {"a": one(NOW - 5)}, {"a": AuditCount(("forged", "hidden"), NOW - 5)}),
        ({"a": AuditCount(("forged",), NOW - 9)}, {}, {"a": AuditCount(("forged",), NOW - 9)}),  # the node was not read, or has rebooted
        ({"a": AuditCount(("hidden",), NOW - 5)}, {"a": one(NOW - 9)}, {"a": AuditCount(("hidden",), NOW - 5)}),
        ({"a": AuditCount(("hidden",), NOW - 31 * DAY)}, {}, {}),
        ({}, {"a": one(NOW + DAY)}, {"a": AuditCount(("hidden",), NOW)}),  # a clock that is ahead
        ({}, {"a": one(NOW - 101 * DAY)}, {}),  # older than the level
    ],
)
def test_counts_of_nodes_are_kept(known, found, after):
    before = Isolation("audit", NOW - 100 * DAY, {}, known, 7)
    assert isolation.merged(before, {"found": found, "whole": True}, NOW) == before._replace(found=after, read=NOW)
    assert isolation.merged(before, {"found": found}, NOW) == before._replace(found=after)  # only some nodes were read


def test_the_label_is_bounded_and_the_newest_stay():
    before = Isolation("audit", 0)
    found = isolation.merged(before, {"found": {"s%02d" % place: one(NOW - place) for place in range(99)}}, NOW).found
    assert list(found) == ["s%02d" % place for place in range(isolation.MOST_SERVICES)]


def test_removed_services_displace_no_others():
    short = {"s%02d" % place: AuditCount(("hidden",), NOW - place) for place in range(isolation.MOST_SERVICES)}
    before = Isolation("audit", 0, {}, short)
    gone = {service: {"names": [], "last": 0} for service in short}
    found = isolation.merged(before, {"found": {**gone, "train": one(NOW - DAY)}}, NOW).found
    assert found == {"train": AuditCount(("hidden",), NOW - DAY)}


@pytest.mark.parametrize("level", ["off", "reserved", "exclusive"])
def test_only_audit_counts(level):
    before = Isolation("audit", 0, {}, {"a": AuditCount(("hidden",), NOW)}, NOW)
    assert isolation.merged(before, {"level": level, "found": {"a": one(NOW)}}, NOW) == Isolation(level, NOW)
    assert isolation.merged(Isolation(level, 0), {"level": "audit"}, NOW) == Isolation("audit", NOW)


@pytest.mark.parametrize(
    "written",
    [
        Isolation(),
        Isolation("reserved", 5, {"n1": "reserved", "n2": "reserved", "n3": "audit"}),
        Isolation("off", 5, {"n1": "exclusive"}),
        Isolation("audit", 5, {"n1": "audit"}, {"a": AuditCount(("forged", "hidden"), 9)}, 10, 7),
    ],
)
def test_the_label_is_read_as_it_was_written(written):
    spec = isolation.write({"Name": "default", "Labels": {"owner": "bob", isolation.LABEL: "x"}}, written)
    assert isolation.read(spec) == written
    assert (spec["Name"], spec["Labels"]["owner"], isolation.LABEL in spec["Labels"]) == ("default", "bob", written != Isolation())


@pytest.mark.parametrize(("value", "level"), [("", "off"), ("audit", "audit"), ("x", "unknown"), ("[]", "unknown"), ('{"level": "x"}', "unknown")])
def test_labels_of_other_owners_are_no_level(value, level):
    assert isolation.read({"Labels": {isolation.LABEL: value}}).level == level
    assert isolation.read({"Labels": None}) == Isolation()


@pytest.mark.parametrize(
    "value",
    [
        '{"level": "audit", "nodes": 1}',
        '{"level": "audit", "found": {"a": 1}}',
        '{"level": "audit", "since": "x"}',
        '{"level": "audit", "since": Infinity}',
        '{"level": "audit", "read": NaN}',
        '{"level": "audit", "since": -1}',
        '{"level": "audit", "read": 253402300800}',  # the year 10000
        '{"level": "audit", "found": {"a": {"names": [], "last": 1e400}}}',
        '{"level": "audit", "found": {"a": {"names": [], "last": 1%s}}}' % ("0" * 40),
    ],
)
def test_a_broken_label_raises_nothing(value):
    assert isolation.read({"Labels": {isolation.LABEL: value}}) == Isolation("unknown")


# -- with the lease ----------------------------------------------------------------------------------------------------


class Manager:
    def __init__(self, **labels):
        self.kept, self.updates = cluster(labels), 0

    def cluster(self):
        return copy.deepcopy({**self.kept, "UpdatedAt": CLOCK}), CLOCK

    def leader(self):
        return "m1"

    def update_cluster(self, version, spec, rotate=()):
        assert version == self.kept["Version"]["Index"]
        changed = spec["Labels"].get(isolation.LABEL) != self.kept["Spec"]["Labels"].get(isolation.LABEL)
        self.kept["Spec"], self.updates = copy.deepcopy(spec), self.updates + changed


def settled(manager, check_mode=False, **want):
    want = {"state": "present", "holder": ME, "ttl": 60, "takeover": [], "force": False, "outcomes": None, "always": False, "queues": None, **want}
    return swarm_lease.module_result(swarm_lease.acquire_or_release(manager, want, check_mode), want)


def held(holder):
    times = {"since": swarm_lease.format_time(NOW - 5), "until": swarm_lease.format_time(NOW + 60)}
    return {swarm_lease.LABEL: json.dumps({"holder": holder, **times})}


@pytest.mark.parametrize(
    ("state", "labels", "level"),
    [
        ("present", {}, "audit"),
        ("present", held(ME), "audit"),
        ("present", held(BOB), "off"),
        ("absent", {}, "audit"),
        ("absent", held(ME), "audit"),
        ("absent", held(BOB), "off"),  # another run changes this swarm
    ],
)
def test_the_label_is_written_only_with_the_lease(state, labels, level):
    manager = Manager(**labels)
    answer = settled(manager, state=state, isolation={"level": "audit"})
    assert isolation.read(manager.kept["Spec"]).level == level == answer["isolation"]
    assert (manager.updates, answer["isolation_before"]) == (int(level == "audit"), "off")


def test_check_mode_shows_the_label_without_writing_it():
    manager = Manager()
    answer = settled(manager, check_mode=True, state="absent", isolation={"level": "audit"})
    assert (manager.updates, answer["changed"], answer["isolation"]) == (0, True, "audit")
    assert answer["diff"] == {"before": {}, "after": {isolation.LABEL: {"level": "audit", "since": NOW}}}


def test_an_equal_label_is_not_written():
    manager = Manager(**{isolation.LABEL: json.dumps({"level": "audit", "since": 5})})
    assert settled(manager, state="absent", isolation={"level": "audit"})["changed"] is False
    assert manager.updates == 0


# -- findings of watchers -----------------------------------------------------------------------------------------------

CARD = "GPU-00000000-1111-2222-3333-444444444444"
OUTSIDE = ["outside", CARD, "", "", "alice (py)", NOW - 5]


def findings_of(*found, read=NOW):
    return NodeFindings(read, tuple(Finding(*one) for one in found))


@pytest.mark.parametrize("level", ["off", "audit", "reserved"])
def test_findings_of_watchers_are_kept_by_node_at_any_level(level):
    before = Isolation(level, 5, {}, allocation_findings={"n1": findings_of(OUTSIDE, read=7), "n2": findings_of(OUTSIDE, read=7)})
    after = isolation.merged(before, {"allocation_findings": {"n1": [], "n3": [OUTSIDE, "x", [*OUTSIDE[:5], NOW + DAY]]}}, NOW).allocation_findings
    assert after == {"n2": findings_of(OUTSIDE, read=7), "n3": findings_of(OUTSIDE, [*OUTSIDE[:5], NOW])}  # a clock that is ahead
    assert isolation.merged(before, {}, NOW).allocation_findings == before.allocation_findings
    assert list(isolation.merged(before, {"listed": ["n2"]}, NOW).allocation_findings) == ["n2"]
    spec = isolation.write({"Labels": {}}, before)
    assert isolation.read(spec).allocation_findings == before.allocation_findings
    assert isolation.LABEL not in isolation.write(spec, isolation.merged(before, {"level": "off", "listed": []}, NOW))["Labels"]


def test_lying_nodes_displace_no_others_and_the_label_stays_small():
    liars = {f"liar{place:03}": [["outside", CARD, "", "", f"{place} {other} " + "x" * 99, 1] for other in range(99)] for place in range(100)}
    after = isolation.merged(Isolation(), {"allocation_findings": {**liars, "true": [OUTSIDE]}}, NOW)
    assert sum(len(one.found) for one in after.allocation_findings.values()) == allocation_findings.MAX_FINDINGS_OF_ALL
    assert after.allocation_findings["true"] == findings_of(OUTSIDE)
    assert len(json.dumps(isolation.as_shown(after))) < 50000


@pytest.mark.parametrize("kept", [5, ["x"], {"n1": 5}, {"n1": {"read": "x", "found": []}}, {"n1": {"found": []}}])
def test_a_label_with_other_findings_belongs_to_another_owner(kept):
    assert isolation.read({"Labels": {isolation.LABEL: json.dumps({"level": "audit", "allocation_findings": kept})}}) == Isolation("unknown")


def test_invalid_findings_in_an_edited_label_are_skipped():
    kept = {"n1": {"read": NOW, "found": ["x", OUTSIDE]}}
    label = json.dumps({"level": "off", "allocation_findings": kept})
    assert isolation.read({"Labels": {isolation.LABEL: label}}).allocation_findings == {"n1": findings_of(OUTSIDE)}
