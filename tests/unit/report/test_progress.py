# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines that a quiet run prints while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report.progress import Run, duration, notes_in, outcomes_in
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._report.progress import step_line as printed_line

ROOT = Path(__file__).resolve().parents[3]
DEBUG = "ansible.builtin.debug"
HOST_OUTCOME = "fleet.gpu_swarm.host_outcome"


def step_line(name, seconds, hosts=0):
    return f"{name:55}  {f'{hosts} hosts' if hosts else '':>9}  {seconds:>11}"


def played(run, step, hosts, *, begin, end, in_batches=False, outcomes=None):
    """Return the lines that a play of one task prints."""
    lines = run.begin_play(step, in_batches, begin)
    run.begin_task("work", begin)
    for host in hosts:
        lines += run.begin_host(host, begin)
    for host in hosts:
        run.end_host(host, outcomes or {})
    run.current(end)
    return lines


def test_the_line_of_a_step_is_printed_when_another_one_begins():
    run = Run(0)
    assert played(run, "Assess", ["g1", "g2"], begin=0, end=4) == []
    assert run.begin_play("Plan", False, 4) == []  # the play may have no hosts
    assert run.begin_host("g1", 4) == [step_line("Assess", "4 s", 2)]
    assert run.end(66) == [step_line("Plan", "1 min 2 s")]


def test_a_run_of_a_single_step_has_no_line():
    run = Run(0)
    assert played(run, "Show the status of the fleet", ["m1"], begin=0, end=2) + run.end(2) == []


def test_a_step_without_hosts_has_no_line():
    run = Run(0)
    lines = played(run, "Assess", ["g1", "g2"], begin=0, end=1)
    lines += run.begin_play("Join the swarm", False, 1)
    lines += played(run, "Report", ["g1"], begin=1, end=2)
    assert lines + run.end(2) == [step_line("Assess", "1 s", 2), step_line("Report", "1 s")]


def test_the_next_playbook_prints_nothing_of_the_former_one():
    run = Run(0)
    played(run, "Plan", ["m1"], begin=0, end=1)
    run.rollout.set_plan({"batches": [["g1"]]})
    assert played(run, "Change", ["g1"], begin=1, end=2, in_batches=True) == [step_line("Plan", "1 s"), "Change"]
    assert run.end(9) == ["  g1: done (batch 1 of 1, 1 of 1 nodes, 9 s)"]
    assert run.begin_play("Assess", False, 10) + run.begin_host("g1", 10) + run.end(20) == []


def test_a_roll_has_a_line_per_node():
    run = Run(0)
    played(run, "Plan", ["m1"], begin=0, end=1)
    run.rollout.set_plan({"batches": [["g1"], ["g2", "g3"]]})
    assert played(run, "Change", ["g1"], begin=1, end=2, in_batches=True) == [step_line("Plan", "1 s"), "Change"]
    assert run.current(5)[0] == "  batch 1 of 2, 0 of 3 nodes done, 4 s: work"
    second = played(run, "Change", ["g2", "g3"], begin=9, end=10, in_batches=True, outcomes={"g3": "waiting: train.1"})
    assert second == ["  g1: done (batch 1 of 2, 1 of 3 nodes, 9 s)"]
    assert run.end(70) == [
        "  g2: done (batch 2 of 2, 2 of 3 nodes, 1 min 10 s)",
        "  g3: waiting: train.1 (batch 2 of 2, 3 of 3 nodes, 1 min 10 s)",
    ]


def test_a_play_of_the_user_ends_the_step():
    run = Run(0)
    played(run, "Assess", ["g1", "g2"], begin=0, end=3)
    assert run.begin_play("", False, 3) == [step_line("Assess", "3 s", 2)]
    assert run.begin_host("g1", 3) == []
    assert run.current(30) == ("", 27)


def test_the_line_of_the_current_task():
    run = Run(0)
    run.begin_play("Assess", False, 0)
    assert run.current(1) == ("", 1)  # it is unknown yet whether the play has hosts
    run.begin_task("fleet.gpu_swarm.gpu_node : Read the node", 0)
    for name in ("g1", "g2", "g3", "g4", "g5", "g6"):
        run.begin_host(name, 0)
    run.end_host("g2", {})
    assert run.current(12) == ("  Assess, g1, g3, g4, g5 and 1 more, 12 s: Read the node", 12)
    run.begin_task("Plan", 12)
    assert run.current(13)[1] == 1


@pytest.mark.parametrize(
    ("action", "result", "found"),
    [
        ("ansible.builtin.set_fact", {"ansible_facts": {"gpu_swarm_outcome": {"state": "waiting", "reason": "train.1"}}}, {"g1": "waiting: train.1"}),
        ("ansible.builtin.set_fact", {"ansible_facts": {"gpu_swarm_outcome": {}}}, {}),
        (HOST_OUTCOME, {"state": "failed", "reason": "no space"}, {"g1": "failed: no space"}),
        (HOST_OUTCOME, {"state": "failed", "reason": "2 errors\n- one. Fix it"}, {"g1": "failed: 2 errors"}),
        (HOST_OUTCOME, {"state": "failed", "reason": "no \x1b[2Kspace. Fix it"}, {"g1": r"failed: no \x1b[2Kspace"}),
        (HOST_OUTCOME, {"state": "untouched"}, {"g1": "untouched"}),
        (HOST_OUTCOME, {"msg": "it ended"}, {}),
        ("ansible.builtin.command", {"state": "present"}, {}),
        ("ansible.builtin.set_fact", {"ansible_facts": None}, {}),
    ],
)
def test_the_outcome_of_a_host(action, result, found):
    assert outcomes_in(action, "g1", result) == found


@pytest.mark.parametrize(
    ("action", "result", "found"),
    [
        (DEBUG, {"msg": "removed"}, ["  g1: removed"]),
        (DEBUG, {"msg": {"kept": ["a"]}}, ['  g1: {"kept": ["a"]}']),
        (DEBUG, {"msg": "", "results": [{"msg": "one"}, {"msg": "no", "skipped": True}]}, ["  g1: one"]),
        (DEBUG, {"msg": "\x1b[2K"}, [r"  g1: \x1b[2K"]),
        ("ansible.builtin.assert", {"msg": "All assertions passed"}, []),
    ],
)
def test_messages_of_debug_tasks(action, result, found):
    assert notes_in(action, "g1", result) == found


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59.9, "59 s"), (60, "1 min 0 s"), (3599, "59 min 59 s"), (3660, "1 h 1 min")])
def test_durations_are_formatted(seconds, text):
    assert duration(seconds) == text


def test_the_lines_of_steps_fit_a_terminal():
    playbooks = [path for path in (ROOT / "playbooks").rglob("*.yml") if path.parent.name in ("playbooks", "plays")]
    names = [play["name"] for path in playbooks for play in yaml.safe_load(path.read_text()) if "hosts" in play]
    assert max(len(printed_line(name, 999, 754)) for name in names) == 79
