# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One row for each card, with the tasks that have it."""

from __future__ import annotations

import json

import pytest
from swarm_api import A, B, discrete, named, node, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY, LEFT_OUT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.fleet_cards import cards

NOW = epoch("2026-11-20T12:00:00Z")
SINCE = "2026-11-20T12:00:00.123456789Z"


def rows(*nodes, tasks=()):
    return cards({**ledger(Listed(nodes, tasks, [service()], NOW), "gpu-swarm."), "owners": {"train": "alice"}})


def reporting(text, **options):
    one = node(**options)
    one["Description"]["Engine"]["Labels"] = {KEY: text}
    return one


def held(**what):
    return {"kind": "NVIDIA-GPU", "state": "allocated", "task": "train.1", "service": "train", "owner": "alice", "since": SINCE, **what}


def free(**what):
    return {"kind": "NVIDIA-GPU", "state": "free", "task": None, "service": None, "owner": None, "since": None, **what}


def test_a_card_has_its_node_its_model_and_its_task():
    found = rows(node(labels={"gpu.count": "2", "gpu.healthy": "true", "gpu.model": "T4"}, resources=named(A, B)), tasks=[task("t1", given=named(B))])
    first = {"node": "host-n1", "node_id": "n1", "card": A, "model": "T4", "mib": None, "state": "free", "reason": "", "schedulable": True}
    assert found == [
        {**first, "parts": [free(value=A)]},
        {**first, "card": B, "state": "allocated", "parts": [held(value=B)]},
    ]
    assert json.loads(json.dumps(found)) == found


def test_slots_are_parts_of_their_card_and_groups_belong_to_each_of_theirs():
    slots = named(f"{A}.slot0", f"{A}.slot1", kind="NVIDIA-SLOT")
    pair = named(f"{A}+{B}", kind="NVIDIA-PAIR")
    (one,) = rows(node(resources=slots), tasks=[task("t1", given=named(f"{A}.slot1", kind="NVIDIA-SLOT"))])
    assert (one["card"], one["state"]) == (A, "allocated")
    assert one["parts"] == [free(kind="NVIDIA-SLOT", value=f"{A}.slot0"), held(kind="NVIDIA-SLOT", value=f"{A}.slot1")]
    both = rows(node(resources=pair), tasks=[task("t1", given=pair)])
    assert [(row["card"], row["state"], row["parts"]) for row in both] == [
        (card, "allocated", [held(kind="NVIDIA-PAIR", value=f"{A}+{B}")]) for card in (A, B)
    ]


def test_a_kind_without_names_has_one_row_for_each_node():
    (one,) = rows(node(resources=discrete(8000)), tasks=[task("t1", given=discrete(3000))])
    assert (one["card"], one["state"]) == (None, "allocated")
    assert one["parts"] == [held(kind="VRAM", amount=3000), free(kind="VRAM", amount=5000)]


@pytest.mark.parametrize(
    ("labels", "report", "card", "state", "reason"),
    [
        ({}, f"fault {A} reason=lost", A, "faulty", f"fault {A} lost"),
        ({}, f"warning {A} reason=remap", A, "free", ""),
        ({LEFT_OUT: f"fault {B} reason=lost"}, "ok", B, "excluded", f"{B} lost"),
        ({LEFT_OUT: f"ok {B} reason=lost"}, "ok", B, "excluded", f"{B} lost (its loss is accepted)"),
        ({LEFT_OUT: "fault reason=lost gpu=5"}, "ok", None, "excluded", "GPU 5 lost"),
    ],
)
def test_a_faulty_or_excluded_card_has_a_reason(labels, report, card, state, reason):
    found = {row["card"]: row for row in rows(reporting(report, labels=labels, resources=named(A)))}
    assert (found[card]["state"], found[card]["reason"]) == (state, reason)


def test_a_faulty_card_that_a_task_still_has_is_faulty():
    (one,) = rows(reporting(f"fault {A} reason=lost", resources=named(A)), tasks=[task("t1", given=named(A))])
    assert (one["state"], one["parts"]) == ("faulty", [held(value=A)])


def test_a_card_that_two_tasks_have_lists_both_and_one_that_is_gone_says_so():
    tasks = [task("t1", given=named(A)), task("t2", given=named(A, B), slot=2)]
    found = {row["card"]: row["parts"] for row in rows(node(resources=named(A)), tasks=tasks)}
    assert found == {A: [held(value=A), held(value=A, task="train.2")], B: [held(value=B, task="train.2", state="not advertised")]}


def test_a_card_of_a_closed_node_takes_no_tasks():
    assert [row["schedulable"] for row in rows(node(availability="pause", resources=named(A)))] == [False]


@pytest.mark.parametrize("junk", ["", ".slot", "+", "\x1b[2K", "GPU-", f"{A}.slotx", "'; DROP TABLE x", "FPGA+1"])
def test_odd_values_have_rows_too(junk):
    found = rows(node(resources=named(junk)), tasks=[task("t1", given=named(junk))])
    assert [part["value"] for row in found for part in row["parts"]] == [junk] * len(found)
    assert found
