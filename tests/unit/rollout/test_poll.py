# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from fleet_lab import ledger, member, planned, task
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action import await_node
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.containers import not_drained
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.member import view
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.poll import poll, split_options

VARIABLES = {"g1": planned("g1")}
NOTEBOOK = {"name": "notebook", "service": None, "task": None, "age": 60}
REPLICA = {"name": "svc.1.x", "service": "svc", "task": "t1", "age": 60}


class Clock:
    def __init__(self):
        self.now, self.slept = 0.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def polled(rounds, timeout=10, delay=2):
    """Poll, and return the answer, the messages and the clock. Each query takes a second. ``rounds`` lists what the poll still waits for."""
    clock, said, left = Clock(), [], list(rounds)

    def query():
        clock.now += 1
        return {"left": left.pop(0) if len(left) > 1 else left[0]}

    answer = poll(query, lambda answer: answer["left"], timeout, said.append, delay, lambda: clock.now, clock.sleep)
    return answer, said, clock


def test_without_a_need_to_wait_there_is_one_query_and_no_message():
    answer, said, clock = polled([[]])
    assert (answer, said, clock.slept) == ({"left": []}, [], [])


def test_the_reason_for_waiting_is_shown_once():
    answer, said, clock = polled([["container a", "container b"], ["container a"], []])
    assert (answer, clock.slept) == ({"left": []}, [2, 2])
    assert said == ["waiting for container a, container b (up to 10 s)"]


def test_waiting_ends_in_time_with_the_last_answer():
    answer, said, clock = polled([["container a"]], timeout=5)
    assert answer == {"left": ["container a"]}
    assert clock.now <= 5 + 1  # the last query takes as long as it needs
    assert len(said) == 1


def test_without_time_there_is_one_query():
    assert polled([["container a"], []], timeout=0)[0] == {"left": ["container a"]}
    assert polled([["container a"], []], timeout=0)[1] == []


def test_long_lists_are_shortened():
    assert polled([[f"c{number}" for number in range(9)], []])[1] == ["waiting for c0, c1, c2, c3, c4 and 4 more (up to 10 s)"]


def test_the_module_does_not_see_the_options_of_the_wait():
    assert split_options({"event": "shown", "docker_host": "x"}, ("event", "hosts")) == ({"event": "shown"}, {"docker_host": "x"})


# --- reasons to wait --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "answer", "left"),
    [
        ("work_ended", {"containers": [NOTEBOOK]}, ["container notebook (for 1 min)"]),
        ("work_ended", {"containers": []}, []),
        ("work_ended", {"failed": True}, await_node.NO_ANSWER),
        ("drained", {"containers": [NOTEBOOK]}, []),
        ("drained", {"containers": [REPLICA, NOTEBOOK]}, ["container svc.1.x"]),
        ("drained", {"failed": True}, await_node.NO_ANSWER),
    ],
)
def test_containers_are_waited_for(event, answer, left):
    assert await_node.EVENTS[event](*view(VARIABLES, VARIABLES), False, answer) == left


ONE_SHOT = task("job.1", "job", movable=False)


@pytest.mark.parametrize(
    ("tasks", "containers", "left"),
    [
        ([], [NOTEBOOK], ["container notebook (for 1 min)"]),
        ([task("svc.1", "svc", id="t1")], [REPLICA], []),
        ([ONE_SHOT], [], []),
        ([ONE_SHOT], [NOTEBOOK], []),  # the container is not reported, because the task already keeps the node waiting
    ],
)
def test_tasks_of_the_ledger_are_not_waited_for_again(tasks, containers, left):
    book = ledger(member("n1", tasks=tasks))
    assert await_node.EVENTS["work_ended"](*view(VARIABLES, VARIABLES, book), True, {"containers": containers}) == left


def node(monkeypatch, *answers):
    """Return the action for a node and its calls. The node returns these answers, and repeats the last answer. A text is a lost connection."""
    calls, left, clock = [], list(answers), Clock()

    def query(self, tmp, task_vars):
        calls.append(self._task.args)
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, str):
            raise AnsibleConnectionFailure(answer)
        return answer

    def paced(query, waits_for, timeout, say, delay):
        return poll(query, waits_for, timeout, say, delay, lambda: clock.now, clock.sleep)

    monkeypatch.setattr(await_node.NodeAction, "query", query)
    monkeypatch.setattr(await_node, "poll", paced)

    def run(variables=None, **options):
        action = await_node.ActionModule.__new__(await_node.ActionModule)
        action._task, action._display = SimpleNamespace(args=options), SimpleNamespace(display=lambda text: None, columns=79)
        return action.run(None, {"inventory_hostname": "g1", "hostvars": HostVars(VARIABLES), **(variables or {})})

    return run, calls


def test_containers_that_a_drain_did_not_end_fail_with_the_remedy(monkeypatch):
    run, _calls = node(monkeypatch, {"containers": [REPLICA]})
    drained = run(event="drained", wait_timeout="0")
    assert drained["containers"] == [REPLICA]
    assert drained["failed"]
    assert drained["msg"] == f"svc.1.x still runs here. {not_drained(0)}, then run this again."
    assert "stop_grace_period" in drained["msg"]


@pytest.mark.parametrize("answers", [["no route"], [{"containers": [REPLICA]}, "no route", {"containers": []}]])
def test_a_connection_lost_during_the_drain_leaves_no_list(monkeypatch, answers):
    run, _calls = node(monkeypatch, *answers)
    drained = run(event="drained", wait_timeout=9)
    assert drained["failed"]
    assert "its containers could not be read (no route). Nothing was changed." in drained["msg"]


BUSY, IDLE, MUTE = {"containers": [NOTEBOOK]}, {"containers": []}, {"failed": True, "msg": "dockerd hangs"}
BLOCKED, FREE = {**BUSY, "blocking": ["container notebook (for 1 min)"]}, {**IDLE, "blocking": []}


@pytest.mark.parametrize(
    ("answers", "result", "queries"),
    [
        ([IDLE], FREE, 1),
        ([BUSY, BUSY, IDLE], FREE, 3),
        ([BUSY], BLOCKED, 4),  # this is no failure: the host is waiting
        # If a host is unreachable at the first query, the action fails at once. A later lost connection is only a round without an answer.
        (["no route", IDLE], {"failed": True, "msg": "no route"}, 1),
        ([BUSY, "no route", MUTE, IDLE], FREE, 4),
        ([BUSY, "no route"], BLOCKED, 4),
        ([MUTE, IDLE], FREE, 2),
        ([MUTE], MUTE, 4),
    ],
)
def test_work_is_waited_for_while_the_node_answers(monkeypatch, answers, result, queries):
    run, calls = node(monkeypatch, *answers)
    assert run(event="work_ended", wait_timeout=4, docker_socket="/x") == result
    assert calls == [{"docker_socket": "/x", "state": "gathered"}] * queries


def test_the_ledger_is_that_of_the_last_call_of_a_manager(monkeypatch):
    """This ledger lists the task of the container. Swarm starts such a task again, so the run does not wait for the container."""
    kept = {"gpu_swarm_ledger": ledger(member("n1", tasks=[task("svc.1", "svc", id="t1")]))}
    run, _calls = node(monkeypatch, {"containers": [REPLICA]})
    found = [run(kept, event="work_ended", wait_timeout=0, with_tasks=one)["blocking"] for one in ("true", "false")]
    assert found == [[], ["task svc.1.x of service svc (for 1 min)"]]


BACK, PENDING, DEAD = {"swarm": {"state": "active"}}, {"swarm": {"state": "pending"}}, {"failed": True, "msg": "no driver"}
HANGS = {"failed": True, "hangs": True, "msg": "NVML hangs"}


@pytest.mark.parametrize(
    ("answers", "result", "queries"),
    [
        ([BACK], BACK, 1),
        ([DEAD, PENDING, BACK], BACK, 3),
        ([DEAD], DEAD, 5),
        ([HANGS, BACK], HANGS, 1),  # a node that hangs once keeps hanging
        ([PENDING], {**PENDING, "failed": True, "msg": await_node.NOT_BACK % ("pending", 4)}, 5),
    ],
)
def test_a_node_is_waited_for_until_it_returns(monkeypatch, answers, result, queries):
    run, calls = node(monkeypatch, *answers)
    assert run(event="returned", wait_timeout=4, delay=1, advertise=[]) == result
    assert calls == [{"advertise": []}] * queries
