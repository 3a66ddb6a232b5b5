# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Docker's messages about a stack are shown without the values of the stack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_stack import ActionModule

S = "s3cr3t-v4lue"
COMPOSE = f"services: {{a: {{image: lab/task, environment: {{WHATEVER: {S}}}}}}}"
FITS = {"service": "s_a", "fits": True, "possible": True, "text": "", "feasible": [], "rivals": [], "keeps_tasks": False, "overlaps": False}
SAID = f'failed to create service s_a: Error response from daemon: rpc error: expanding env "WHATEVER={S}" of lab/task'
ONE = {
    "service": "s_a", "id": "1", "specified": "x", "job": False, "wanted": 1, "running": 0, "complete": 0, "former": 0, "done": False, "over": True,
    "update": "",
}  # fmt: skip
PROGRESS = {**ONE, "failures": 1, "failed": f"starting container failed: {S}", "ended": ["t1"], "past": [], "digest": "", "tasks": []}
ANSWER = {
    "nodes": [], "kinds": [], "preflight": [FITS], "pending_now": [], "progress": [], "taken": [], "networks_taken": [], "images": {},
    "missing_objects": [], "refused": [], "kept": None, "clashes": [], "unread": "",
    "objects": {"services": {"1": "s_a"}},
}  # fmt: skip


@pytest.fixture
def deployed(tmp_path: Any) -> Any:
    (tmp_path / "compose.yml").write_text(COMPOSE)

    def run(**answers: Any) -> tuple[dict[str, Any], str]:
        lines: list[str] = []
        found = {"read": ANSWER, "deploy": ANSWER, **answers}
        action = ActionModule.__new__(ActionModule)
        args = {"name": "s", "compose": str(tmp_path / "compose.yml"), "wait_timeout": 0}
        action._task = SimpleNamespace(args=args, check_mode=False, diff=False, delegate_to=None, environment=None, no_log=False, async_val=0)
        action._connection = SimpleNamespace(_play_context=SimpleNamespace(no_log=False), _shell=SimpleNamespace(tmpdir=None))
        action._display = SimpleNamespace(display=lines.append, warning=lines.append, columns=79)
        action._execute_module = lambda module_name, module_args, task_vars: _copied(found["deploy" if module_args.get("archive") else "read"])
        action._templar = None
        return action.run(task_vars={"inventory_hostname": "m1"}), "\n".join(lines)

    return run


def _copied(answer: Any) -> Any:
    return {
        key: [dict(one) if isinstance(one, dict) else one for one in value] if isinstance(value, list) else value for key, value in answer.items()
    }


def test_a_refusal_of_docker_shows_no_value(deployed: Any) -> None:
    result, lines = deployed(deploy={"failed": True, "msg": SAID, "incomplete": True})
    assert 'failed to create service s_a: Error response from daemon: rpc error: expanding env "WHATEVER=***" of lab/task' in result["msg"]
    assert S not in result["msg"] + lines


@pytest.mark.parametrize("compose", ["services: {a: {image: 'http://me:%s@h/x'}}", "services: {a: {image: 'http://me:%s@h/x'}}\nservces: {}"])
def test_a_refusal_of_the_file_shows_no_password(deployed: Any, tmp_path: Any, compose: str) -> None:
    (tmp_path / "compose.yml").write_text(compose % S)
    result, lines = deployed()
    assert "services.a.image is 'http://me:***@h/x', which is not a valid image name" in result["msg"]
    assert S not in str(result) + lines


def test_the_reason_of_a_failed_task_shows_no_value(deployed: Any) -> None:
    answer = {**ANSWER, "progress": [PROGRESS]}
    result, lines = deployed(deploy=answer, read=answer)
    assert "starting container failed: ***" in lines
    assert S not in str(result["progress"]) + lines


def test_an_error_of_a_manager_shows_no_value(deployed: Any) -> None:
    result, lines = deployed(read={"failed": True, "msg": f"The manager would not read: {S}."})
    assert "***" in result["msg"]
    assert S not in str(result) + lines
