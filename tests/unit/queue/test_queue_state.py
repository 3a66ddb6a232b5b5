# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._queue.queue_state import (
    ADMITTED,
    HELD,
    LABEL,
    MOST_MEMBERS,
    OVER,
    STATES,
    WAITING,
    State,
    from_text,
    released,
    replicas_of,
    state_of,
    to_text,
)

WAITS, RUNS, RAN = State(), State(ADMITTED, 1, node="n7", admission="k3f9"), State(OVER, 1, node="n7", result="complete")


def spec(state, replicas=0):
    labels = {} if state is None else {LABEL: state if isinstance(state, str) else to_text(state)}
    return {"Labels": labels, "Mode": {"Replicated": {"Replicas": replicas}}}


def service(now, former=None):
    return {"Spec": now, **({"PreviousSpec": former} if former else {})}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (None, WAITS),
        ("waiting", WAITS),
        ("waiting attempt=1 keeps=n7,n8 avoids=n2", State(WAITING, 1, keeps=("n7", "n8"), avoids=("n2",))),
        ("admitted attempt=1 node=n7 admission=k3f9", RUNS),
        (
            "admitted attempt=2 released=1 node=n7 admission=k3f9 plan=s1:n7,s2:n8",
            State(ADMITTED, 2, 1, "n7", "k3f9", plan=(("s1", "n7"), ("s2", "n8"))),
        ),
        ("over attempt=1 node=n7 result=failed: exit code 1", State(OVER, 1, node="n7", result="failed: exit code 1")),
        ("held attempt=1 result=node=n7", State(HELD, 1, result="node=n7")),
    ],
)
def test_labels_are_read(text, state):
    assert from_text(text) == state
    assert text is None or to_text(state) == text


def test_a_long_result_shows_that_it_was_cut():
    text = to_text(State(OVER, 1, result="failed: " + "x" * 300))
    assert (len(from_text(text).result), text[-2:]) == (200, "x…")
    assert to_text(from_text(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "running",
        "waiting ",
        " waiting",
        "waiting\n",
        "Waiting",
        "waiting attempt=",
        "waiting attempt=-1",
        "waiting attempt=1000000000",
        "waiting node=n7 attempt=1",
        "waiting attempt=1 attempt=2",
        "admitted node=n 7",
        "admitted node=../x",
        "admitted plan=s1",
        "admitted plan=s1:n1,",
        "admitted plan=" + ",".join("s%d:n1" % number for number in range(65)),
        "over result=a\nb",
        "waiting result=" + "x" * 9000,
        5,
        {},
    ],
)
def test_unreadable_labels_are_no_state(text):
    assert from_text(text) is None


ids = st.from_regex(r"[A-Za-z0-9]{1,64}", fullmatch=True)
lists = st.lists(ids, max_size=8).map(tuple)
states = st.builds(
    State,
    st.sampled_from(STATES),
    st.integers(0, 999999),
    st.integers(0, 999999),
    st.just("") | ids,
    st.just("") | ids,
    lists,
    lists,
    st.lists(st.tuples(ids, ids), max_size=8).map(tuple),
    st.text(max_size=400),
    st.integers(0, 99999),
    st.sampled_from(["", "none", "90", "864000000000"]),
)


def test_the_label_of_the_largest_gang_is_read_back():
    node_ids = tuple("%025d" % number for number in range(MOST_MEMBERS))
    plan = tuple((node_id, node_id) for node_id in node_ids)
    admitted = State(ADMITTED, 999999, 999999, "n1", "0" * 16, (), node_ids, plan, "x" * 200, 29999, "none")
    for state in (admitted, State(keeps=node_ids, avoids=node_ids)):
        assert from_text(to_text(state)) == state


@given(states)
def test_any_state_is_read_back(state):
    text = to_text(state)
    assert from_text(text) == state._replace(result=from_text(text).result)
    assert text.isprintable()
    assert to_text(from_text(text)) == text


@given(st.text(max_size=60) | st.from_regex(r"(waiting|admitted) ?[a-z]*=?[a-z0-9,:]*( result=.*)?"))
def test_any_text_is_read_or_refused(text):
    state = from_text(text)
    assert state is None or from_text(to_text(state)) == state


@pytest.mark.parametrize(
    ("now", "former", "state"),
    [
        (spec(None), None, WAITING),
        (spec(WAITS), spec(None), WAITING),
        (spec(RUNS, 1), spec(WAITS), ADMITTED),
        (spec(RAN, 1), spec(RUNS, 1), OVER),
        # scaled to 0 while it ran, after it ended, and while it waited for another try
        (spec(RUNS, 0), spec(RUNS, 1), HELD),
        (spec(RAN, 0), spec(RAN, 1), HELD),
        (spec(State(WAITING, 1), 0), spec(State(WAITING, 1), 1), HELD),
        (spec("admitted", 0), None, HELD),
        # rolled back to the time before its admission
        (spec(WAITS), spec(RUNS, 1), HELD),
        (spec(None), spec(RAN, 1), HELD),
        (spec(None), spec(State(HELD, 2)), HELD),
        # someone set the label by hand
        (spec("running", 1), None, HELD),
        (spec("admitted node=", 0), None, HELD),
        (spec(None), spec("rubbish", 1), HELD),
        # it waits for another try beside its ended task
        (spec(State(WAITING, 1), 1), spec(RUNS, 1), WAITING),
        (spec(State(HELD, 0)), None, HELD),
    ],
)
def test_finished_work_is_held_and_never_run_twice(now, former, state):
    assert state_of(service(now, former)).state == state


@pytest.mark.parametrize(
    ("now", "former", "state"),
    [
        # swarm runs the ended task again
        (RUNS, RAN, HELD),
        (RAN, RAN, HELD),
        (RAN, State(WAITING, 1), HELD),
        (State(WAITING, 1), State(ADMITTED, 2), HELD),
        # only somebody else's label was rolled back while the task runs
        (RUNS, RUNS, ADMITTED),
        (WAITS, WAITS, WAITING),
        (State(WAITING, 1, 1), State(WAITING, 1, 1), WAITING),
        (State(HELD), State(HELD), HELD),
    ],
)
@pytest.mark.parametrize("status", ["rollback_started", "rollback_paused", "rollback_completed"])
def test_work_at_1_replica_is_held_after_a_rollback(now, former, state, status):
    rolled_back = {**service(spec(now, 1), spec(former, 1)), "UpdateStatus": {"State": status}}
    assert state_of(rolled_back).state == state
    assert state_of({**rolled_back, "UpdateStatus": {"State": "completed"}}) == now


@pytest.mark.parametrize(
    "held", [(spec(RUNS, 0), spec(RUNS, 1)), (spec(None), spec(RAN, 1)), (spec("rubbish"), None), (spec(State(WAITING, 3)), None)]
)
def test_released_work_waits_again_and_is_held_again_after_its_next_attempt(held):
    state = state_of(service(*held))
    assert state.state == HELD
    assert state.result
    free = released(state)
    assert state_of(service(spec(free), held[0])).state == WAITING
    again = State(ADMITTED, free.attempt + 1, free.released, "n1", "k")
    assert state_of(service(spec(again, 1), spec(free))).state == ADMITTED
    assert state_of(service(spec(again, 0), spec(again, 1))).state == HELD
    assert state_of(service(spec(free), spec(again, 1))).state == HELD


@pytest.mark.parametrize(
    ("mode", "replicas"),
    [({"Replicated": {"Replicas": 3}}, 3), ({"Replicated": {"Replicas": 0}}, 0), ({"Replicated": {"Replicas": None}}, 1), ({"Replicated": {}}, 1),
     ({"Global": {}}, 1), (None, 1)],
)  # fmt: skip
def test_a_mode_without_a_number_means_a_task(mode, replicas):
    assert replicas_of({"Mode": mode}) == replicas


def test_work_that_was_held_before_its_first_attempt_is_released():
    assert released(State(HELD, 0)) == State(WAITING)
