# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether the hosts of a batch may be changed. test_steps.py tests how the steps use this decision."""

from __future__ import annotations

import pytest
from fleet_lab import assessed, ledger, member, planned, step_with, task

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._fleet.model import Step
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import view
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.window import (
    LONGEST_SILENCE_S,
    manager_blocker,
    not_empty_reason,
    restart_waits,
    rollout_blocker,
)

FAILED = {"state": "failed", "reason": "dockerd did not start"}
LOST = {"state": "lost", "reason": "no route to host"}
WAITING = {"state": "waiting", "reason": "container x"}
UNTOUCHED = {"state": "untouched", "reason": "x"}


def variables(node_id="n1", **other):
    return dict({"gpu_node_assessed": assessed(node_id)}, **other)


# --- work that must end first ------------------------------------------------------------------------------------------

JOB = task("sweep.1", "sweep", movable=False)
CONTAINER = {"name": "by-hand", "service": None, "task": None}
BOOK = ledger(member("n1", tasks=[task("web.1", "web"), JOB]), member("n2", tasks=[JOB]), member("n3"))


@pytest.mark.parametrize(
    ("disrupt", "held"),
    [
        (None, ["task sweep.1 of service sweep", "container by-hand"]),
        ("services", ["task sweep.1 of service sweep", "container by-hand"]),
        ("never", ["service web", "task sweep.1 of service sweep", "container by-hand"]),
        ("all", []),
    ],
)
def test_each_host_names_the_work_that_must_end_first(disrupt, held):
    host = {"gpu_node_assessed": assessed("n1", containers=[("by-hand", None)])}
    plan = planned("a", disrupt=disrupt) if disrupt else {}
    assert view(["a"], {"a": {**host, **plan}}, BOOK).blocking() == held


def test_tasks_and_containers_can_be_waited_for_one_after_the_other():
    host = {"a": {"gpu_node_assessed": assessed("n1", containers=[("by-hand", None), ("gone", None)])}}
    assert view(["a"], host, BOOK).blocking([]) == ["task sweep.1 of service sweep"]
    assert view(["a"], host, ledger(member("n1"))).blocking([CONTAINER]) == ["container by-hand"]
    assert view(["a"], host, ledger(member("n1"))).blocking([]) == []


def test_a_stopping_task_is_waited_for_by_the_name_of_its_service():
    """The manager knows a removed service only by its id. The wait ends with the task, because only tasks hold resources of a removed service."""
    gone = {**task("a337e469.1", "a337e469", movable=False), "removed": True}
    container = {"name": "gone.1.x", "service": "gone", "task": gone["id"]}
    host = {"a": {**variables(), "gpu_swarm_inspected": {"containers": [container, CONTAINER]}}}
    said = ["task gone.1 of service gone (removed) (swarm is stopping it)"]
    assert view(["a"], host, ledger(member("n1", tasks=[gone]))).blocking([]) == said
    assert view(["a"], host, ledger(member("n1"))).blocking([]) == []


def test_if_only_the_membership_ends_containers_on_swarm_networks_are_waited_for():
    host = {"a": {"gpu_node_assessed": assessed("n1"), **planned("a", stops="tasks")}}
    attached = dict(CONTAINER, name="ranks", swarm_networks=["train"])
    assert view(["a"], host, ledger(member("n1"))).blocking([CONTAINER, attached]) == ["container ranks on the swarm's network train"]


ATTACHED, OF_WEB = dict(CONTAINER, name="ranks", swarm_networks=["train"]), {"name": "web.1.x", "service": "web", "task": "t"}
UNREAD = "the node was drained, but its containers could not be read (%s). Nothing was changed. Run this again."


@pytest.mark.parametrize(
    ("values", "answer", "why"),
    [
        ({}, {"containers": []}, ""),
        ({}, {"containers": [CONTAINER, OF_WEB]}, "by-hand, web.1.x still runs here. Stop it, then run this again."),
        ({"stops": "tasks"}, {"containers": [CONTAINER]}, ""),
        ({"stops": "tasks"}, {"containers": [CONTAINER, OF_WEB, ATTACHED]}, "web.1.x, ranks still runs here. Stop it, then run this again."),
        ({"disrupt": "all"}, {"containers": [CONTAINER, OF_WEB]}, ""),
        # If the containers cannot be read, the node is busy for every value of disrupt.
        ({"disrupt": "all"}, {"msg": "no route"}, UNREAD % "no route"),
        ({}, {"failed": True}, UNREAD % "no reason given"),
    ],
)
def test_a_drained_node_may_be_empty(values, answer, why):
    assert not_empty_reason(step_with(**{"stops": "containers", **values}), answer, "Stop it") == why


def test_several_hosts_are_queried_at_once_except_failed_ones():
    hosts = {"a": variables("n1"), "b": variables("n2", gpu_swarm_outcome=FAILED), "c": variables("n3")}
    assert view(hosts, hosts, BOOK).blocking() == ["task sweep.1 of service sweep"]
    assert view(hosts, hosts).blocking() == []


@pytest.mark.parametrize(
    ("values", "held"),
    [
        ({}, ["its containers, which could not be read"]),
        ({"disrupt": "never"}, ["its containers, which could not be read"]),
        ({"disrupt": "all"}, []),
        ({"stops": "nothing"}, []),
        ({"stops": "tasks"}, ["its containers, which could not be read"]),
    ],
)
@pytest.mark.parametrize(
    "read", [{}, {"gpu_node_assessed": {"unreachable": True, "msg": "no route"}}, {"gpu_swarm_inspected": {"unreachable": True}}]
)
def test_unreadable_work_counts_as_running(values, held, read):
    assert view(["a"], {"a": {**read, **planned("a", node_id=None, **values)}}, BOOK).blocking() == held


# --- may the roll continue --------------------------------------------------------------------------------------------


def short(**services):
    return {**ledger(member()), "pending": [{"service": name, "count": count} for name, count in services.items()]}


@pytest.mark.parametrize(
    ("outcomes", "most", "reason"),
    [
        ([None, WAITING, UNTOUCHED], 1, ""),
        ([FAILED, None], 1, "the run stopped before this node, because a failed. Fix that and run this again."),
        ([FAILED, None], 2, ""),
        ([FAILED, WAITING, LOST], 2, "the run stopped before this node, because a, c failed. Fix that and run this again."),
    ],
)
def test_after_too_many_failures_no_further_host_is_changed(outcomes, most, reason):
    hosts = {name: variables(**({"gpu_swarm_outcome": one} if one else {})) for name, one in zip("abc", outcomes, strict=False)}
    assert rollout_blocker(view(hosts, hosts, short()), {}, most) == reason


def test_a_run_that_removes_resources_is_not_stopped_for_lack_of_them():
    assert rollout_blocker(view(["a"], {"a": variables()}, short(web=3)), None, 1) == ""


@pytest.mark.parametrize(
    ("node", "has_failed"),
    [
        (member("n1"), False),
        (member("n1", shown=(0,)), True),
        (member("n1", state="down"), True),
        (member("n9"), False),  # the node has left the swarm
    ],
)
def test_a_canary_without_its_decided_resources_has_failed(node, has_failed):
    book = {**ledger(node), "pending": []}
    changed = {"a": variables("n1", gpu_node_applied=assessed("n1"))}
    assert rollout_blocker(view(["a"], changed, book), {}, 1) == (
        "the run stopped before this node, because a failed. Fix that and run this again." if has_failed else ""
    )
    assert rollout_blocker(view(["a"], changed, book), {}, 2) == ""
    assert rollout_blocker(view(["a"], {"a": variables("n1")}, book), {}, 1) == ""  # the node is not changed yet


def test_tasks_that_lose_their_room_stop_the_roll():
    ran = {f"web{n}": {"running": 1, "pending": 0} for n in range(7)}
    assert rollout_blocker(view(["a"], {"a": variables()}, short()), ran, 1) == ""
    reason = rollout_blocker(view(["a"], {"a": variables()}, short(**dict.fromkeys(ran, 1))), ran, 1)
    assert "service web0 (1 task), service web1 (1 task)" in reason
    assert ", …. Make room" in reason


@pytest.mark.parametrize("book", [None, {}, {"msg": "There is no quorum."}])
def test_without_a_manager_no_further_host_is_changed(book):
    reason = (book or {}).get("msg") or "none of them answered"
    assert f"no manager could be queried about the swarm ({reason})" in rollout_blocker(view(["a"], {"a": variables()}, book), {}, 1)


# --- one manager after another ----------------------------------------------------------------------------------------


def managers(count, down=()):
    """Return a ledger of ``count`` managers and one worker. Managers in ``down`` cannot be reached."""
    shown = [member(f"n{n}", role="manager", reachability="unreachable" if n in down else "reachable") for n in range(1, count + 1)]
    return ledger(*shown, member("w1"))


# (number of managers, unreachable managers, how many others are reachable if the first manager must not be changed)
GATES = [
    (1, (), None),
    (2, (), None),
    (2, (2,), None),
    (3, (), None),
    (3, (1,), None),  # the manager to change is itself unreachable
    (3, (2,), 1),
    (3, (2, 3), 0),
    (4, (), None),
    (4, (4,), 2),
    (5, (), None),
    (5, (2,), None),
    (5, (2, 3), 2),
]


@pytest.mark.parametrize(("count", "down", "left"), GATES)
def test_a_manager_is_not_changed_if_the_swarm_would_stop_without_it(count, down, left):
    reason = manager_blocker("a", view(["a"], {"a": variables("n1")}, managers(count, down)))
    assert reason == (
        ""
        if left is None
        else f"left alone: without this manager, only {left} of {count} managers would be reachable, too few to run the swarm. "
        "Bring the other managers back and run this again."
    )


def test_after_a_failed_manager_no_other_is_changed():
    hosts = {"a": variables("n1"), "b": variables("n2", gpu_swarm_outcome=FAILED), "c": variables("n3")}
    for name in ("a", "c"):
        reason = manager_blocker(name, view(hosts, hosts, managers(3)))
        assert reason == "left alone, because the change of the manager b failed. Fix that and run this again."
    # The failed manager itself gets no further reason. A manager that this run does not change is no reason either.
    assert manager_blocker("b", view(hosts, hosts, managers(3))) == ""
    assert manager_blocker("a", view(["a", "c"], hosts, managers(3))) == ""


@pytest.mark.parametrize(
    ("book", "reason"),
    [
        ({"failed": True, "msg": "The swarm does not have a leader."}, "The swarm does not have a leader."),
        ({"unreachable": True}, "its answer has no list of nodes"),
        (ledger(), "its answer has no list of nodes"),
        (None, "its answer has no list of nodes"),
    ],
)
def test_without_a_ledger_no_manager_is_changed(book, reason):
    blocker = manager_blocker("a", view(["a"], {"a": variables("n1")}, book))
    assert blocker == f"left alone: no manager could be queried about the other managers ({reason}). Fix that and run this again."


# --- waiting for a drain ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needs", "timeout", "maintain", "waits"),
    [
        (["restart"], 120, False, 120),
        (["restart"], 0, False, 0),
        (["restart"], LONGEST_SILENCE_S, False, LONGEST_SILENCE_S),
        (["restart"], LONGEST_SILENCE_S + 1, False, 0),  # a separate task queries repeatedly
        (["toolkit", "restart"], 120, False, 0),
        (["maintain"], 120, True, 0),
    ],
)
def test_the_call_that_restarts_dockerd_waits_if_it_is_the_only_change(needs, timeout, maintain, waits):
    assert restart_waits(Step(needs=needs), timeout, maintain) == waits
