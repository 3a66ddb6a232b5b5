# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a fleet between two runs, as a table and as data."""

from __future__ import annotations

import json

import pytest
from swarm_api import A, B, discrete, named, node, pending, service, task

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._health.label import KEY, LEFT_OUT
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._tasks.tasks import epoch
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view import status
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.status_text import Screen
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.times import duration

NOW = epoch("2026-11-20T12:00:00Z")
GPU = "NVIDIA-GPU"
MARK = "gpu-swarm.former-availability"
PAUSED_FOR = "gpu-swarm.paused-for"
PLACE, IN_WORDS = "pci=00000000:C1:00.0 slot=12 serial=1322", "(PCI address 00000000:C1:00.0, slot 12, serial number 1322)"
MISSED = f"fault {A} reason=lost {PLACE}; fault reason=lost gpu=5"
WITHOUT = (
    f"excluded without consent: {A} lost {IN_WORDS}, GPU 5 lost. Repair it, or consent with gpu_node_expect. Then run provision"
)


def gpus(*numbers):
    return named(*("GPU-%d" % number for number in numbers))


def claims(one, text):
    one["Description"]["Engine"]["Labels"] = {KEY: text}
    return one


def since(one, stamp):
    return dict(one, UpdatedAt=stamp)


def read(nodes, tasks=(), services=(), names=("*",)):
    return ledger(Listed(nodes, tasks, [service(), *services], NOW), "gpu-swarm.", names)


def of(one, **more):
    (row,) = status.status(read([one], **more))["nodes"]
    return row


# -- nodes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "state", "verdict", "why"),
    [
        (node(), "ready", "done", ""),
        (node(labels={"gpu.healthy": "false"}), "ready", "done", "a GPU is excluded"),
        (claims(node(labels={"gpu.healthy": "false", LEFT_OUT: MISSED}), "warning reason=failed"), "ready; GPU excluded", "failed",
         f"warning failed; {WITHOUT}"),
        (node(availability="pause", labels={LEFT_OUT: MISSED}), "paused, by hand; GPU excluded", "failed", WITHOUT),
        (claims(node(), f"fault {A} reason=lost {PLACE}"), "fault", "failed", f"fault {A} lost {IN_WORDS}"),
        (
            claims(node(availability="pause", labels={MARK: "active", PAUSED_FOR: f"fault {A} reason=lost {PLACE}"}), f"fault {A} reason=lost"),
            "paused for a fault", "failed", f"{A} lost {IN_WORDS}; it returns to active with the first run of provision that finds nothing wrong",
        ),
        (claims(node(), "ok"), "ready", "done", ""),
        (claims(node(), f"warning {A} reason=remap"), "ready", "done", f"warning {A} remap"),
        (
            claims(node(availability="pause", labels={MARK: "active", PAUSED_FOR: f"fault {A} reason=lost since=1"}), f"fault {A} reason=lost"),
            "paused for a fault", "failed", f"{A} lost; it returns to active with the first run of provision that finds nothing wrong",
        ),
        (
            claims(node(availability="pause", labels={MARK: "active", PAUSED_FOR: "fault reason=hang"}), "ok"),
            "paused for a fault", "failed", "hang; it returns to active with the first run of provision that finds nothing wrong",
        ),
        (claims(node(), "unwatched"), "ready", "waiting", "unwatched"),
        (claims(node(), "ok drift=1f2e3d4c"), "ready", "waiting", "its files no longer contain what provision wrote"),
        (claims(node(), f"fault {A} xid=79"), "fault", "failed", f"fault {A} xid=79"),
        (
            claims(node(labels={PAUSED_FOR: f"fault {A} reason=lost since=1"}), f"fault {A} reason=lost since=1"),
            "ready", "done", f"fault {A} lost until a run found the node healthy; its watcher updates the report when no task runs there",
        ),
        (
            claims(node(labels={PAUSED_FOR: f"fault {A} reason=lost since=1"}), f"fault {A} reason=lost since=9"),
            "fault", "failed", f"fault {A} lost",
        ),
        (claims(node(availability="pause"), "fault reason=driver"), "paused, by hand; fault", "failed", "fault driver"),
        (node(availability="pause"), "paused, by hand", "waiting", ""),
        (node(availability="drain"), "drained, by hand", "waiting", ""),
        (
            node(availability="pause", labels={MARK: "active"}),
            "paused, by a run of this collection",
            "waiting",
            "it returns to active with the next run of provision",
        ),
        (
            node(availability="pause", labels={MARK: "active", "gpu-swarm.paused-by": "maintain (runs driver.yml)"}),
            "paused, by maintain (runs driver.yml)",
            "waiting",
            "it returns to active with the next run of provision",
        ),
        (node(availability="drain", labels={MARK: "active/pause", "gpu-swarm.paused-by": "provision"}), "drained, by hand", "waiting", ""),
        (node(availability="drain", State="down", Message="heartbeat failure"), "down", "failed", "heartbeat failure"),
        (node(State="unknown"), "unknown", "failed", ""),
    ],
)
def test_a_node_is_ready_or_has_a_reason(one, state, verdict, why):
    row = of(one)
    assert (row["state"], row["verdict"], row["why"]) == (state, verdict, why)


LOST = f"fault {A} reason=lost since=1764000000"
FULL = "stays in service, because 1 of the 2 GPU nodes are paused for a fault, which is the limit (swarm_member_react_limit 20 %)"


@pytest.mark.parametrize(
    ("labels", "others", "why"),
    [
        ({}, [claims(node("g2", availability="pause", labels={MARK: "active", PAUSED_FOR: LOST}), LOST)], FULL),
        ({}, [claims(node("g2"), "ok")], ""),  # the service on the managers will pause it
        ({}, [claims(node("g%d" % number), "ok") for number in range(2, 12)], ""),
        ({"fleet.gpu-swarm.on-loss": "report"}, [], "stays in service, because gpu_node_on_loss is report for this node"),
        ({MARK: "active", PAUSED_FOR: LOST}, [], "stays in service, because somebody returned it to service after it was paused for this fault"),
        ({MARK: "active", PAUSED_FOR: LOST.replace("lost", "hang")}, [], ""),
        ({MARK: "active", PAUSED_FOR: LOST + "1"}, [], ""),  # the fault came back
    ],
)
def test_why_a_node_with_a_fault_stays_in_service(labels, others, why):
    row = status.status(read([claims(node("g1", labels=labels), LOST), *others]))["nodes"][0]
    assert (row["state"], row["verdict"]) == ("fault", "failed")
    said = row["why"].partition("; ")[2]
    assert said == (f"{FULL}. To pause it, run 'docker node update --availability pause g1'" if why == FULL else why)


def test_the_limit_of_the_managers_counts():
    paused = [claims(node("p%d" % number, availability="pause", labels={MARK: "active", PAUSED_FOR: LOST}), LOST) for number in range(2)]
    nodes = [claims(node("g1"), LOST), *paused, *(claims(node("h%d" % number), "ok") for number in range(7))]
    shown = [status.status(read(nodes), limit)["nodes"][0]["why"] for limit in (20, 30)]
    assert ["2 of the 10 GPU nodes are paused" in why for why in shown] == [True, False]


def test_the_minimum_duration_is_shown():
    assert of(since(node(availability="pause"), "2026-11-20T09:00:00Z"))["for"] == 3 * 3600
    assert of(since(node(), "2026-11-20T09:00:00Z"))["for"] is None


def test_the_start_of_a_pause_by_a_run_is_shown():
    labels = {MARK: "active", "gpu-swarm.paused-since": "2026-11-20T09:00:00Z"}
    assert of(node(availability="pause", labels=labels))["since"] == "2026-11-20T09:00:00Z"
    assert of(node(availability="drain", labels=labels))["since"] is None  # a user has paused the node after that


def test_gpus_have_a_mark_for_their_state():
    one = claims(node(resources=[*gpus(1, 2), *named(A)], labels={"gpu.healthy": "false"}), f"fault {A} xid=79")
    row = of(one, tasks=[task("t1", given=gpus(1, 9))])
    assert row["gpus"][GPU]["states"] == ["allocated", "free", "faulty", "not advertised"]


def test_a_group_of_a_faulty_card_is_faulty():
    one = claims(node(resources=named(f"GPU-x+{A}", f"{B}+GPU-y")), f"fault {A} xid=79")
    assert of(one)["gpus"][GPU]["states"] == ["faulty", "free"]


def test_a_slot_of_a_faulty_card_is_faulty():
    one = claims(node(resources=named(f"{A}.slot1", f"{A}.slot2", f"{B}.slot1")), f"fault {A} xid=79")
    assert of(one)["gpus"][GPU]["states"] == ["faulty", "faulty", "free"]


def test_an_excluded_gpu_has_a_mark():
    assert of(node(resources=gpus(1), labels={"gpu.healthy": "false"}))["gpus"][GPU]["states"] == ["free", "not advertised"]


def test_an_amount_has_no_marks():
    row = of(node(resources=discrete(16000)), tasks=[task("t1", given=discrete(4000))])
    assert row["gpus"]["VRAM"] == {"total": 16000, "free": 12000, "allocated": 4000, "states": None}


def test_totals_by_kind_and_model():
    nodes = [
        node("g1", labels={"gpu.model": "T4"}, resources=gpus(1, 2)),
        node("g2", labels={"gpu.model": "T4"}, resources=gpus(3, 4, 5), availability="pause"),
        node("g3", labels={"gpu.model": "H100"}, resources=[*gpus(6), *discrete(500)]),
    ]
    found = status.status(read(nodes, [task("t1", "g1", gpus(1))]))["totals"]
    assert [tuple(row.values()) for row in found] == [
        (GPU, "H100", 1, 0, 1, 1, 1),
        (GPU, "T4", 5, 1, 4, 1, 1),
        ("VRAM", "H100", 500, 0, 500, 500, 500),
    ]


# -- the exit status -------------------------------------------------------------------------------------------------


def test_waiting_and_failing_services_are_counted():
    nodes = [node("g1"), node("g2", availability="pause"), node("g3", State="down"), node("g4", resources=gpus(1))]
    tasks = [pending("t1", {GPU: 9}), pending("t2", {GPU: 1}, service="s2"), task("t3", "g4", gpus(1), service="s3")]
    tasks.append(task("t4", "g4", gpus(1), service="s3", slot=2))
    never, waits = service("s1", "train", reserves={GPU: 9}), service("s2", "waits", reserves={GPU: 1})
    found = status.status(ledger(Listed(nodes, tasks, [never, waits, service("s3", "twice")], NOW), "gpu-swarm.", ["*"]))
    assert (found["waiting"], found["wrong"]) == (["host-g2", "waits"], ["host-g3", "train", "host-g4"])


def test_a_healthy_fleet_has_exit_status_0():
    found = status.status(read([node(resources=gpus(1))], [task("t1", given=gpus(1))]))
    assert (found["waiting"], found["wrong"], found["faulty"], found["free"]) == ([], [], [], [])
    assert json.loads(json.dumps(found)) == found


# -- one service -----------------------------------------------------------------------------------------------------


def one_service(reserves=None, tasks=()):
    nodes = [node("g1", resources=gpus(1)), node("g2", resources=gpus(2, 3), availability="pause")]
    return status.service_row(read(nodes, tasks, [service("s2", "big", reserves=reserves)], names=["big"]), "big")


@pytest.mark.parametrize(
    ("reserves", "tasks", "verdict"),
    [
        ({GPU: 1}, [task("t1", "g1", service="s2")], "done"),
        ({GPU: 2}, [pending("t1", {GPU: 2}, service="s2")], "waiting"),
        ({GPU: 3}, [pending("t1", {GPU: 3}, service="s2")], "failed"),
    ],
)
def test_a_service_is_placed_or_waits_or_never_fits(reserves, tasks, verdict):
    assert one_service(reserves, tasks)["verdict"] == verdict


def test_a_service_that_has_all_of_its_tasks_waits_for_nothing():
    """This holds even if the fleet is full."""
    found = one_service({GPU: 1}, [task("t1", "g1", gpus(1), service="s2")])
    assert (found["verdict"], status.only_service(found)["waiting"]) == ("done", [])
    text = "it has all of its tasks; one more needs 1 NVIDIA-GPU on one node: host-g1 has 0 NVIDIA-GPU free; host-g2: room"
    assert found["text"].startswith(text)


def test_nothing_is_wrong_with_a_global_service_that_has_its_tasks():
    """This holds even if no other node could run the service."""
    nodes = [node("g1", labels={"gpu": "true"}), node("m1")]
    one = service("s2", "dcgm", mode="Global", constraints=["node.labels.gpu==true"])
    tasks = [task("t1", "g1", service="s2", slot=None)]
    assert status.service_row(read(nodes, tasks, [one], names=["dcgm"]), "dcgm")["verdict"] == "done"
    assert status.service_row(read(nodes[1:], [], [one], names=["dcgm"]), "dcgm")["verdict"] == "failed"


@pytest.mark.parametrize("reserves", [{GPU: 1}, {GPU: 3}])
@pytest.mark.parametrize(("replicas", "state", "said"), [
    (1, "complete", "it has finished: 1 of 1 tasks are complete"),
    (1, "failed", "1 task has ended and is not started again (restart condition none); the last failed with: exit 1"),
    (0, None, "it is scaled to 0 replicas"),
])  # fmt: skip
def test_a_finished_service_waits_for_nothing(reserves, replicas, state, said):
    """This also holds if no node could run the service any more."""
    one = service("s2", "big", reserves=reserves)
    one["Spec"]["Mode"]["Replicated"]["Replicas"] = replicas
    one["Spec"]["TaskTemplate"]["RestartPolicy"] = {"Condition": "none"}
    tasks = [task("t1", "g1", service="s2", state=state, desired="shutdown", error="exit 1" if state == "failed" else None)] if state else []
    nodes = [node("g1", resources=gpus(1))]
    found = status.service_row(read(nodes, tasks, [one], names=["big"]), "big")
    assert (found["verdict"], found["text"]) == ("done", said)
    assert Screen().service(found).count(said) == 1
    whole = status.status(read(nodes, [*tasks, task("t2")], [one]))
    assert (whole["pending"], whole["waiting"], whole["wrong"]) == ([], [], [])


def test_a_missing_service_is_an_error():
    assert status.service_row(read([node()], names=["gone"]), "gone") is None


def test_the_reason_of_a_pending_service_is_a_text():
    waiting = pending("t1", {GPU: 2}, service="s2", since="2026-11-20T11:58:00Z")
    assert Screen().service(one_service({GPU: 2}, [waiting])) == """\
big: needs 2 NVIDIA-GPU on one node: host-g2: room, but it takes no new tasks (paused, by hand)

  0 of 1 tasks have a node, 1 wait (for 2 min)
  feasible nodes: none; room for 0 tasks
  swarm's message: no suitable node (insufficient resources on 1 node)

filter     nodes
─────────  ─────
ready          1
resources      1

nearest misses
──────────────────────────────────────────────────────────
host-g2: room, but it takes no new tasks (paused, by hand)"""


# -- the screen ------------------------------------------------------------------------------------------------------


def fleet():
    nodes = [
        node("g1", resources=gpus(1, 2)),
        since(node("g2", resources=gpus(3), availability="pause", labels={MARK: "active"}), "2026-11-20T09:00:00Z"),
        claims(node("g3", resources=gpus(4), availability="pause"), "fault reason=driver since=1764000000"),
    ]
    tasks = [task("t1", "g1", gpus(1), since="2026-11-20T10:00:00Z"), pending("t2", {GPU: 2}, service="s2", since="2026-11-20T11:58:00Z")]
    return status.status(dict(read(nodes, tasks, [service("s2", "big", reserves={GPU: 2})]), owners={"train": "alice"}))


def test_everything_fits_on_one_screen():
    text = Screen().show(fleet(), "all")
    assert text.startswith("node     state")
    assert "host-g1  ready" in text
    assert "NVIDIA-GPU ■□  train.1 (alice, 2 h)" in text
    assert "paused, by a run of this collection ≥ 3 h: it returns to active with the next run of provision" in text
    assert "paused, by hand; fault since 2025-11-24T16:00:00Z: fault driver" in text
    assert "■ allocated  □ free  × faulty  · not advertised" in text
    assert "big          1  2 min  needs 2 NVIDIA-GPU on one node: host-g1 has 1 NVIDIA-GPU free and would have 2 if train.1 ended" in text
    assert text.endswith("nodes: 3, ready: 1\nisolation: off")
    assert status.outcome(fleet()) == "Wrong: host-g3. Waiting: host-g2, big."


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("free", ["host-g1  NVIDIA-GPU     1  –                                    GPU-2", "schedulable"]),
        ("holders", ["host-g1  train.1  alice  2 h  NVIDIA-GPU  GPU-1"]),
        ("pending", ["big"]),
        ("faulty", ["host-g3  paused, by hand; fault  fault driver"]),
    ],
)
def test_parts_can_be_selected(what, words):
    text = Screen().show(fleet(), what)
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize("width", [40, 60, 79, 120])
@pytest.mark.parametrize("what", ["all", "free", "holders", "pending", "faulty"])
def test_a_narrow_terminal_is_used(width, what):
    assert [line for line in Screen(width).show(fleet(), what).splitlines() if len(line) > width] == []


def test_lines_have_the_colour_of_their_state():
    text = Screen(paint=lambda line, colour: f"<{colour}>{line}").show(fleet(), "all")
    lines = {line.split()[0]: line for line in text.splitlines() if "host-g" in line}
    assert {"<yellow>host-g2", "<red>host-g3", "host-g1"} <= set(lines)


def test_many_gpus_are_counted():
    one = status.status(read([node(resources=gpus(*range(20)))], [task("t1", given=gpus(1, 2))]))
    assert "NVIDIA-GPU 2■ 18□" in Screen().show(one, "all")


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (200000, "2 d")]
)
def test_durations_are_formatted(seconds, text):
    assert duration(seconds) == text


# -- wrong counts of a restarted leader ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("again", "shown"), [({"t1": ["GPU-2"]}, True), ({"t1": ["GPU-1"]}, False), ({"gone": ["GPU-2"]}, False), ({}, False), (None, False)]
)
def test_a_gpu_that_the_leader_wrongly_counts_as_free_is_named_with_its_task(again, shown):
    found = read([node(resources=gpus(1, 2))], [task("t1", given=gpus(2))])
    found["swarm"] = {"isolation": {"level": "exclusive", "nodes": {"n1": "exclusive"}, "again": again}}
    made = status.status(found)
    (row,) = made["nodes"]
    assert row["why"] == ("may be allocated again: GPU-2 (what=faulty)" if shown else "")
    assert made["wrong"] == made["waiting"] == []  # nothing is wrong until swarm gives this GPU to a task
    assert [(one["node"], one["what"]) for one in made["faulty"]] == ([("host-n1", "may be allocated again")] if shown else [])
    if shown:
        assert made["faulty"][0]["details"] == (
            "GPU-2: train.1 has it, but the managers' leader, which restarted later, counts it as free. Pause the node, restart this service (docker "
            "service update --detach --force train) and the other old tasks there, then make the node active again"
        )
