# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The queues in the status, and the answer of 'gpu-swarm why' about a piece of work."""

from __future__ import annotations

import json

import pytest
from queue_fleet import LABELS, NOW, QueueManager, queue, swarm
from queued import GPU, queued
from swarm_api import cluster, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.ledger import ledger
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._ledger.listed import Listed
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.read_queue import queue_in, read_ledger_and_queue
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view import status
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.shown_queues import MOST_ROWS, sentence, shortened_queue
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.status_text import Screen

SHOWN = """\
queue            running  waiting  used                next, and why it waits
───────────────  ───────  ───────  ──────────────────  ─────────────────────────
nightly                0        1  –                   huge: no node could hold
                                                       it, not even an empty
                                                       one: wants 16 NVIDIA-GPU;
                                                       the most that a node has:
                                                       8 (host-n2)
research               1        4  NVIDIA-GPU 8 of 12  big: it is next, and
                                                       host-n2 is kept for it;
                                                       work without a time limit
                                                       runs there, so nobody
                                                       knows when it starts
(no such queue)        0        1  –                   typo: there is no queue
                                                       reserch; the queues are
                                                       nightly, research
held until somebody releases them: again
cannot be queued: odd
'gpu-swarm queue' on a manager lists all work of the queues"""


def shown(waiting=3, problem=""):
    found = ledger(swarm(waiting), "gpu-swarm.", ["*"])
    return status.status({**found, "queue": {**queue(waiting), "problem": problem}})


@pytest.mark.parametrize("what", ["all", "pending"])
def test_the_status_has_a_line_for_each_queue(what):
    text = Screen(80).show(shown(), what)
    assert f"Nothing is pending.\n\n{SHOWN}\n\n" in text
    assert max(map(len, text.splitlines())) <= 80


def test_work_that_waits_is_no_problem_of_the_fleet():
    found = shown()
    assert (found["pending"], found["waiting"], found["wrong"]) == ([], [], [])
    assert json.loads(json.dumps(found)) == found


def test_queues_that_cannot_start_anything_are_yellow_and_say_why():
    lines = Screen(paint=lambda line, colour: f"<{colour}>{line}").show(shown(problem="the swarm keeps no ended tasks"), "pending").splitlines()
    assert "nothing is admitted: the swarm keeps no ended tasks" in lines
    assert [line.split()[0] for line in lines if line.startswith("<")] == ["<yellow>nightly", "<yellow>(no"]


@pytest.mark.parametrize("answer", [{}, {"queue": None}])
def test_a_swarm_without_queues_shows_none(answer):
    found = status.status({**ledger(Listed([node()], [], [], None), "gpu-swarm.", ["*"]), **answer})
    assert found["queue"] is None
    assert "queue" not in Screen(80).show(found, "all")
    del found["queue"]  # a file that the service of an older release wrote
    assert "queue" not in Screen(80).show(found, "all")


def test_of_10000_pieces_of_work_the_first_of_each_queue_are_listed():
    found = shortened_queue(queue(10_000), ["sweep-09999"])
    waits = [row["service"] for row in found["work"] if (row["queue"], row["state"]) == ("research", "waiting")]
    assert (waits[0], waits[1], len(waits), waits[-1]) == ("big", "sweep-00000", MOST_ROWS + 1, "sweep-09999")
    assert next(row["waiting"] for row in found["queues"] if row["queue"] == "research") == 10_001
    assert [row["service"] for row in found["work"] if row["state"] in ("held", "over")] == ["again"]
    assert shortened_queue(found, ["idsweep-09999"]) == found


def test_a_swarm_shows_its_queues_before_they_have_work():
    found = queue_in(Listed([node()], [], [], NOW), cluster(LABELS)["Spec"], NOW)
    assert [(row["queue"], row["waiting"], row["since"]) for row in found["queues"]] == [("nightly", 0, None), ("research", 0, None)]


def test_work_of_a_removed_queue_still_runs():
    removed = cluster({"gpu-swarm.queues": '{"nightly":{}}'})["Spec"]
    (row,) = [row for row in queue_in(swarm(), removed, NOW)["queues"] if row["queue"] == ""]
    assert (row["running"], row["waiting"], row["used"]) == (1, 5, {GPU: 8})


def test_ended_work_of_a_removed_queue_is_no_line():
    ended = queued("a", queue="former", state="over attempt=1 node=n1 result=complete", replicas=1)
    found = queue_in(Listed([node()], [], [ended], NOW), cluster(LABELS)["Spec"], NOW)
    assert [row["queue"] for row in found["queues"]] == ["nightly", "research"]


def test_a_queue_has_waited_since_its_first_waiting_work_was_submitted():
    listed = swarm()
    for name, created in (("train", "01"), ("sweep-00001", "03"), ("sweep-00002", "09")):
        next(one for one in listed.services if one["Spec"]["Name"] == name)["CreatedAt"] = f"2026-11-{created}T12:00:00Z"
    found = queue_in(listed, cluster(LABELS)["Spec"], NOW)
    assert [row["since"] for row in found["queues"] if row["queue"] == "research"] == ["2026-11-03T12:00:00Z"]


# -- why ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "verdict", "text"),
    [
        ("train", "done", "it runs on node host-n1, admitted by the queue research; its time limit ends it at 2026-11-20T21:00:00Z"),
        ("big", "waiting", "it waits in the queue research at position 1, because it is next, and host-n2 is kept for it; work without a time limit"),
        ("huge", "failed", "it waits in the queue nightly at position 1, because no node could hold it, not even an empty one: wants 16 NVIDIA-GPU"),
        ("typo", "failed", "it waits in the queue reserch, because there is no queue reserch; the queues are nightly, research"),
        ("odd", "failed", "it cannot be queued, because swarm would start its tasks again (restart condition any)"),
        ("again", "waiting", "it is held: it was scaled to 0 after it was admitted, and would run again; 'gpu-swarm release again' lets it run"),
        ("stopped", "done", "it is over: stopped"),
    ],
)
def test_why_says_what_the_queue_says(name, verdict, text):
    for name_or_id in (name, "id" + name):
        row = status.service_row(read_ledger_and_queue(QueueManager(), "gpu-swarm.", [name_or_id]), name_or_id)
        assert (row["verdict"], row["text"][: len(text)]) == (verdict, text)
    lines = Screen(200).service(row).splitlines()
    assert lines[0].startswith(f"{name}: {text}"[:150])
    assert "nowhere" not in "".join(lines)
    assert "scaled to 0 replicas" not in "".join(lines)
    assert "tasks have a node" not in "".join(lines)
    assert any("feasible nodes" in line for line in lines) == text.startswith("it waits")


def test_why_names_the_nodes_that_could_run_work_which_is_bound_to_none():
    row = status.service_row(read_ledger_and_queue(QueueManager(), "gpu-swarm.", ["stopped"]), "stopped")
    assert (row["feasible"], row["excluded"]) == (["host-n2"], [{"filter": "resources", "nodes": 1}])


def test_work_that_starts_or_is_lost_has_a_sentence():
    row = {"queue": "research", "node": "g1", "text": "swarm shows its task as preparing", "ends": None, "position": None}
    assert sentence({**row, "state": "starting"}) == "it starts on node g1, admitted by the queue research; swarm shows its task as preparing"
    assert sentence({**row, "state": "lost", "text": "g1 does not answer"}) == "g1 does not answer"
