# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes get the labels of classes only after two checks: all nodes can get the labels, and swarm accepts the service that needs them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_job import ActionModule as JobAction
from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_stack import ActionModule as StackAction

LABELS = {"gpu.count": "4", "gpu.model": "Tesla-T4"}
T4 = {"id": "n1", "hostname": "g1", "labels": LABELS, "leader": True, "engine_version": "26.1.5", "resources": {}}
FREE = {"changed": True, "nodes": [], "refused": []}
TASKS = [{"service": "train"}]
BUSY = {**FREE, "refused": [{"hostname": "g1", "tasks": TASKS}]}
REFUSED = {"failed": True, "msg": "No node could ever run it.", "wrong": True}
LOOK = {
    "nodes": [T4], "kinds": ["NVIDIA-GPU"], "preflight": [], "pending_now": [], "progress": [], "taken": [], "networks_taken": [], "images": {},
    "missing_objects": [], "refused": [], "kept": None, "clashes": [], "unread": "",
}  # fmt: skip
COMPOSE = 'services: {a: {image: i, x-gpu: {model: "*T4*"}}}'


def run(action_class: Any, args: dict[str, Any], checks: bool, **answers: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the result and the names of the called modules. A name is in capitals if the module may change something."""
    calls: list[str] = []
    action = action_class.__new__(action_class)

    def execute(module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
        name = module_name.rpartition(".")[2]
        calls.append(name if action._task.check_mode else name.upper())
        found = answers[name]
        return dict(found(module_args, action._task.check_mode) if callable(found) else found)

    action._task = SimpleNamespace(args=args, check_mode=checks, diff=False, delegate_to=None, environment=None, no_log=False, async_val=0)
    action._connection = SimpleNamespace(_play_context=SimpleNamespace(no_log=False), _shell=SimpleNamespace(tmpdir=None))
    action._display = SimpleNamespace(display=lambda _text: None, warning=lambda _text: None, columns=79)
    action._execute_module = execute
    action._templar = None
    return action.run(task_vars={"inventory_hostname": "m1"}), calls


def of_job(arguments: dict[str, Any], checks: bool) -> dict[str, Any]:
    over = {"changed": True, "unplaced": False, "jobs": [], "waiting": [], "not_ready": [], "problems": [], "ending": [], "diff": {}}
    return over if "placement" in arguments else {**over, "unplaced": True}


def job(nodes: Any = None, answer: Any = of_job, checks: bool = False) -> tuple[dict[str, Any], list[str]]:
    args = {"name": "sweep", "image": "i", "x_gpu": {"model": "*T4*"}}
    return run(JobAction, args, checks, swarm_job=answer, swarm_nodes=nodes or FREE, swarm_stack_on_manager=LOOK)


def test_a_job_is_checked_before_a_node_is_labelled() -> None:
    result, calls = job()
    assert "msg" not in result, result
    assert calls == ["SWARM_JOB", "SWARM_STACK_ON_MANAGER", "swarm_job", "swarm_nodes", "SWARM_NODES", "SWARM_JOB"]


def test_no_node_is_labelled_for_a_job_that_is_refused() -> None:
    result, calls = job(answer=lambda arguments, checks: REFUSED if "placement" in arguments else of_job(arguments, checks))
    assert (result["failed"], result["msg"]) == (True, "m1: No node could ever run it.")
    assert calls == ["SWARM_JOB", "SWARM_STACK_ON_MANAGER", "swarm_job"]


def test_no_node_is_labelled_if_that_would_stop_a_task() -> None:
    for result, calls in (job(BUSY), stack(BUSY)):
        assert "x-gpu needs a new label on g1 (train)" in result["msg"]
        assert "SWARM_NODES" not in calls
        assert calls[-1] == "swarm_nodes"


def test_a_check_run_labels_nothing() -> None:
    for result, calls in (job(checks=True), stack(checks=True)):
        assert result["changed"]
        assert [name for name in calls if name.isupper()] == []


def test_existing_labels_cost_no_second_call() -> None:
    _result, calls = job({**FREE, "changed": False})
    assert calls.count("swarm_nodes") == 1
    assert "SWARM_NODES" not in calls


@pytest.fixture(autouse=True)
def compose(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "compose.yml").write_text(COMPOSE)
    monkeypatch.chdir(tmp_path)


def stack(nodes: Any = None, checks: bool = False) -> tuple[dict[str, Any], list[str]]:
    explained = {"service": "s_a", "fits": True, "possible": True, "text": "", "feasible": ["n1"], "rivals": [],
                 "keeps_tasks": False, "overlaps": False}
    answer = {**LOOK, "preflight": [explained]}
    return run(StackAction, {"name": "s", "compose": "compose.yml"}, checks, swarm_nodes=nodes or FREE, swarm_stack_on_manager=answer)
