# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states in which a run leaves hosts, each with its verdict and its text for users."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._view.verdicts import Verdict
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.outcome import BAD, STAYS_PAUSED, State, outcome_of

TASKS = Path(__file__).parents[3] / "playbooks" / "tasks"
# Arguments of the action host_outcome that become the state of an outcome.
FAILED_AS = "failed_as"
# (whether the node stays paused, whether the host counts as failed)
OUTCOMES = {
    State.FAILED: (False, True),
    State.WAITING: (True, False),
    State.LOST: (True, True),
    State.OUT: (True, True),
    State.UNTOUCHED: (False, False),
}


@pytest.mark.parametrize(
    ("state", "details", "text", "verdict"),
    [
        (State.READY, [], "ready", Verdict.DONE),
        (State.ABSENT, [], "deprovisioned", Verdict.DONE),
        (State.WAITING, ["container x (for 3 h)"], "waiting for container x (for 3 h)", Verdict.WAITING),
        (State.UNTOUCHED, ["the run stopped before this node"], "untouched: the run stopped before this node", Verdict.UNTOUCHED),
        (State.FAILED, ["{'x': 1}"], "failed: {'x': 1}", Verdict.FAILED),
        (State.LOST, ["no route"], "lost: no route", Verdict.FAILED),
        (State.OUT, ["NVML failed"], "out: NVML failed", Verdict.FAILED),
        (State.BY_HAND, ["drained, by hand"], "drained, by hand", Verdict.DONE),
        (State.UNFIT, ["GPU-1 lost"], "paused for a fault: GPU-1 lost", Verdict.FAILED),
        (State.NOT_KNOWN, [], "not known: no manager answered at the end", Verdict.FAILED),
        (State.NOT_A_MEMBER, [], "not in the swarm", Verdict.FAILED),
        (State.NOT_READY, ["down"], "down according to the manager", Verdict.FAILED),
        (
            State.NOT_RETURNED,
            ["drain", "active"],
            "still on drain: its former availability, active, could not be restored. Run this again",
            Verdict.FAILED,
        ),
        (State.NOT_CONVERGED, ["the manager shows 1 of 2 NVIDIA-GPU"], "the manager shows 1 of 2 NVIDIA-GPU", Verdict.FAILED),
        (State.STILL_LISTED, [], "it left the swarm, but the manager still lists it. Run this again", Verdict.FAILED),
        (State.STILL_A_MEMBER, ["it is the last"], "still in the swarm: it is the last", Verdict.FAILED),
        (State.STILL_LABELLED, [], "the manager still shows labels of this collection. Run this again", Verdict.FAILED),
    ],
)
def test_each_state_has_one_text_and_one_verdict(state, details, text, verdict):
    assert (state.of(*details).text, state.of(*details).verdict) == (text, verdict)


def test_the_table_is_complete():
    [marks] = [mark for mark in test_each_state_has_one_text_and_one_verdict.pytestmark if mark.name == "parametrize"]
    assert {row[0] for row in marks.args[1]} == set(State)


@pytest.mark.parametrize("state", State)
def test_an_outcome_decides_what_a_host_does_next(state):
    assert (state in STAYS_PAUSED, state in BAD) == OUTCOMES.get(state, (False, False))


def test_an_outcome_is_read_by_its_value():
    found = outcome_of({"gpu_swarm_outcome": {"state": "out", "reason": "x", "leave_paused": True}})
    assert (found.state, found.reason, found.leave_paused, found.stays_paused) == (State.OUT, "x", True, True)
    assert outcome_of({}) is None
    with pytest.raises(ValueError, match="unheard of"):
        outcome_of({"gpu_swarm_outcome": {"state": "unheard of", "reason": "x"}})


def _states_in(part):
    """Yield the templates and words in a loaded YAML file that become the state of an outcome."""
    if isinstance(part, list):
        return [found for item in part for found in _states_in(item)]
    if not isinstance(part, dict):
        return []
    outcome = part.get("gpu_swarm_outcome")
    own = [outcome["state"]] if isinstance(outcome, dict) and "state" in outcome else []
    return own + ([part[FAILED_AS]] if FAILED_AS in part else []) + [found for item in part.values() for found in _states_in(item)]


def test_playbooks_use_only_existing_outcomes():
    found = [state for path in TASKS.rglob("*.yml") for state in _states_in(yaml.safe_load(path.read_text()))]
    words = {word for state in found for word in (re.findall(r"'([^']*)'", state) if "{{" in state else [state])}
    # Steps on a manager use State itself. Only these steps leave a host untouched.
    # host_outcome decides what a failed task means for a host (tests/unit/rollout/test_failure.py).
    assert words == {State.OUT.value, State.WAITING.value}


@pytest.mark.parametrize(
    ("kept", "reason"), [({"failed": True, "msg": "Timed out after 3 s"}, "Timed out after 3 s"), ({"failed": True}, "no reason given")]
)
def test_a_host_with_an_unknown_outcome_is_lost(kept, reason):
    found = outcome_of({"gpu_swarm_outcome": kept})
    assert (found.state, found.reason) == (State.LOST, reason)
