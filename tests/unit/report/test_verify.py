# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from fleet_lab import assessed, member

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report import verify as report

RUNNING = {"running": True}


GOOD = "sees the GPUs allocated to it and no others"


def check(state="passed", verdict=GOOD, kind="NVIDIA-GPU", count=1, reserved=("a",), seen=("a",), node="n1", probe="allocated"):
    made = {"node": node, "kind": kind, "count": count, "reserved": list(reserved), "seen": list(seen), "state": state, "verdict": verdict}
    return {**made, "probe": probe}


def unreserved(state="passed", verdict="without a reservation, a task is refused", seen=(), **other):
    return check(state, verdict, None, 0, (), seen, probe="unreserved", **other)


def beside(state="passed", verdict="with variables that request more than it reserved, a task is refused", reserved=("a",), seen=(), **other):
    return check(state, verdict, reserved=reserved, seen=seen, probe="beside", **other)


def about(answer=None, node=None, checks=(), problems=None):
    answer = assessed(engine=RUNNING) if answer is None else answer
    swarm = report.SwarmResult({"checks": list(checks), "ledger_problems": problems or {}})
    return report.host_result(answer, member() if node is None else node, "n1", swarm)


def test_a_node_that_works():
    found = about(checks=[check(), check(node="n2", state="failed")])
    assert found.wrong == []
    assert report.rows("gpu-1", found) == [["gpu-1", "1 NVIDIA-GPU", "1", "passed: sees the GPUs allocated to it and no others"]]


def test_slots_with_the_same_result_share_a_line():
    bad = check("failed", "NOT ISOLATED: sees 2", seen=("a", "b"))
    free = check("untested", "nothing free to test with", reserved=(), seen=())
    assert report.rows("gpu-1", about(checks=[check(), check(), bad, check(), free, free])) == [
        ["gpu-1", "3 × 1 NVIDIA-GPU", "1", "passed: sees the GPUs allocated to it and no others"],
        ["gpu-1", "1 NVIDIA-GPU", "2", "FAILED: NOT ISOLATED: sees 2"],
        ["gpu-1", "–", "–", "not tested: nothing free to test with (NVIDIA-GPU)"],
    ]


@pytest.mark.parametrize(
    ("given", "row"),
    [
        (
            check("failed", "NOT ISOLATED: 1 allocated, but the task sees 2, also b. Run provision", seen=("a", "b")),
            ["1 NVIDIA-GPU", "2", "FAILED: NOT ISOLATED: 1 allocated, but the task sees 2, also b"],
        ),
        (check("untested", "nothing free to test with", reserved=(), seen=()), ["–", "–", "not tested: nothing free to test with (NVIDIA-GPU)"]),
        (check("untested", "no named GPUs", kind=None, reserved=(), seen=()), ["–", "–", "not tested: no named GPUs"]),
        (check("planned", "", count=2, reserved=(), seen=()), ["2 NVIDIA-GPU", "–", "would be tested"]),
        (unreserved("planned", ""), ["–", "–", "would be tested: without a reservation"]),
        (beside("planned", "", reserved=()), ["1 NVIDIA-GPU", "–", "would be tested: with variables that request more than it reserved"]),
        (unreserved(), ["–", "0", "passed: without a reservation, a task is refused"]),
        (beside(), ["1 NVIDIA-GPU", "0", "passed: with variables that request more than it reserved, a task is refused"]),
        (unreserved("failed", "NOT ISOLATED: a task sees 2. Run", seen=("a", "b")), ["–", "2", "FAILED: NOT ISOLATED: a task sees 2"]),
        (unreserved("untested", "swarm places no task there: x"), ["–", "–", "not tested: swarm places no task there: x"]),
        (
            check("failed", "down according to the manager. Check", kind=None, reserved=(), seen=()),
            ["–", "0", "FAILED: down according to the manager"],
        ),
    ],
)
def test_a_check_has_a_line(given, row):
    assert report.rows("gpu-1", about(checks=[given])) == [["gpu-1", *row]]


def test_a_failure_is_reported_in_full_with_its_remedy():
    found = about(checks=[check("failed", "NOT ISOLATED: sees 2. Run provision"), check("untested", "no named GPUs", kind=None)])
    assert found.wrong == ["NVIDIA-GPU: NOT ISOLATED: sees 2. Run provision"]


@pytest.mark.parametrize(
    ("answer", "node", "words"),
    [
        ({"unreachable": True, "msg": "no route"}, None, ["could not be read: no route"]),
        ({"failed": True, "msg": "NVML finds no GPU"}, None, ["could not be read: NVML finds no GPU"]),
        ({}, None, ["could not be read: the host did not answer"]),
        (assessed(engine=None), None, ["dockerd does not run."]),
        (assessed(engine={"running": False}), None, ["dockerd does not run."]),
        (assessed(engine=RUNNING, drift=["swarm-resource is not set", "x"]), None, ["drift: swarm-resource is not set; x. Run"]),
        (assessed(engine=RUNNING, refused=[{"id": "shrink", "text": "a GPU is gone"}]), None, ["a GPU is gone"]),
        (None, member(shown=(0,)), ["the manager shows 1 of 2 NVIDIA-GPU. Run"]),
        (assessed(engine=RUNNING, drift=["x"]), member(shown=(0,)), ["drift: x. Run"]),
    ],
)
def test_disagreements_of_gpus_and_files_and_daemon_and_manager_are_shown(answer, node, words):
    if answer is None:
        answer = assessed(engine=RUNNING)
    found = about(answer, node)
    assert len(found.wrong) == len(words)
    assert all(one.startswith(begin) for one, begin in zip(found.wrong, words, strict=True))


def test_a_host_outside_any_swarm_is_reported():
    found = report.host_result(assessed(engine=RUNNING, node_id=None), None, None, report.SwarmResult({}))
    assert found.wrong == ["not in this manager's swarm. Run fleet.gpu_swarm.provision for this host"]


RECORD = {"gpu-swarm.labels": "gpu.count,gpu.model"}
MODEL = "NVIDIA-H100-80GB-HBM3"


@pytest.mark.parametrize(
    ("labels", "untrue"),
    [
        ({"gpu.count": "2", "gpu.model": MODEL, **RECORD}, []),
        ({"gpu.count": "2", "gpu.model": MODEL}, []),
        ({"gpu.count": "2", "gpu.model": MODEL, "mine": "x", **RECORD}, []),
        ({"gpu.count": "8", "gpu.model": MODEL, **RECORD}, ["gpu.count is 8, but should be 2"]),
        ({"gpu.count": "8", "gpu.model": MODEL}, ["gpu.count is 8, but should be 2"]),
        ({"gpu.count": "2", "gpu-swarm.labels": "gpu.count"}, [f"gpu.model is not set, but should be {MODEL}"]),
        (
            {"gpu.count": "2", "gpu.model": MODEL, "gpu.mig": "true", "gpu-swarm.labels": "gpu.count,gpu.mig,gpu.model"},
            ["gpu.mig is true, but should be not set"],
        ),
    ],
)
def test_wrong_labels_are_reported(labels, untrue):
    assert about(node=member(labels=labels)).wrong == [f"label {text}. Run fleet.gpu_swarm.provision for this host" for text in untrue]


def test_a_wrong_ledger_is_reported():
    assert about(problems={"n1": ["1 NVIDIA-GPU in all, but 2 held"], "n2": ["x"]}).wrong == ["1 NVIDIA-GPU in all, but 2 held"]


def with_image(node, name="nvidia/cuda:12", source="there", kind="NVIDIA-GPU"):
    return dict(check(node=node, kind=kind), image={"name": name, "reference": "sha256:0", "from": source})


def test_images_and_their_reasons_are_listed_under_the_table():
    checks = [
        with_image("n1"),
        with_image("n1", kind="MIG"),
        with_image("n2"),
        with_image("n3", "cuda:13\x1b[2J", "pull"),
        dict(check("untested", node="n4"), image=None),
        with_image("n5", "mine:1", "named"),
        with_image("of-nobody"),
    ]
    used = report.images({f"n{number}": f"g{number}" for number in range(1, 6)}, {"checks": checks})
    assert used == [
        "image nvidia/cuda:12, which the node has: g1, g2",
        "image cuda:13\\x1b[2J, which is pulled, because the node has no suitable image: g3",
        "image mine:1, which was named: g5",
    ]


FULL = "nothing free to test with"


@pytest.mark.parametrize(
    ("checks", "why"),
    [
        ([check("untested", FULL)], {"a": FULL}),
        ([check("untested", FULL), check("untested", "it takes no tasks (availability pause)", node="n2")], {
            "a": FULL, "b": "it takes no tasks (availability pause)",
        }),
        ([check("untested", FULL), unreserved()], {"a": FULL}),  # this check does not show the GPUs that tasks get
        ([check("untested", FULL), check(node="n2")], {}),
        ([check("untested", FULL), check("untested", "no named GPUs", kind=None, node="n2")], {"a": FULL}),
        ([check("untested", "no named GPUs", kind=None)], {}),  # no later run can test a task on this node either
        ([check("planned"), check("untested", FULL, node="n2")], {}),
        ([], {}),
    ],
)  # fmt: skip
def test_a_fleet_without_tests_is_reported(checks, why):
    assert report.untested({"a": "n1", "b": "n2", "c": None}, {"checks": checks}) == why


def test_the_outcome_is_one_line():
    hosts, not_tried = ["a", "b", "c"], {"a": FULL, "b": FULL, "c": "it takes no tasks (availability pause)"}
    reasons = "nothing free to test with on a, b, it takes no tasks (availability pause) on c"
    assert report.outcome(hosts, {}, {}) == "Nothing is wrong with 3 of 3 nodes."
    assert report.outcome(hosts, {}, not_tried) == f"NOT TESTED, so the exit status is 75: {reasons}."
    assert report.outcome(hosts, {"b": ["x"]}, not_tried) == "Something is wrong with 1 of 3 nodes: b."


def test_the_sum_under_the_table():
    tested = {"checks": [check(), check(kind="MIG", seen=("MIG-b",)), check(seen=("MIG-b",)), check("failed", node="n2")]}
    assert report.summary(["a", "b"], {"b": ["x"]}, tested) == "nodes: 2; with something wrong: 1; proved by a task: 1; GPUs allocated and seen: 2"
    planned = report.summary(["a"], {}, {"checks": [check("planned")]})
    assert planned == "nodes: 1; with something wrong: 0; nothing was started (check mode)"


def test_memory_is_shown_as_reserved_and_proves_its_node():
    made = check(kind="VRAM", count=301, probe="memory", reserved=["a"], seen=["a"])
    assert report.rows("g1", report.HostResult([made], [])) == [["g1", "301 VRAM", "1", "passed: " + GOOD]]
    assert "proved by a task: 1; GPUs allocated and seen: 1" in report.summary(["g1"], {}, {"checks": [made]})


@pytest.mark.parametrize(
    ("probes", "proved"),
    [
        ([], None),
        ([unreserved(), beside(), unreserved(node="n2")], 2),
        ([unreserved(), beside("failed"), unreserved(node="n2")], 1),
        ([unreserved("untested")], 0),
    ],
)
def test_the_number_of_proved_nodes_is_shown(probes, proved):
    text = report.summary(["a", "b"], {}, {"checks": [check("untested"), *probes]})
    assert "; proved by a task: 0; GPUs allocated and seen: 0" in text
    assert ("isolation proved: %s" % proved in text) is (proved is not None)


def test_nodes_that_enforce_nothing_are_reported():
    """A host is not named if its level is unknown, or if its guard enforces the level."""
    levels = {"off": None, "audits": guard("audit"), "audits-too": guard("audit"), "by-file": guard("reserved", True), "off-too": guard("off")}
    answers = {name: assessed(engine=RUNNING, isolation=found) for name, found in {**levels, "r": guard("reserved"), "e": guard("exclusive")}.items()}
    unknown = {"none": None, "lost": {"unreachable": True}, "stopped": assessed(engine=None, isolation=None), "old": assessed(engine=RUNNING)}
    assert report.enforcement({**answers, **unknown}) == [
        "isolation off (gpu_swarm_isolation): a task can see all GPUs of its node: off, off-too",
        "isolation audit: nothing is enforced, and a task can see all GPUs of its node: audits, audits-too",
        "isolation turned off by a file on the node (docs/operate/isolation.md): a task can see all its GPUs: by-file",
    ]


def guard(level, turned_off=False):
    return {"level": level, "turned_off": turned_off, "found": {}}


def levelled(node_level, swarm_level, node=None, **answer):
    answer = assessed(engine=RUNNING, **{"isolation": node_level and guard(**node_level), **answer})
    shown = {"level": swarm_level, "label": "{}"} if swarm_level else {"level": "off", "label": ""}
    return report.host_result(answer, node or member(), "n1", report.SwarmResult({}, shown)).wrong


@pytest.mark.parametrize(
    ("now", "swarm", "words"),
    [
        (None, "reserved", "isolation is off, but the swarm's level is reserved"),
        (None, "audit", "isolation is off, but the swarm's level is audit"),
        ({"level": "audit"}, "reserved", "isolation is audit, but the swarm's level is reserved"),
        ({"level": "exclusive"}, "reserved", "isolation is exclusive, but the swarm's level is reserved"),
        ({"level": "reserved"}, "off", "isolation is reserved, but the swarm's level is off"),
        ({"level": None}, "reserved", "the settings of its guard cannot be read"),
        ({"level": None}, None, "the settings of its guard cannot be read"),
    ],
)
def test_a_node_with_another_level_than_the_swarm_fails(now, swarm, words):
    assert levelled(now, swarm) == [f"{words}. Run fleet.gpu_swarm.provision for this host"]


@pytest.mark.parametrize(
    ("now", "swarm"),
    [
        ({"level": "reserved"}, "reserved"),
        (None, "off"),
        (None, None),
        ({"level": "reserved"}, None),  # only the role gpu_node ran, so the swarm has no level
        ({"level": "reserved", "turned_off": True}, "reserved"),  # a file of the operator turns the guard off; a note under the table reports this
        (None, "unknown"),
    ],
)
def test_a_node_of_the_same_level_or_of_a_swarm_without_one_passes(now, swarm):
    assert levelled(now, swarm) == []


def test_the_level_is_reported_once_and_only_for_gpu_nodes():
    assert levelled(None, "reserved", member(shown=(), labels={}), gpus=0, labels={}, resources=[]) == []
    drift = "isolation is audit, not reserved"
    found = levelled({"level": "audit"}, "reserved", drift=[drift], isolation_level="reserved")
    assert found == [f"drift: {drift}. Run fleet.gpu_swarm.provision for this host"]
