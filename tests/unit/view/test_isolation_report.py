# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests how status shows isolation: the level, the nodes with an older level, and when it is safe to enforce."""

from __future__ import annotations

import json

import pytest
from swarm_api import named, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.isolation_state import result
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.isolation import LABEL
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view import status
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.isolation_report import describe
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.status_text import Screen

NOW = 1764000000
HOUR, DAY = 3600, 86400
READ = "2025-11-24T15:59:50Z"


def shown(label, services=("train",), nodes=None):
    nodes = nodes or [node("n1", resources=named("GPU-1")), node("n2", resources=named("GPU-2")), node("m1", leader=True)]
    kept = result({"Labels": {LABEL: json.dumps(label)} if label else {}}, services, NOW)
    return status.status({**ledger(Listed(nodes, [], [], NOW), "gpu-swarm."), "swarm": {"isolation": kept}})


def audit(since, last=None, names=("forged",), read=NOW - 10):
    found = {"found": {"train": {"names": list(names), "last": last}}} if last else {}
    return {"level": "audit", "since": since, "nodes": {"audit": ["n1", "n2"]}, "read": read, **found}


@pytest.mark.parametrize(
    ("label", "differ", "waiting"),
    [
        (None, {}, []),
        ({"level": "audit", "nodes": {"audit": ["n1", "n2"]}}, {}, []),
        ({"level": "audit", "nodes": {"audit": ["n1"]}}, {"host-n2": "off"}, ["host-n2"]),
        ({"level": "reserved", "nodes": {"reserved": ["n1"], "audit": ["n2"]}}, {"host-n2": "audit"}, ["host-n2"]),
        ({"level": "off", "nodes": {"audit": ["n2"]}}, {"host-n2": "audit"}, ["host-n2"]),
        ({"level": "x"}, {"host-n1": "off", "host-n2": "off"}, ["host-n1", "host-n2"]),
    ],
)
def test_a_node_that_is_not_at_the_level_of_its_swarm_waits(label, differ, waiting):
    found = shown(label)
    assert (found["isolation"]["differ"], found["waiting"], found["wrong"]) == (differ, waiting, [])
    why = {row["node"]: row["why"] for row in found["nodes"]}
    assert {name: why[name] for name in differ} == {name: f"isolation {level}, not {found['isolation']['level']}" for name, level in differ.items()}
    assert why["host-m1"] == ""


def test_differences_of_processes_and_reservations_have_a_table():
    nodes = [node("n1", resources=named("GPU-1"))]
    one = {"name": "outside", "hostname": "host-n1", "card": "GPU-1", "task": None, "by": "alice (py)", "holder": None, "since": READ, "read": READ}
    found = status.status({**ledger(Listed(nodes, [], [], NOW), "gpu-swarm."), "allocation_findings": [one]})
    words = "alice (py) uses it, but it is allocated to no task (since 2025-11-24T15:59:50Z)"
    assert found["allocation_findings"] == [{"node": "host-n1", "card": "GPU-1", "finding": "outside", "details": words, "read": READ}]
    assert (found["waiting"], found["wrong"]) == ([], [])
    screen = Screen()
    assert [words in screen.show(found, what) for what in ("all", "holders", "free", "pending", "faulty")] == [True, True, False, False, False]
    assert "what uses it" not in screen.show({**found, "allocation_findings": []}, "all")


def test_a_guard_that_is_broken_is_not_safe_to_enforce():
    label = {**audit(1), "found": {"": {"names": ["broken"], "last": NOW - HOUR}}}
    assert describe(shown(label)["isolation"]) == "isolation: audit; change these before isolation is enforced: the guard of a node (broken)"


@pytest.mark.parametrize(
    ("label", "services", "words"),
    [
        (None, (), "isolation: off"),
        ({"level": "reserved", "nodes": {}}, (), "isolation: reserved"),
        (
            {**audit(NOW - 12 * DAY), "nodes": {"audit": ["n1"]}}, (),
            "isolation: audit; not all GPU nodes have this level: run provision on host-n2",
        ),
        (
            {**audit(NOW - 12 * DAY), "nodes": {"audit": ["n1"], "reserved": ["n2"]}}, (),
            "isolation: audit; not all GPU nodes have this level: run provision on host-n2",
        ),
        (audit(1, read=None), (), "isolation: audit; no run has read the violations of all nodes yet"),
        (audit(NOW - 12 * DAY - 10), ("train",), f"isolation: audit; no violation for 12 days: safe to enforce (read by the run of {READ})"),
        (
            audit(NOW - 5 * HOUR - 10), (),
            f"isolation: audit; no violation for 5 hours; safe to enforce after 7 days without one (read by the run of {READ})",
        ),
        (
            audit(1, NOW - HOUR, ("forged", "hidden")), ("train",),
            "isolation: audit; change these before isolation is enforced: train (forged, hidden)",
        ),
        (
            {**audit(NOW - 12 * DAY), "joined": NOW - 3 * DAY - 10}, (),  # a new node
            f"isolation: audit; no violation for 3 days; safe to enforce after 7 days without one (read by the run of {READ})",
        ),
        (audit(1, NOW - HOUR, read=None), ("train",), "isolation: audit; change these before isolation is enforced: train (forged)"),
        (audit(1, NOW - 8 * DAY), ("train",), f"isolation: audit; no violation for 7 days: safe to enforce (read by the run of {READ})"),
        (
            audit(NOW - 9 * DAY - 10, NOW - HOUR), ("other",),
            f"isolation: audit; no violation for 9 days: safe to enforce (read by the run of {READ})",
        ),
    ],
)  # fmt: skip
def test_the_line_has_the_level(label, services, words):
    found = shown(label, services)
    assert describe(found["isolation"]) == words
    assert found["isolation"]["safe"] is ("safe to enforce (" in words)
    assert words in Screen().show(found, "all")
