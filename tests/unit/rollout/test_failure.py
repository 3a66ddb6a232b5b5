# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outcome of a host after a failed task. Some tests use the failed result, and others use a rescue in a real playbook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleConnectionFailure
from fleet_lab import assessed, planned

from ansible_collections.fleet.gpu_swarm.plugins.action import gpu_node
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.failure import Failure, outcome

ROOT = Path(__file__).parents[3]
NOTEBOOK, OF_WEB = {"name": "notebook", "service": None, "task": None}, {"name": "web.1.x", "service": "web", "task": "t"}
OLD_LATE = {"msg": "The command action failed to execute in the expected time frame (5) and was terminated"}
LATE = {"msg": "Timed out after 5 second(s).", "timedout": {"period": 5}}
OVER = "the connection was lost during the task 'Install it': no route"

# case -> (the failed result, why the host does not answer, failed_as, the state, the reason)
FAILURES = {
    "a failure": ({"msg": "no driver"}, "", None, "failed", "no driver"),
    "without a reason": ({}, "", None, "failed", "see above"),
    "reverted": ({"msg": "no start", "restored": True}, "", None, "failed", "no start"),
    "not reverted": ({"msg": "no start", "restored": False}, "", None, "out", "no start"),
    "in a maintenance": ({"msg": "non-zero"}, "", "out", "out", "the task Upgrade: non-zero"),
    "not reverted, but failed_as is failed": ({"msg": "no start", "restored": False}, "", "failed", "failed", "no start"),
    "an unreachable host": ({"msg": "no driver"}, "no route", None, "lost", "no route"),
    "an unreachable host in a maintenance": ({"msg": "non-zero"}, "no route", "out", "lost", "no route"),
    "an answer with invalid lists": ({"msg": "no start", "busy": True, "came": 5}, "", None, "failed", "no start"),
    "an answer with incomplete lists": ({"msg": "no start", "busy": [{"name": "a"}], "came": ["a"]}, "", None, "failed", "no start"),
    "a task that timed out": (LATE, "", None, "lost", "the task Upgrade: Timed out after 5 second(s)."),
    "a task that timed out with an older ansible-core": (OLD_LATE, "", None, "lost", f"the task Upgrade: {OLD_LATE['msg']}"),
    "a running container": ({"msg": "busy", "busy": [NOTEBOOK, OF_WEB]}, "", None, "waiting", "container notebook"),
    "a container that started meanwhile": ({"msg": "busy", "busy": [], "came": [NOTEBOOK]}, "", None, "waiting", "container notebook"),
    "a running container in a maintenance": ({"msg": "busy", "busy": [NOTEBOOK]}, "", "out", "waiting", "container notebook"),
    "only a task that the drain should have ended": ({"msg": "web still runs", "busy": [OF_WEB]}, "", None, "failed", "web still runs"),
    "a running container on an unreachable host": ({"msg": "busy", "busy": [NOTEBOOK]}, "no route", None, "lost", "no route"),
}


@pytest.mark.parametrize(("result", "gone", "failed_as", "state", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_host_gets_its_outcome(result, gone, failed_as, state, reason):
    found = outcome("a", {"gpu_node_assessed": assessed("n1")}, Failure(result, "Upgrade", gone), failed_as)
    assert found == {"state": state, "reason": reason}


@pytest.mark.parametrize(("disrupt", "state"), [("services", "waiting"), ("all", "failed")])
def test_stoppable_work_is_not_waited_for(disrupt, state):
    assert outcome("a", planned("a", disrupt=disrupt), Failure({"msg": "busy", "busy": [NOTEBOOK]}, ""))["state"] == state


def test_a_host_that_must_wait_before_leaving_waits():
    variables = {"swarm_member_waits_for": ["task t.1 of service t"]}
    assert outcome("a", variables, Failure({"msg": "it stays"}, "Leave")) == {"state": "waiting", "reason": "task t.1 of service t"}


@pytest.mark.parametrize("failed_as", [None, "out"])
def test_a_lost_connection_is_reported_without_ansible_s_text_about_the_condition(failed_as):
    variables = {"gpu_swarm_connection_lost": OVER}
    failure = Failure({"msg": f"Error while evaluating conditional: {OVER}"}, "Next")
    assert outcome("a", variables, failure, failed_as)["reason"] == OVER
    assert outcome("a", variables, Failure({"msg": "no driver"}, "Next"))["reason"] == "no driver"


def test_an_earlier_outcome_is_kept():
    kept = {"state": "waiting", "reason": "container x", "leave_paused": True}
    assert outcome("a", {"gpu_swarm_outcome": kept}, Failure({"msg": "of another host"}, ""), "out") == kept


# --- played by Ansible ------------------------------------------------------------------------------------------------

# One host cannot be reached, and another host loses a single call.
CONNECTION = r"""
import os

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local

DOCUMENTATION = "name: cut\nshort_description: cut\ndescription: [cut]\nauthor: nobody\noptions: {}"


class Connection(Local):
    transport = "cut"

    def exec_command(self, *arguments, **options):
        cut = os.environ["LAB_CUT"]
        if self._play_context.remote_addr == "gone":
            raise AnsibleConnectionFailure("no route")
        if os.path.exists(cut):
            os.remove(cut)
            raise AnsibleConnectionFailure("reset by peer")
        return super().exec_command(*arguments, **options)
"""
HOSTS = """
fine
fails
waits
gone ansible_connection=cut
once ansible_connection=cut
[all:vars]
ansible_connection=local
"""
PLAY = """
- hosts: all
  gather_facts: false
  ignore_unreachable: true
  vars: {word: templated}
  tasks:
    - ansible.builtin.set_fact: {gpu_swarm_outcome: "{{ {'state': 'waiting', 'reason': 'x'} if inventory_hostname == 'waits' else {} }}"}
    - block:
        - block:
            - name: "{{ word }} task"
              TASK
          when: [not gpu_swarm_outcome, "inventory_hostname in WHO"]
      rescue:
        - fleet.gpu_swarm.host_outcome: ARGUMENTS
          register: gpu_swarm_outcome
    - ansible.builtin.debug: {msg: "{{ gpu_swarm_outcome }}"}
"""
SAID = "the connection was lost during the task 'templated task': %s"
PLAYS = {
    "of the node": ("fleet.gpu_swarm.gpu_node: {state: gathered}", "{}", "['gone', 'once']"),
    "of a user": ("ansible.builtin.fail: {msg: wrong}", "{failed_as: out}", "['waits', 'fails', 'gone', 'once']"),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Return the outcome of each host, by play."""
    folder = tmp_path_factory.mktemp("played")
    for part in ("meta", "plugins"):
        shutil.copytree(ROOT / part, folder / "collections" / "ansible_collections" / "fleet" / "gpu_swarm" / part)
    (folder / "cut.py").write_text(CONNECTION)
    (folder / "once").touch()
    (folder / "hosts.ini").write_text(f"{HOSTS}ansible_python_interpreter={sys.executable}\n")
    texts = [PLAY.replace("TASK", task).replace("ARGUMENTS", arguments).replace("WHO", who) for task, arguments, who in PLAYS.values()]
    (folder / "play.yml").write_text("".join(texts))
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(folder / "collections"),
        ANSIBLE_CONNECTION_PLUGINS=str(folder),
        ANSIBLE_LOCAL_TEMP=str(folder / "local"),
        ANSIBLE_REMOTE_TEMP=str(folder / "remote"),
        ANSIBLE_PIPELINING="True",
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
        LAB_CUT=str(folder / "once"),
    )
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(folder / "hosts.ini"), str(folder / "play.yml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    plays = json.loads(done.stdout[done.stdout.index("{\n") :])["plays"]
    return {name: {host: kept["msg"] for host, kept in one["tasks"][-1]["hosts"].items()} for name, one in zip(PLAYS, plays, strict=True)}


@pytest.mark.parametrize(
    ("play", "host", "state", "reason"),
    [
        ("of the node", "gone", "lost", "no route"),
        # The play ignores unreachable hosts. This host has answered after the lost call, so the lost call is a failure.
        ("of the node", "once", "failed", SAID % "reset by peer"),
        ("of a user", "gone", "lost", "no route"),
        ("of a user", "once", "out", "the task templated task: wrong"),
        ("of a user", "fails", "out", "the task templated task: wrong"),
        ("of a user", "waits", "waiting", "x"),
    ],
)
def test_a_rescue_keeps_the_outcome_of_the_host(played, play, host, state, reason):
    found = played[play][host]
    assert (found["state"], found["reason"]) == (state, reason)


def test_elsewhere_an_unreachable_host_is_unreachable(monkeypatch):
    def lose(self, tmp, task_vars):
        raise AnsibleConnectionFailure("no route")

    monkeypatch.setattr(gpu_node.ActionModule, "query", lose)
    action = gpu_node.ActionModule.__new__(gpu_node.ActionModule)
    action._task = SimpleNamespace(ignore_unreachable=None)
    with pytest.raises(AnsibleConnectionFailure):
        action.run(None, {})


def test_without_a_failure_there_is_no_outcome(played):
    assert [found["fine"] for found in played.values()] == [{}, {}]
