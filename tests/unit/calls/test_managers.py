# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Managers are called in order until one answers. Checks which results are answers, and runs the tasks with Ansible."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.managers import as_manager_answer
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._rollout.steps import STEPS

ROOT = Path(__file__).parents[3]

# --- one call ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "result", "answered"),
    [
        ("swarm_batch", {"answered": True, "outcomes": {}}, True),
        ("swarm_batch", {"answered": False, "outcomes": {}}, False),
        ("swarm_stack", {"answered": True, "failed": True, "msg": "There is no Compose file."}, True),  # other managers lack the file too
        ("swarm_job", {"answered": False, "failed": True, "msg": "m1 cannot be reached"}, False),
        ("swarm_explain", {"nodes": []}, True),
        ("swarm_explain", {"nodes": [], "failed": True, "msg": "/metrics is no directory"}, True),  # this manager has read the swarm
        ("swarm_gpu_info", {"failed": True, "msg": "no SDK"}, False),
        ("swarm_gpu_info", {"failed": True, "msg": "no SDK", "answered": True}, False),  # caused by a node, which may report anything
        ("swarm_job_prune", {"removed": [], "kept": []}, True),
        ("swarm_job_prune", {"failed": True, "wrong": True, "msg": "keep_last is -1"}, True),
        ("swarm_job_prune", {"failed": True, "wrong": False, "msg": "m1 is no manager"}, False),
    ],
)
def test_an_answer_ends_the_search_and_a_silent_manager_does_not(module, result, answered):
    found = as_manager_answer(module, result, "m1")
    assert (found["answered"], found["manager"], found["failed"]) == (answered, "m1" if answered else "", False)
    kept = {key: value for key, value in result.items() if key not in ("answered", "failed", "msg")}
    assert kept.items() <= found.items()


def test_a_call_does_not_fail_but_carries_the_reason():
    found = as_manager_answer("swarm_stack", {"answered": True, "failed": True, "rc": 1, "exception": "Traceback", "manager": "m9"}, "m1")
    assert found == {"failed": False, "rc": 1, "msg": "no reason given", "answered": True, "manager": "m1"}


@pytest.mark.parametrize(
    ("before", "result", "msg"),
    [
        ([], {"failed": True, "msg": "m1 cannot be reached: refused."}, "m1 cannot be reached: refused."),
        (["m0: no SDK"], {"failed": True, "msg": "too old"}, "m0: no SDK; m1: too old."),
        ([], {"failed": True, "msg": "m10 is no manager"}, "m1: m10 is no manager."),
        ([], {"failed": True, "msg": "m1's clock is wrong"}, "m1's clock is wrong."),
        ([], {"failed": True}, "m1: no reason given."),
        ([], {"failed": True, "msg": "", "manager": "m9", "exception": "Traceback"}, "m1: no reason given."),
    ],
)
def test_where_none_has_answered_each_is_named_with_the_reason(before, result, msg):
    found = as_manager_answer("swarm_gpu_info", result, "m1", before)
    assert found == {"answered": False, "manager": "", "failed": False, "reasons": found["reasons"], "msg": f"No manager of the swarm answers: {msg}"}
    assert found["reasons"] == [*before, msg.rstrip(".").rpartition("; ")[2]]


# --- played by Ansible ------------------------------------------------------------------------------------------------

# Replaces the real module, which needs a swarm.
MODULE = """
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(
    {
        "docker_host": {"type": "str"},
        "timeout": {"type": "int", "default": 60},
        "keep_label": {"type": "str", "default": "by default"},
        "ledger": {"type": "bool", "default": True},
    },
    supports_check_mode=True,
)
if module.params["docker_host"] == "unix:///no.sock":
    module.fail_json(msg="no SDK")
module.exit_json(changed=True, nodes=[dict(module.params, checks=module.check_mode)])
"""
CONNECTION = r"""
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = "name: dead\nshort_description: dead\ndescription: [dead]\nauthor: the tests\noptions: {}"


class Connection(ConnectionBase):
    transport = "dead"

    def _connect(self):
        raise AnsibleConnectionFailure("refused")

    exec_command = put_file = fetch_file = close = lambda self, *args, **options: self._connect()
"""
HOSTS = """
[nodes]
g1
g2
[managers]
dead ansible_connection=dead
lacks gpu_node_docker_socket=/no.sock
works gpu_node_docker_socket=/yes.sock
spare gpu_node_docker_socket=/spare.sock
external swarm_manager_docker_host="unix:///{{ 'there' }}.sock" gpu_node_docker_socket=/here.sock
[all:vars]
ansible_connection=local
"""
PLAY = """
- hosts: nodes
  gather_facts: false
  module_defaults: {group/fleet.gpu_swarm.gpu_swarm: {timeout: 7}}
  tasks:
    - ansible.builtin.import_tasks: CALL
      CHECKS
      vars: {_gpu_swarm_to: read the swarm, _gpu_swarm_candidates: MANAGERS, _gpu_swarm_module: MODULE, _gpu_swarm_arguments: ARGUMENTS}
    - ansible.builtin.debug: {msg: "{{ gpu_swarm_answer }}"}
"""
READ = '{ledger: false, keep_label: "{{ none | default(omit, true) }}"}'
SEEN = {"timeout": 7, "keep_label": "by default", "ledger": False}
DEAD = "dead cannot be reached: refused"
STACK = '{name: train, state: absent, registries: {r: {username: u, password: "hush{{ 1 }}"}}}'


def play(managers, module="swarm_gpu_info", arguments=READ, checks=False):
    call = str(ROOT / "playbooks/tasks/manager/call.yml")
    words = {"CALL": call, "CHECKS": f"check_mode: {checks}", "MANAGERS": json.dumps(managers), "MODULE": module, "ARGUMENTS": arguments}
    text = PLAY
    for key, value in words.items():
        text = text.replace(key, value)
    return text


PLAYS = {
    "the first": play(["works", "spare"]),
    "the second": play(["dead", "works", "spare"]),
    "the third": play(["dead", "lacks", "works"], checks=True),
    "an external one": play(["external"]),
    "no answer": play(["dead", "lacks"]),
    "no managers": play([]),
    "a secret": play(["dead"], "swarm_stack", STACK),
    "refused": play(["works", "spare"], "swarm_stack", '{name: "no name"}'),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Play all cases in one run. Return the results of the loop on g1 and the answer on each host for each play, and the whole output."""
    folder = tmp_path_factory.mktemp("played")
    home = folder / "collections" / "ansible_collections" / "fleet" / "gpu_swarm"
    for part in ("meta", "plugins"):
        shutil.copytree(ROOT / part, home / part)
    (home / "plugins/modules/swarm_gpu_info.py").write_text(MODULE)
    (folder / "dead.py").write_text(CONNECTION)
    (folder / "hosts.ini").write_text(f"{HOSTS}ansible_python_interpreter={sys.executable}\n")
    (folder / "play.yml").write_text("".join(PLAYS.values()))
    environment = dict(
        os.environ,
        ANSIBLE_COLLECTIONS_PATH=str(folder / "collections"),
        ANSIBLE_CONNECTION_PLUGINS=str(folder),
        ANSIBLE_LOCAL_TEMP=str(folder / "local"),
        ANSIBLE_REMOTE_TEMP=str(folder / "remote"),
        ANSIBLE_PIPELINING="True",
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.json",
    )
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-vvv", "-i", str(folder / "hosts.ini"), str(folder / "play.yml")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    plays = json.loads(done.stdout[done.stdout.index("\n{") :])["plays"]
    found = {}
    for name, one in zip(PLAYS, plays, strict=True):
        call, answer = one["tasks"][0]["hosts"], one["tasks"][-1]["hosts"]
        assert list(call) == ["g1"]  # one run for all tests
        assert list(answer) == ["g1", "g2"]
        found[name] = call["g1"]["results"], [host["msg"] for host in answer.values()]
    return found, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "who", "api", "reasons"),
    [
        ("the first", "works", "unix:///yes.sock", [None, "skipped"]),
        ("the second", "works", "unix:///yes.sock", [[DEAD], None, "skipped"]),
        ("the third", "works", "unix:///yes.sock", [[DEAD], [DEAD, "lacks: no SDK"], None]),
        ("an external one", "external", "unix:///there.sock", [None]),
    ],
)
def test_the_next_manager_is_called_if_one_does_not_answer(played, name, who, api, reasons):
    results, answers = played[0][name]
    assert ["skipped" if "skip_reason" in one else one.get("reasons") for one in results] == reasons
    for answer in answers:
        assert (answer["manager"], answer["answered"], answer["changed"]) == (who, True, True)
        assert answer["nodes"] == [{**SEEN, "docker_host": api, "checks": name == "the third"}]


@pytest.mark.parametrize(
    ("name", "words"),
    [("no answer", f"No manager of the swarm answers: {DEAD}; lacks: no SDK."), ("no managers", "No manager of the swarm answers.")],
)
def test_if_no_manager_answers_each_is_named_with_the_reason(played, name, words):
    _results, answers = played[0][name]
    assert [(answer["msg"], answer["answered"], answer["manager"]) for answer in answers] == 2 * [(words, False, "")]


def test_a_failure_that_every_manager_would_give_is_an_answer(played):
    results, answers = played[0]["refused"]
    assert (answers[0]["answered"], answers[0]["manager"]) == (True, "works")
    assert answers[0]["msg"].startswith("The name of the stack is 'no name'.")
    assert "skip_reason" in results[1]


def test_arguments_are_shown_at_no_verbosity(played):
    found, output = played
    assert found["a secret"][1][0]["msg"] == f"No manager of the swarm answers: {DEAD}."
    assert "hush1" not in output
    assert "deprecated" not in output.lower()


@pytest.mark.parametrize(
    ("module", "answered"), [("swarm_job_prune", True), ("swarm_explain", False), ("swarm_gpu_info", False), ("swarm_stack", False)]
)
def test_a_refusal_of_arguments_counts_only_in_the_module_s_own_words(module: str, answered: bool) -> None:
    """Other modules may return text from a node that an attacker controls. For these modules, the next manager is called."""
    assert as_manager_answer(module, {"wrong": True}, "m1")["answered"] is answered


# --- the callers --------------------------------------------------------------------------------------------------------

OF_OTHERS = {"_gpu_swarm_module", "_gpu_swarm_arguments", "_gpu_swarm_candidates", "_gpu_swarm_to"}
OF_BATCH = {"_gpu_swarm_module", "_gpu_swarm_step"}
AT_THE_ENDS = ("start", "finish")  # at the start and the end of a run, the managers may differ from the managers of the plan


def callers():
    """Return the file and the variables of each task that includes manager/call.yml."""
    for path in sorted([*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("tasks/*.yml")]):
        for task in _tasks(yaml.safe_load(path.read_text())):
            file = task.get("ansible.builtin.import_tasks") or task.get("ansible.builtin.include_tasks") or ""
            if file.endswith("manager/call.yml"):
                yield path.relative_to(ROOT).as_posix(), task["vars"]


def _tasks(items):
    for item in items or []:
        yield item
        for part in ("tasks", "block", "rescue"):
            yield from _tasks(item.get(part))


@pytest.mark.parametrize(("file", "given"), list(callers()))
def test_a_caller_sets_every_variable_that_decides_what_is_called(file, given):
    """A host could set a variable that the caller does not set, because facts that a module returns override variables of a task."""
    if given["_gpu_swarm_module"] != "swarm_batch":
        assert set(given) >= OF_OTHERS
    else:
        assert set(given) >= OF_BATCH | ({"_gpu_swarm_candidates"} if given["_gpu_swarm_step"] in AT_THE_ENDS else set())
        assert given["_gpu_swarm_step"] in STEPS


def test_each_step_is_called_from_somewhere():
    assert {given["_gpu_swarm_step"] for _file, given in callers() if "_gpu_swarm_step" in given} == set(STEPS)
