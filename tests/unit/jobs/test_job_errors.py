# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of a job file are reported together, before a manager is called. If a manager refuses the job, no other manager is called."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_job import ActionModule
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._calls.managers import as_manager_answer


@pytest.fixture
def run(tmp_path: Any) -> Any:
    """Return a function that runs a job file, and returns the result and the arguments of each call to a manager. The manager returns ``answer``."""

    def call(text: str, answer: Any = None, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        (tmp_path / "job.yml").write_text(text)
        called_with: list[dict[str, Any]] = []

        def execute(module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
            called_with.append(module_args)
            return dict(answer or {"failed": True, "msg": "too old"})

        action = ActionModule.__new__(ActionModule)
        args = {"file": str(tmp_path / "job.yml"), **options}
        action._task = SimpleNamespace(args=args, check_mode=False, diff=False, delegate_to=None, no_log=False, async_val=0)
        action._connection = SimpleNamespace(_play_context=SimpleNamespace(no_log=False), _shell=SimpleNamespace(tmpdir=None))
        action._display = SimpleNamespace(display=lambda _line: None, warning=lambda _line: None, columns=79)
        action._execute_module, action._templar = execute, None
        return action.run(task_vars={"inventory_hostname": "m1"}), called_with

    return call


WRONG = """
imagee: x
name: sweep
image: "lab/task:"
gpus: two
time_limit: -1
env: [A, B]
command: "sh -c 'x"
mounts: "type=bind,source=/a,target=/b"
networks: [[n]]
constraints: ["node.role=manager"]
x-gpu: {memory_min: lots, cuda: 12, cud: 1}
wait: maybe
"""
BEGINS = [
    "{}: imagee, wait is not known. Options are name, image,",
    "image of the job sweep is 'lab/task:', which is not a valid image name. Write it as name:tag",
    "gpus of the job sweep is 'two', but must be a whole number. Write one.",
    "time_limit of the job sweep is -1. Write 0 or more.",
    "env of the job sweep is a list, but must be a mapping. Write 'key: value' under it.",
    "command of the job sweep cannot be split into words",
    "mounts of the job sweep is text, but must be a list. Begin each entry with '- '.",
    "networks of the job sweep is a list, but must be a list of strings. Put each entry in quotes.",
    "'node.role=manager' in constraints of the job sweep is not a valid constraint",
    "The job sweep: x-gpu.cud is not known.",
    "The job sweep: x-gpu.memory_min is 'lots'",
    "The job sweep: x-gpu.cuda is 12.",
]


def test_all_errors_of_a_job_file_are_on_a_line_each_and_no_manager_is_called(run: Any, tmp_path: Any) -> None:
    result, called_with = run(WRONG)
    lines = result["msg"].splitlines()
    assert lines[0] == "job.yml has 12 errors. Nothing was submitted."
    assert [place for place, line in zip(BEGINS, lines[1:], strict=True) if not line.startswith(f"- {place.format(tmp_path / 'job.yml')}")] == []
    assert not any("Nothing was submitted" in line for line in lines[1:])
    assert (result["failed"], result["answered"], called_with) == (True, True, [])


ONE = {
    "no name": ("image: lab/task", "The job has no name. Write one: name: sweep."),
    "no image": ("name: a", "The job a has no image."),
    "a wrong image is not a missing image": ("name: a\nimage: [x]", "image of the job a is a list, but must be text. Put it in quotes."),
    "a wrong name": ("name: a b\nimage: x", "The name of the job is 'a b'."),
    "a name that is a list": ("name: [a]\nimage: x", "name of the job ['a'] is a list, but must be text."),
    "no secret": ("name: a\nimage: x\nenv: [KEY=s3cret]", "env of the job a is a list, but must be a mapping."),
    "no secret as a key": ("name: a\nimage: x\nenv: {KEY=s3cret}", "env of the job a: 'KEY=***' is not a valid name of a variable"),
    "no secret as an option": ("name: a\nimage: x\nKEY=s3cret:", "{}: KEY=*** is not known"),
    "no secret that begins as an alias": ("name: a\nimage: x\nenv: {KEY: *s3cret}", "{} is not readable YAML: line 3, column 12: there is an alias"),
    "no secret that begins as a tag": ("name: a\nimage: x\nenv: {KEY: !!int s3cret}", "{} is not readable YAML: a value does not match"),
    "no secret in an address": ("name: a\nimage: http://me:s3cret@h/x", "image of the job a is 'http://me:***@h/x', which is not"),
    "no secret in a mount": ("name: a\nimage: x\nmounts: ['target=/x,password=s3cret']", "The mount 'target=/x,password=***' of"),
    "an empty entry": ("name: a\nimage: x\nnetworks: [n, null]", "networks of the job a is a list, but must be a list of strings."),
    "a queue that is a list": ("name: a\nimage: x\nqueue: [q]", "queue of the job a is a list, but must be text. Put it in quotes."),
    "nodes without a queue": ("name: a\nimage: x\nnodes: 2", "nodes of the job a needs a queue. Write one, such as queue: research, or"),
    "nodes as a word": ("name: a\nimage: x\nqueue: q\nnodes: two", "nodes of the job a is 'two', but must be a whole number. Write one."),
    "too many nodes": ("name: a\nimage: x\nqueue: q\nnodes: 100", "nodes of the job a is 100. Write a number from 1 to 64."),
    "a duration as start_timeout": ("name: a\nimage: x\nqueue: q\nnodes: 2\nstart_timeout: 30m", "start_timeout of the job a is '30m', but must be"),
    "the same model, perhaps": ("name: a\nimage: x\nqueue: q\nnodes: 2\nsame_model: maybe", "same_model of the job a is 'maybe', but must be true"),
    "a priority beyond the limit": ("name: a\nimage: x\nqueue: q\npriority: -1001", "priority of the job a is -1001. Write a whole number from"),
    "a rank of its own": ("name: a\nimage: x\nqueue: q\nnodes: 2\nenv: {NODE_RANK: 1}", "The job a sets NODE_RANK. With nodes, each member gets"),
    "a file that cannot be read": ("name: [", "{} is not readable YAML"),
}


@pytest.mark.parametrize(("text", "message"), ONE.values(), ids=ONE)
def test_one_error_is_one_line(run: Any, tmp_path: Any, text: str, message: str) -> None:
    result, called_with = run(text)
    assert result["msg"].startswith(message.format(tmp_path / "job.yml"))
    assert result["msg"].endswith(" Nothing was submitted.")
    assert "\n" not in result["msg"]
    assert "s3cret" not in result["msg"]
    assert (result["answered"], called_with) == (True, [])


def test_a_wrong_option_of_the_run_is_not_reported_as_silent_managers(run: Any) -> None:
    result, called_with = run("name: a\nimage: x", again="maybe", log_limit_mib="much")
    assert result["msg"].splitlines()[1:] == [
        "- again of the job a is 'maybe', but must be never, failed or always. Write one of them.",
        "- log_limit_mib of the job a is 'much', but must be a whole number. Write one.",
    ]
    assert (result["answered"], called_with) == (True, [])


@pytest.mark.parametrize("name", ["jobs/array.yml", "fleet/job.yml"])
def test_the_examples_have_no_errors(run: Any, name: str) -> None:
    text = (Path(__file__).parents[3] / "docs/examples" / name).read_text(encoding="utf-8")
    assert len(run(text)[1]) == 1


EVERYTHING = """
name: a
image: lab/task
command: [train, --epochs, 3, 0.5]
entrypoint: sh -c
env: {A: 1, B: on, C: 0.5}
array: [{LR: 0.1}, {LR: 1e-3}]
gpus: 0
constraints: node.role==worker
mounts: ["type=bind,source=/a,target=/a", "type=tmpfs,target=/t"]
networks: [n]
user: 1000
workdir: /w
owner: me
time_limit: "60"
retries: 2
kind: VRAM
"""


def test_every_documented_key_is_accepted(run: Any) -> None:
    result, calls = run(EVERYTHING)
    assert (result["msg"], len(calls)) == ("m1: too old", 1)


def test_removing_a_job_needs_only_a_valid_name(run: Any) -> None:
    _result, (called_with,) = run("name: a\nimage: 'x:'\ngpus: two\nold: 1", state="absent")
    assert called_with == {"name": "a", "state": "absent"}


def test_a_valid_file_is_passed_to_the_manager(run: Any) -> None:
    result, (called_with,) = run("name: a\nimage: x\ngpus: '2'\nx-gpu: {memory_min: 40000}\nnetworks: n")
    assert called_with == {"name": "a", "image": "x", "gpus": "2", "x_gpu": {"memory_min": 40000}, "networks": "n"}
    assert (result["answered"], result["msg"]) == (False, "m1: too old")


def test_options_of_the_connection_are_passed_on_unchanged(run: Any) -> None:
    _result, (called_with,) = run("name: a\nimage: x", docker_host="tcp://192.0.2.1:2376", ca_path=None)
    assert called_with == {"name": "a", "image": "x", "docker_host": "tcp://192.0.2.1:2376", "ca_path": None}


def test_a_refusal_of_a_manager_is_an_answer(run: Any) -> None:
    said = "The manager at unix:///x refuses the job a: network n not found. Nothing was submitted."
    result, _called_with = run("name: a\nimage: x", {"failed": True, "wrong": True, "msg": said})
    assert as_manager_answer("swarm_job", result, "m1")["answered"]
    assert "No manager" not in as_manager_answer("swarm_job", result, "m1")["msg"]
