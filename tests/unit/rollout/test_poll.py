# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from host_vars import HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action import await_containers, await_return
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd.containers import not_drained
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.poll import apart, poll

VARIABLES = {"g1": {"gpu_swarm_plan": {"steps": {"g1": {"disrupt": "services", "stops": "containers", "node_id": "n1"}}}}}
NOTEBOOK = {"name": "notebook", "service": None, "task": None, "age": 60}
REPLICA = {"name": "svc.1.x", "service": "svc", "task": "t1", "age": 60}


class Clock:
    def __init__(self):
        self.now, self.slept = 0.0, []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def polled(rounds, timeout=10, delay=2):
    """The answer, what was said, and the clock, where each question takes a second and ``rounds`` are what is left after it."""
    clock, said, left = Clock(), [], list(rounds)

    def query():
        clock.now += 1
        return {"left": left.pop(0) if len(left) > 1 else left[0]}

    answer = poll(query, lambda answer: answer["left"], timeout, said.append, delay, lambda: clock.now, clock.sleep)
    return answer, said, clock


def test_where_nothing_is_waited_for_there_is_one_question_and_no_word():
    answer, said, clock = polled([[]])
    assert (answer, said, clock.slept) == ({"left": []}, [], [])


def test_what_is_waited_for_is_said_once():
    answer, said, clock = polled([["container a", "container b"], ["container a"], []])
    assert (answer, clock.slept) == ({"left": []}, [2, 2])
    assert said == ["waiting for container a, container b (up to 10 s)"]


def test_it_ends_in_time_with_the_last_answer():
    answer, said, clock = polled([["container a"]], timeout=5)
    assert answer == {"left": ["container a"]}
    assert clock.now <= 5 + 1  # the last question takes as long as it takes
    assert len(said) == 1


def test_no_time_is_one_question():
    assert polled([["container a"], []], timeout=0)[0] == {"left": ["container a"]}
    assert polled([["container a"], []], timeout=0)[1] == []


def test_not_everything_is_named():
    assert polled([[f"c{number}" for number in range(9)], []])[1] == ["waiting for c0, c1, c2, c3, c4 and 4 more (up to 10 s)"]


def test_the_module_does_not_see_the_options_of_the_wait():
    assert apart({"event": "shown", "docker_host": "x"}, ("event", "hosts")) == ({"event": "shown"}, {"docker_host": "x"})


# --- what is waited for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "answer", "left"),
    [
        ("work_ended", {"containers": [NOTEBOOK]}, ["container notebook (for 1 min)"]),
        ("work_ended", {"containers": []}, []),
        ("work_ended", {"failed": True}, await_containers.NO_ANSWER),
        ("drained", {"containers": [NOTEBOOK]}, []),
        ("drained", {"containers": [REPLICA, NOTEBOOK]}, ["container svc.1.x"]),
        ("drained", {"failed": True}, await_containers.NO_ANSWER),
    ],
)
def test_containers(event, answer, left):
    assert await_containers.EVENTS[event]("g1", VARIABLES, None, answer) == left


def running(self, tmp, task_vars):
    return {"containers": [REPLICA]}


def waited_for(monkeypatch, answer=running, **options):
    """What the action returns of a node on which a replica runs on."""
    monkeypatch.setattr(await_containers.NodeAction, "run", answer)
    action = await_containers.ActionModule.__new__(await_containers.ActionModule)
    action._task, action._display = SimpleNamespace(args=dict(options)), SimpleNamespace(display=lambda text: None)
    return action.run(None, {"inventory_hostname": "g1", "hostvars": HostVars(VARIABLES)})


def test_what_a_drain_did_not_end_fails_with_the_remedy(monkeypatch):
    drained = waited_for(monkeypatch, event="drained", wait_timeout="0")
    assert drained["containers"] == [REPLICA]
    assert drained["failed"]
    assert drained["msg"] == f"svc.1.x still runs here. {not_drained(0)}, then run this again."
    assert "stop_grace_period" in drained["msg"]
    assert "failed" not in waited_for(monkeypatch, event="work_ended", wait_timeout=0, ledger={"nodes": []})


def test_a_connection_that_is_lost_during_the_drain_has_left_no_list(monkeypatch):
    def lose(self, tmp, task_vars):
        raise AnsibleConnectionFailure("no route")

    drained = waited_for(monkeypatch, lose, event="drained", wait_timeout="0")
    assert drained["failed"]
    assert "what still runs there could not be read (no route). Nothing was changed." in drained["msg"]


BACK, AWAY, DEAD = {"swarm": {"state": "active"}}, {"swarm": {"state": "pending"}}, {"failed": True, "msg": "no driver"}
HANGS = {"failed": True, "hangs": True, "msg": "NVML hangs"}


@pytest.mark.parametrize(
    ("answers", "result", "queries"),
    [
        ([BACK], BACK, 1),
        ([DEAD, AWAY, BACK], BACK, 3),
        ([DEAD], DEAD, 5),
        ([HANGS, BACK], HANGS, 1),  # what hangs once hangs on
        ([AWAY], {**AWAY, "failed": True, "msg": await_return.NOT_BACK % ("pending", 4)}, 5),
    ],
)
def test_a_node_is_waited_for_until_it_is_back(monkeypatch, answers, result, queries):
    made, left, clock = [], list(answers), Clock()

    def run(self, tmp, task_vars):
        made.append(dict(self._task.args))
        return left.pop(0) if len(left) > 1 else left[0]

    def paced(query, waits_for, timeout, say, delay):
        return poll(query, waits_for, timeout, say, delay, lambda: clock.now, clock.sleep)

    monkeypatch.setattr(await_return.NodeAction, "run", run)
    monkeypatch.setattr(await_return, "poll", paced)
    action = await_return.ActionModule.__new__(await_return.ActionModule)
    action._task = SimpleNamespace(args={"wait_timeout": 4, "delay": 1, "advertise": []})
    action._display = SimpleNamespace(display=lambda text: None)
    assert action.run(None, {"inventory_hostname": "g1"}) == result
    assert made == [{"advertise": []}] * queries
