# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stack that Docker's reader refuses is not deployed.

If Docker refuses a stack halfway, the error names the created parts, and a new stack is removed. A removal waits until the GPUs of the
stack are free.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from host_vars import GROUPS, HostVars

from ansible_collections.fleet.gpu_swarm.plugins.action import swarm_stack
from ansible_collections.fleet.gpu_swarm.plugins.action.swarm_stack import ActionModule
from plugins.module_utils._swarm import stack_objects
from plugins.module_utils._swarm.manager import SwarmError
from plugins.plugin_utils._rollout.poll import poll
from plugins.plugin_utils._stack import deploy_verdict, deployment_wait

NO_OBJECTS: dict[str, dict[str, str]] = {kind: {} for kind in stack_objects.KINDS}
FITS = {"service": "s_a", "fits": True, "possible": True, "text": "", "feasible": [], "keeps_tasks": False, "rivals": [], "overlaps": False}
ANSWER = {
    "nodes": [], "kinds": [], "preflight": [FITS], "pending_now": [], "progress": [], "taken": [], "networks_taken": [], "images": {},
    "missing_objects": [], "refused": [], "kept": None, "clashes": [], "unread": "", "objects": NO_OBJECTS,
    "ending": [],
}  # fmt: skip
SERVICE = {"service": "s_old", "id": "o1", "specified": "1", "failed": "", "job": False, "running": 1, "former": 0}

Result = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Any) -> Any:
    """Deploy with these answers of the module that reads the swarm. Return the result, and the arguments of the module's calls."""
    (tmp_path / "compose.yml").write_text("services: {a: {image: i, environment: {TOKEN: s3cr3t-word}}}")

    def call(*answers: dict[str, Any], check: bool = False, deployed: Any = None, task_vars: Any = None, **options: Any) -> Result:
        read, left = [], list(answers)

        def execute(module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
            assert module_name == "fleet.gpu_swarm.swarm_stack_on_manager"
            if module_args.get("archive"):
                return deployed or {"failed": True, "msg": "port '80' is already in use", "incomplete": True}
            read.append(module_args)
            return {**ANSWER, **left.pop(0)} if left else {"failed": True, "msg": "No manager."}

        action = ActionModule.__new__(ActionModule)
        args = {"name": "s", "compose": str(tmp_path / "compose.yml"), "wait_timeout": 0, "prune": True, **options}
        action._task = SimpleNamespace(args=args, check_mode=check, diff=False, delegate_to=None, environment=None, no_log=False, async_val=0)
        action._connection = SimpleNamespace(_play_context=SimpleNamespace(no_log=False), _shell=SimpleNamespace(tmpdir=None))
        action._display = SimpleNamespace(display=lambda _line: None, warning=lambda _line: None, columns=79)
        action._execute_module, action._templar = execute, SimpleNamespace(template=lambda value: value)
        inventory = {"groups": GROUPS, "hostvars": HostVars({"m1": {}})}
        return action.run(task_vars={"inventory_hostname": "m1", **(task_vars or inventory)}), read

    return call


def test_the_paths_of_devices_come_from_the_hosts_of_the_inventory(run: Any, tmp_path: Any) -> None:
    (tmp_path / "compose.yml").write_text("services: {a: {image: i, devices: [/dev/fuse]}}")
    variables = {"m1": {}, "g1": {"gpu_swarm_devices": {"fuse": ["/dev/fuse"]}}}
    inventory = {"groups": GROUPS, "hostvars": HostVars(variables)}
    (without, _read), (result, _asked) = run({}), run({}, check=True, task_vars=inventory)
    assert "services.a.devices has /dev/fuse, which no name of gpu_swarm_devices has" in without["msg"]
    assert "node.labels.gpu-swarm.device.fuse==true" in result["stack_file"]
    assert "GPU_SWARM_DEVICES: fuse" in result["stack_file"]


MADE = {**NO_OBJECTS, "networks": {"n1": "s_default"}, "services": {"s1": "s_a"}}


def test_a_half_deployed_new_stack_is_removed(run: Any) -> None:
    result, read = run({}, {"objects": MADE}, {})
    assert result["msg"].endswith("The stack is new, so its parts are removed again: the network s_default, the service s_a.")
    assert read[-1]["remove"] == {"networks": ["n1"], "services": ["s1"]}


def test_existing_parts_of_a_stack_stay(run: Any) -> None:
    """A network of an earlier deployment does not belong to this run."""
    _result, read = run({"objects": {**NO_OBJECTS, "networks": {"n0": "s_default"}}}, {"objects": {**MADE, "networks": {"n0": "s_default"}}}, {})
    assert read[-1]["remove"] == {"services": ["s1"]}


def test_nothing_of_a_running_stack_is_removed(run: Any) -> None:
    before = {**NO_OBJECTS, "services": {"o1": "s_old"}}
    after = {**before, "configs": {"c1": "s_c"}}
    changed = {**SERVICE, "specified": "2"}
    result, read = run({"objects": before, "progress": [SERVICE]}, {"objects": after, "progress": [changed]})
    assert result["msg"].endswith("Created before the failure: the config s_c. Updated before the failure: s_old.")
    assert not any(one.get("remove") for one in read)
    result, _read = run({"objects": before, "progress": [SERVICE]}, {"objects": before, "progress": [SERVICE]})
    assert result["msg"].endswith("Nothing was created or updated before the failure.")


def test_a_manager_may_be_lost_while_it_deploys(run: Any) -> None:
    result, read = run({}, deployed={"failed": True, "msg": "m1 cannot be reached: timeout."})
    assert result["msg"] == "m1 cannot be reached: timeout. It is not known whether the stack s was deployed. Run this again."
    assert (result["answered"], len(read)) == (True, 1)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ([SERVICE], [SERVICE], False),
        ([SERVICE], [{**SERVICE, "specified": "2"}], True),
        ([], [SERVICE], True),
        ([SERVICE], [], True),
        ([SERVICE], [{**SERVICE, "id": "o2"}], True),
    ],
)
def test_changed_tells_whether_services_changed(before: Any, after: Any, changed: bool) -> None:
    assert deploy_verdict.changed({"progress": before}, {"progress": after}) is changed


def test_a_failed_removal_is_an_error_with_its_reason(remove: Any) -> None:
    result, _read = remove({"progress": [SERVICE]}, {"failed": True, "msg": "m1: cannot remove the network s_n: it is in use.", "incomplete": True})
    assert result["msg"].startswith("m1: the stack s could not be completely deployed or removed: m1: cannot remove the network s_n: it is in use.")
    assert (result["failed"], result["answered"]) == (True, True)


def test_without_a_manager_the_result_is_unknown(run: Any) -> None:
    result, _read = run({})
    assert "port '80' is already in use" in result["msg"]
    assert "It is not known what was created, or it was not removed: " in result["msg"]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"clashes": ["s_a publishes port 80/tcp, which the service x has."]}, "80/tcp, which the service x has. Nothing was deployed."),
        ({"unread": "services.a.x must be s3cr3t-word"}, "refuses the stack file: services.a.x must be ***. Correct that. Nothing"),
    ],
)
def test_these_stacks_are_refused_beforehand(run: Any, answer: dict[str, Any], words: str, check: bool) -> None:
    result, read = run(answer, check=check)
    assert words in result["msg"]
    assert len(read) == 1
    assert "s3cr3t-word" not in result["msg"]


def test_later_changes_of_others_are_kept() -> None:
    assert deploy_verdict.new_objects(NO_OBJECTS, MADE) == {"networks": {"n1": "s_default"}, "services": {"s1": "s_a"}}
    assert deploy_verdict.new_objects(MADE, MADE) == {}


class Swarm:
    """Simulates a swarm. A network is still in use for a while after its service is removed."""

    def __init__(self, busy: int) -> None:
        self.busy, self.removed = busy, []

    def _remove(self, one: str) -> None:
        self.removed.append(one)

    remove_service = remove_config = remove_secret = _remove

    def remove_network(self, one: str) -> None:
        if self.busy:
            self.busy -= 1
            raise SwarmError("network is in use")
        self.removed.append(one)


def test_networks_are_removed_after_their_last_use() -> None:
    swarm, slept = Swarm(2), []
    stack_objects.remove_objects(swarm, {"networks": ["n"], "services": ["s"]}, clock=lambda: 0.0, sleep=slept.append)
    assert (swarm.removed, len(slept)) == (["s", "n"], 2)
    times = iter(range(0, 1000, 10))
    with pytest.raises(SwarmError):
        stack_objects.remove_objects(Swarm(99), {"networks": ["n"]}, clock=lambda: next(times), sleep=slept.append)


def test_all_errors_of_a_file_are_on_a_line_each_and_no_manager_is_read(run: Any, tmp_path: Any) -> None:
    long = "n" * 70
    (tmp_path / "compose.yml").write_text(f"services: {{{long}: {{image: i, runtime: x}}, b: {{image: i, gpus: all}}}}\nconfigs: {{'c d': {{}}}}")
    result, read = run({})
    lines = result["msg"].splitlines()
    assert lines[0] == "compose.yml has 5 errors. Nothing was deployed."
    begins = [f"compose.yml: services.{long}.runtime", "compose.yml: services.b.gpus is all", "compose.yml: configs has", "compose.yml: configs.c d"]
    assert [line.startswith(f"- {begin}") for begin, line in zip(begins, lines[1:5], strict=True)] == [True] * 4
    assert lines[5].startswith(f"- The name of the service s_{long} is invalid")
    assert (result["failed"], result["answered"], read) == (True, True, [])


def test_refusals_of_the_swarm_are_on_a_line_each(run: Any) -> None:
    result, _read = run({"clashes": ["Port 80 is taken."], "missing_objects": ["config c"], "networks_taken": ["s_n"], "unread": "no, not that."})
    lines = result["msg"].splitlines()
    assert lines[0] == "The stack s has 4 errors. Nothing was deployed."
    assert [line[:12] for line in lines[1:]] == ["- Port 80 is", "- 'docker st", "- The networ", "- The swarm "]
    assert not any("Nothing" in line for line in lines[1:])
    assert not result["changed"]


def test_one_error_is_one_line(run: Any) -> None:
    result, _read = run({"clashes": ["Port 80 is taken."]})
    assert result["msg"] == "Port 80 is taken. Nothing was deployed."


HAS = {"ending": [{"hostname": "g1", "kind": "NVIDIA-GPU", "amount": 1, "state": "ready"}]}
LATER = "its tasks have not ended yet. They still have 1 NVIDIA-GPU on g1. Run this again later (exit status 75)."


@pytest.fixture
def remove(run: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(swarm_stack, "poll", partial(poll, delay=0))
    return partial(run, state="absent", wait_timeout=60)


def test_a_removed_stack_is_waited_for_until_its_gpus_are_free(remove: Any) -> None:
    result, read = remove({"progress": [SERVICE]}, HAS, HAS, {})
    assert (result["changed"], result["waiting"], len(read)) == (True, [], 4)
    assert result["summary"] == "The stack s is removed, services: 1. None of its tasks has a GPU any more."


def test_a_run_waits_for_an_earlier_removal(remove: Any) -> None:
    result, _read = remove({"progress": [SERVICE]}, HAS, wait_timeout=0)
    assert (result["waiting"], result["summary"].endswith(LATER)) == (["1 NVIDIA-GPU on g1"], True)
    result, _read = remove(HAS, HAS, {})
    assert (result["changed"], result["waiting"]) == (False, [])
    assert result["summary"] == "The stack s is removed. None of its tasks has a GPU any more."


def test_without_a_stack_only_files_of_a_killed_run_are_removed(remove: Any) -> None:
    result, read = remove({}, {})
    assert (result["changed"], result["summary"]) == (False, "The swarm has no stack s. There is nothing to remove.")
    assert [one.get("remove") for one in read] == [None, {}]
    result, read = remove({"progress": [SERVICE]}, check=True)
    assert (result["changed"], len(read), result["summary"]) == (True, 1, "The stack s would be removed, services: 1. Nothing was changed.")


def test_another_manager_continues_the_wait(remove: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swarm_stack, "tolerate_silence", partial(deployment_wait.tolerate_silence, limit_s=0))
    result, _read = remove({"progress": [SERVICE]}, HAS)
    assert (result["answered"], result["failed"]) == (False, True)
    assert "The stack s is removed, but it is not known whether its tasks have ended. Run this again when a manager answers." in result["msg"]
