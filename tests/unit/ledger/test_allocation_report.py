# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Differences between processes and reservations in the ledger. Claims about other nodes or ended tasks are ignored."""

from __future__ import annotations

import pytest
from swarm_api import named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.allocation_findings import Finding
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.allocation_report import allocation_findings, describe, findings
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm.isolation import NodeFindings

A, B, FREE, FOREIGN, OWN = ("GPU-00000000-1111-2222-3333-44444444444%d" % place for place in range(5))
NODES = [node("n1", resources=named(A, B, FREE)), node("n2", resources=named(FOREIGN))]
TASKS = [
    task("t1", given=named(A)),
    task("t2", given=named(B), slot=2),
    task("t3", slot=3),
    task("t4", given=named(FOREIGN), node_id="n2", slot=4),
    task("t5", given=named(FREE), state="complete", desired="shutdown", slot=5),
]
SINCE, READ = 1764000000, 1764003600


def of(*found, node_id="n1"):
    records = ledger(Listed(NODES, TASKS, [service()], READ), "gpu-swarm.")["nodes"]
    return allocation_findings(records, {node_id: NodeFindings(READ, found)})


def finding(name, card, task_id="", holder="", by="python3"):
    return Finding(name, card, task_id, holder, by, SINCE)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (finding("used-by-another", A, "t3", "t1"), "train.3 (python3) uses it, but it is allocated to train.1 (since 2025-11-24T16:00:00Z)"),
        (
            finding("seen-by-another", A, "", "t1", "container notebook"),
            "container notebook sees it and has no process there, but it is allocated to train.1 (since 2025-11-24T16:00:00Z)",
        ),
        (finding("used-by-another", A, "", "t1", "alice (py)"), "alice (py) uses it, but it is allocated to train.1 (since 2025-11-24T16:00:00Z)"),
        (finding("not-held", FREE, "t3"), "train.3 (python3) uses it, but it is allocated to no task (since 2025-11-24T16:00:00Z)"),
        # the node does not advertise this card
        (finding("not-held", OWN, "t3"), "train.3 (python3) uses it, but it is allocated to no task (since 2025-11-24T16:00:00Z)"),
        (finding("idle", B, "t2", by=""), "it is allocated to train.2, which has had no process there since 2025-11-24T16:00:00Z"),
        (finding("no-load", B, "t2", by=""), "it is allocated to train.2, which has computed nothing there since 2025-11-24T16:00:00Z"),
        (finding("outside", FREE, by="root (Xorg)"), "root (Xorg) uses it, but it is allocated to no task (since 2025-11-24T16:00:00Z)"),
    ],
)
def test_a_finding_gets_its_names_from_the_manager(one, words):
    (shown,) = of(one)
    assert describe(shown) == words
    assert (shown["name"], shown["node"], shown["hostname"], shown["card"]) == (one.name, "n1", "host-n1", one.card)
    assert (shown["task_id"], shown["holder_id"]) == (one.task or None, one.holder or None)
    assert shown["service"] == ("train" if one.task or one.holder else None)
    (warned,) = findings([shown])
    assert warned["id"] == one.name
    assert f"{one.card} on node host-n1: {words}" in warned["text"]


@pytest.mark.parametrize(
    "one",
    [
        finding("used-by-another", A, "t4", "t1"),  # a task of another node
        finding("used-by-another", A, "t3", "t4"),
        finding("used-by-another", A, "gone", "t1"),
        finding("used-by-another", A, "t3", "t3"),  # the holder has no reservation
        finding("used-by-another", A, "t3"),
        finding("seen-by-another", A, "", "", "container notebook"),
        finding("seen-by-another", A, "", "gone", "container notebook"),
        finding("not-held", FOREIGN, "t3"),  # a card of another node
        finding("not-held", FREE, "t5"),  # the task has already ended
        finding("idle", B, "t3"),  # the task has no reservation
        finding("idle", FREE, "t5"),
        finding("no-load", B, "t3"),
        finding("outside", FOREIGN),
    ],
)
def test_claims_about_other_nodes_and_ended_tasks_are_ignored(one):
    assert of(one) == []
    assert of(one, node_id="none") == []


@pytest.mark.parametrize("name", ["idle", "no-load"])
def test_the_finding_about_an_unused_card_has_the_command_to_copy(name):
    shown = of(finding(name, B, "t2", by=""))
    (text,) = findings([*shown, {**shown[0], "service": "two words"}, {**shown[0], "service": None}])
    assert "docker service scale train=0 'two words'=0" in text["text"]


def test_without_findings_the_report_is_empty():
    assert (of(), findings([])) == ([], [])
