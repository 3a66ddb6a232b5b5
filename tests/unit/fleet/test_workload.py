# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.workload import (
    Work,
    age,
    describe_effects,
    describe_swarm_work,
    describe_work,
    long_running,
    must_stay,
    work_on,
)

SERVICE = {"id": "t1", "name": "web.1", "service": "web", "movable": True, "age": 60}
JOB = {"id": "t2", "name": "sweep.4", "service": "sweep", "movable": False, "age": 11_100}
PULLING = {"id": "t3", "name": "web.2", "service": "web", "movable": True}
NODE = {"tasks": [SERVICE, JOB, PULLING]}
CONTAINERS = [
    {"name": "web.1.t1", "service": "web", "task": "t1", "age": 50},
    {"name": "sweep.4.t2", "service": "sweep", "task": "t2", "age": 11_000},
    {"name": "gone.1.t9", "service": "gone", "task": "t9", "age": 7},
    {"name": "by-hand", "service": None, "task": None, "age": 200_000},
]


def test_the_manager_lists_tasks_and_the_node_lists_other_containers():
    assert work_on(CONTAINERS, NODE) == [
        Work("web.1", "web", True, 60),
        Work("sweep.4", "sweep", False, 11_100),
        Work("web.2", "web", True),
        Work("gone.1.t9", "gone", False, 7),
        Work("by-hand", None, False, 200_000),
    ]


def test_the_tasks_of_a_service_that_was_removed_are_named_by_their_containers():
    """The manager has only the service's id."""
    tasks = [{"id": "t9", "name": "a337e469.1", "service": "a337e469", "movable": False, "age": 7, "removed": True}, SERVICE]
    assert describe_work(work_on(CONTAINERS[:3], {"tasks": tasks}))[:2] == [
        "service web",
        "task gone.1 of service gone (removed) (for 7 s, swarm is stopping it)",
    ]
    assert describe_work(work_on([], {"tasks": tasks[:1]})) == ["task a337e469.1 of service a337e469 (removed) (for 7 s, swarm is stopping it)"]


def test_a_node_outside_of_the_swarm_has_containers_only():
    assert [item.movable for item in work_on(CONTAINERS, None)] == [False] * 4
    assert work_on([], None) == work_on([], {"tasks": []}) == []


@pytest.mark.parametrize(
    ("disrupt", "stays"),
    [("all", []), ("services", ["sweep.4", "gone.1.t9", "by-hand"]), ("never", ["web.1", "sweep.4", "web.2", "gone.1.t9", "by-hand"])],
)
def test_some_work_must_stay(disrupt, stays):
    assert [item.name for item in must_stay(work_on(CONTAINERS, NODE), disrupt)] == stays


def test_work_is_described_in_words():
    assert describe_work(work_on(CONTAINERS, NODE)) == [
        "service web (2 tasks)",
        "task sweep.4 of service sweep (for 3 h 5 min)",
        "task gone.1.t9 of service gone (for 7 s)",
        "container by-hand (for 2 d 7 h)",
    ]
    assert describe_work([Work("web.1", "web", True), Work("x", None, False)]) == ["service web", "container x"]
    assert describe_work([]) == []
    assert describe_work([Work("x", None, False, 60, ("train", "sweep"))]) == ["container x on the swarm's network train, sweep (for 1 min)"]


KEPT_SERVICE = dict(SERVICE, kept="gpu-swarm.keep=12h")


@pytest.mark.parametrize(("disrupt", "stays"), [("all", []), ("services", ["web.1"]), ("never", ["web.1", "web.2"])])
def test_a_task_with_a_keep_label_is_waited_for_like_a_job(disrupt, stays):
    assert [item.name for item in must_stay(work_on([], {"tasks": [KEPT_SERVICE, PULLING]}), disrupt)] == stays


@pytest.mark.parametrize(
    ("task", "named"),
    [
        ({"age": 86_401}, ["web.1 (1 d)"]),
        ({"age": 86_401, "elsewhere": False}, ["web.1 (1 d)"]),
        ({"age": 86_400}, []),
        ({"age": None}, []),
        ({"age": 90_000, "elsewhere": None}, []),  # of a global service
        ({"age": 90_000, "movable": False}, []),  # the impact already shows the age of this task
    ],
)
def test_long_running_tasks_are_named_before_they_are_moved(task, named):
    assert long_running(work_on([], {"tasks": [dict(SERVICE, **task)]})) == named


def test_a_task_with_a_keep_label_is_named_with_the_reason():
    kept = "task web.1 of service web (for 1 min, kept by its label gpu-swarm.keep=12h)"
    work = work_on([], {"tasks": [KEPT_SERVICE, PULLING]})
    assert describe_work(work) == ["service web", kept]
    assert describe_effects(work)[0] == ("moves", ["service web", kept])  # the user consented to the move


def test_tasks_end_with_a_node_that_leaves_its_swarm():
    attached = {"name": "ranks", "service": None, "task": None, "swarm_networks": ["train"]}
    assert [item.name for item in work_on([*CONTAINERS, attached], NODE) if item.needs_swarm] == ["web.1", "sweep.4", "web.2", "gone.1.t9", "ranks"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (-3, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min 59 s"), (7200, "2 h"), (7205, "2 h"), (90_000, "1 d 1 h")],
)
def test_an_age_is_described_in_words(seconds, words):
    assert age(seconds) == words


def test_a_task_without_attempts_left_is_reported():
    tasks = [dict(SERVICE, movable=False, restarts_left=0), dict(PULLING, movable=False, restarts_left=0), dict(JOB, restarts_left=3)]
    assert describe_work(must_stay(work_on([], {"tasks": tasks}), "services")) == [
        "task web.1 of service web (for 1 min, it has used up its restart attempts)",
        "task web.2 of service web (it has used up its restart attempts)",
        "task sweep.4 of service sweep (for 3 h 5 min)",
    ]


@pytest.mark.parametrize(
    ("elsewhere", "word", "leaving"),
    [
        (True, "moves", "moves"),
        (False, "stops until the node is back:", "leaves no node for"),
        (None, "stops until the node is back:", "stops"),  # of a global service
    ],
)
def test_the_fate_of_a_stoppable_task_is_described(elsewhere, word, leaving):
    work = work_on(CONTAINERS[3:], {"tasks": [dict(SERVICE, elsewhere=elsewhere)]})
    for leaves, expected in ((False, word), (True, leaving)):
        text = [f"{word} {', '.join(items)}" for word, items in describe_effects(work, leaves) if items]
        by_hand = "container by-hand (for 2 d 7 h)"
        assert text == (["stops service web, " + by_hand] if expected == "stops" else [f"{expected} service web", "stops " + by_hand])


def test_work_that_ends_with_a_leaving_node_is_listed():
    attached = {"name": "trainer", "service": None, "task": None, "age": 60, "swarm_networks": ["mesh"]}
    assert describe_swarm_work([*CONTAINERS[2:], attached]) == [
        "task gone.1.t9 of service gone (for 7 s)",
        "container trainer on the swarm's network mesh (for 1 min)",
    ]
    assert describe_swarm_work(CONTAINERS[3:]) == []
