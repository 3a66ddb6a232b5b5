# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes pull images before an update: what is printed and deployed, what remains, and what happens if a node cannot pull."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pulling_swarm import CLOSED, DIGEST, GONE, HANGS, NEXT, NO_NODE, NO_SUCH, PULL, PullingSwarm
from swarm_api import named, node, task

from ansible_collections.fleet.gpu_swarm.plugins.action import swarm_stack as action_module
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._deployment import pulls as pull_services
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._swarm import manager_options
from ansible_collections.fleet.gpu_swarm.plugins.modules import swarm_stack_on_manager as module
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._stack import deployment_wait, pulling
from plugins.plugin_utils._rollout.poll import poll

NODES = [node(f"n{number}", resources=named(f"GPU-{number}")) for number in range(1, 9)]
COMPOSE = "services: {{web: {{image: {image}, gpus: [{{count: 1}}], deploy: {{replicas: {replicas}}}}}, front: {{image: nginx}}}}"
FULL = "write /var/lib/docker/tmp/x: no space left on device"
DEFAULTS = {name: option.get("default") for name, option in {**manager_options.CONNECTION_OPTIONS, **module.OPTIONS}.items()}
LOGIN = {"username": "u", "password": "s3cr3t-of-a-registry"}


class Clock:
    """Time that passes only in sleep()."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def web(*node_ids: str, image: str = f"reg/web:2@{DIGEST}") -> dict[str, Any]:
    """Return the service s_web and its running tasks."""
    tasks = [task(f"t{slot}", node_id, named(f"GPU-{node_id[1:]}"), service="w", slot=slot) for slot, node_id in enumerate(node_ids, 1)]
    for one in tasks:
        one["Spec"].update(ContainerSpec={"Image": image}, Resources=_gpu())
    labels = {"com.docker.stack.namespace": "s"}
    template = {"ContainerSpec": {"Image": image}, "Resources": _gpu(), "Placement": {}}
    spec = {"Name": "s_web", "Labels": labels, "Mode": {"Replicated": {"Replicas": len(node_ids)}}, "TaskTemplate": template}
    return {"services": [{"ID": "w", "Spec": spec}], "tasks": tasks}


def _gpu() -> dict[str, Any]:
    return {"Reservations": {"GenericResources": [{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": 1}}]}}


class Ran(SimpleNamespace):
    """A run of deploy: its result, its lines, and the stack file that it deployed, if any."""

    result: dict[str, Any]
    lines: list[str]
    deployed: Any


@pytest.fixture
def deploy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    docker, copy = tmp_path / "bin/docker", tmp_path / "deployed.yml"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\nfor word do [ "$before" = --compose-file ] && [ "$word" != - ] && cp "$word" {copy}; before=$word; done\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:/usr/bin:/bin")
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it to 80, and then lines are folded
    monkeypatch.setattr(module.stack_directory, "parent_directory", lambda: str(tmp_path / "stacks"))
    clock = Clock()
    monkeypatch.setattr(action_module, "poll", partial(poll, clock=clock.monotonic, sleep=clock.sleep))
    monkeypatch.setattr(action_module, "tolerate_silence", partial(deployment_wait.tolerate_silence, clock=clock.monotonic))
    monkeypatch.setattr(action_module.pulling, "Pulls", partial(pulling.Pulls, clock=clock.monotonic))

    def run(manager: PullingSwarm, image: str = "reg/web:2", replicas: int = 2, check: bool = False, **options: Any) -> Ran:
        (tmp_path / "compose.yml").write_text(COMPOSE.format(image=image, replicas=replicas))
        monkeypatch.setattr(module, "connect", lambda _params: manager)
        copy.unlink(missing_ok=True)

        def execute(module_name: str, module_args: dict[str, Any], task_vars: Any) -> dict[str, Any]:
            try:
                return module.run({**DEFAULTS, **module_args}, check)
            except GpuSwarmError as problem:
                return {"failed": True, "msg": problem.message, **problem.details}

        action, lines = action_module.ActionModule.__new__(action_module.ActionModule), []
        args = {"name": "s", "compose": str(tmp_path / "compose.yml"), "wait_timeout": 0, "pull": True, "query_registries": False, **options}
        action._task = SimpleNamespace(args=args, check_mode=check, diff=False, delegate_to=None, environment=None, no_log=False, async_val=0)
        action._connection = SimpleNamespace(_play_context=SimpleNamespace(no_log=False), _shell=SimpleNamespace(tmpdir=None))
        action._display = SimpleNamespace(display=lines.append, warning=lines.append, columns=500)
        action._execute_module, action._templar = execute, None
        result = action.run(task_vars={"inventory_hostname": "m1"})
        deployed = yaml.safe_load(copy.read_text()) if copy.exists() else None
        return Ran(result=result, lines=[line.strip() for line in lines], deployed=deployed)

    return run


def swarm(*node_ids: str, **options: Any) -> PullingSwarm:
    registry = {"reg/web:2": NEXT, **options.pop("registry", {})}
    return PullingSwarm(nodes=NODES, registry=registry, **(web(*node_ids, **options.pop("web", {})) if node_ids else {}), **options)


def image_of(ran: Ran) -> str:
    return str(ran.deployed["services"]["web"]["image"])


def test_nodes_pull_and_what_they_pulled_is_deployed(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    ran = deploy(manager)
    assert "msg" not in ran.result, ran.result
    assert [line for line in ran.lines if "pull" in line or "has reg" in line] == [
        "host-n1, host-n2: pull reg/web:2 before the update, at most 5 at a time",
        "host-n1: pulls reg/web:2",
        "host-n2: pulls reg/web:2",
        "host-n1: has reg/web:2 (1 of 2)",
        "host-n2: has reg/web:2 (2 of 2)",
    ]
    assert image_of(ran) == f"reg/web:2@{NEXT}"
    assert ran.deployed["services"]["front"]["image"] == "nginx"
    assert (manager.pulling(), manager.looked_up) == ([], [("reg/web:2", {})])


def test_a_deployment_without_the_setting_pulls_nothing(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    ran = deploy(manager, pull=False)
    assert (image_of(ran), manager.created, manager.looked_up) == ("reg/web:2", [], [])


def test_a_check_pulls_nothing(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    ran = deploy(manager, check=True)
    assert (ran.deployed, manager.created, manager.looked_up) == (None, [], [])


def test_an_image_by_digest_that_is_everywhere_costs_no_pull_and_no_query(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    ran = deploy(manager, image=f"reg/web:2@{DIGEST}")
    assert (image_of(ran), manager.created, manager.looked_up) == (f"reg/web:2@{DIGEST}", [], [])
    assert not [line for line in ran.lines if "before the update" in line]


def test_an_image_that_is_everywhere_is_not_pulled_again(deploy: Any) -> None:
    manager = swarm("n1", "n2", registry={"reg/web:2": DIGEST})
    ran = deploy(manager)
    assert (image_of(ran), manager.created) == (f"reg/web:2@{DIGEST}", [])


def test_only_some_nodes_pull_at_a_time(deploy: Any) -> None:
    manager = swarm()
    deploy(manager, replicas=8)
    assert (len(manager.created), manager.most, manager.pulling()) == (8, pull_services.AT_ONCE, [])


def test_the_logins_are_those_of_the_deployment(deploy: Any) -> None:
    manager = swarm("n1", "n2", registry={"reg.example/web:2": NEXT})
    ran = deploy(manager, image="reg.example/web:2", registries={"reg.example": LOGIN})
    assert manager.logins == [LOGIN, LOGIN]
    assert manager.looked_up == [("reg.example/web:2", LOGIN)]
    assert LOGIN["password"] not in str([ran.result, ran.lines, manager.services()])
    # The manager's own logins are passed on.
    own = swarm("n1", "n2")
    deploy(own, with_registry_auth=True)
    assert (own.logins, own.looked_up) == ([None, None], [("reg/web:2", None)])


@pytest.mark.parametrize(
    ("does", "words"),
    [
        (FULL, FULL),
        (NO_SUCH, "No such image: reg/web:2@sha256:bbb"),
        (GONE, "the node is down, or takes no tasks any more"),
        (HANGS, "not pulled within 600 s (gpu_stack_wait_timeout)"),
        (CLOSED, f"not pulled within 600 s (gpu_stack_wait_timeout): {NO_NODE}"),
    ],
)
def test_a_node_that_cannot_pull_does_not_stop_the_update(deploy: Any, does: str, words: str) -> None:
    manager = swarm("n1", "n2", nodes_do={"n1": does})
    ran = deploy(manager)
    assert "msg" not in ran.result, ran.result
    (note,) = [line for line in ran.lines if line.startswith("note: host-n1: did not pull reg/web:2")]
    assert words in note
    assert image_of(ran) == f"reg/web:2@{NEXT}"
    assert manager.pulling() == []


@pytest.mark.parametrize("does", [FULL, NO_SUCH, GONE, HANGS])
def test_if_no_node_has_the_image_running_tasks_are_not_touched(deploy: Any, does: str) -> None:
    manager = swarm("n1", "n2", nodes_do={"n1": does, "n2": does})
    ran = deploy(manager)
    assert ran.result["msg"].startswith("No node could pull the image reg/web:2: host-n1: ")
    assert ran.result["msg"].endswith("To deploy without a pull, set gpu_stack_pull: false. Nothing was deployed.")
    assert (ran.result["failed"], ran.deployed, manager.pulling()) == (True, None, [])


def test_room_that_others_took_meanwhile_is_noticed(deploy: Any) -> None:
    """The stack fits before the pull. Then a service of somebody else gets the GPUs of all other nodes."""
    others = [task(f"o{number}", f"n{number}", named(f"GPU-{number}"), service="o", slot=number) for number in range(3, 9)]

    def full() -> PullingSwarm:
        manager = swarm("n1", "n2")
        read = manager.tasks_labelled

        def taken_meanwhile(label: str) -> Any:
            manager._tasks += [] if any(one["ServiceID"] == "o" for one in manager._tasks) else others
            return read(label)

        manager.tasks_labelled = taken_meanwhile
        return manager

    manager = full()
    ran = deploy(manager, replicas=3)
    assert ran.result["msg"].startswith("s_web needs 1 NVIDIA-GPU on one node: host-n1 has 0 NVIDIA-GPU free; ")
    assert ran.result["msg"].endswith("Nothing was deployed.")
    assert (ran.deployed, manager.pulling()) == (None, [])
    assert image_of(deploy(full(), replicas=3, allow_pending=True)) == f"reg/web:2@{NEXT}"


def test_the_time_limit_is_that_of_the_services(deploy: Any) -> None:
    manager = swarm("n1", nodes_do={"n1": HANGS})
    ran = deploy(manager, replicas=1, wait_timeout=30)
    assert "host-n1: not pulled within 30 s (gpu_stack_wait_timeout)" in ran.result["msg"]


def test_an_image_that_does_not_exist_is_refused(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    ran = deploy(manager, image="reg/absent:1")
    assert ran.result["msg"].startswith("The digest of the image reg/absent:1 cannot be looked up: ")
    assert "manifest unknown. Correct the image or the login." in ran.result["msg"]
    assert (ran.deployed, manager.created) == (None, [])


def test_services_of_a_killed_run_are_removed_by_the_next_one(deploy: Any) -> None:
    manager = swarm("n1", "n2", nodes_do={"n1": HANGS, "n2": HANGS})
    manager.killed = "create_service"
    with pytest.raises(KeyboardInterrupt):
        deploy(manager)
    manager.killed = None
    # The run's own end removes what it can. Kill it harder.
    manager.create_service(pull_services.service("s", "n3", "reg/web:1"))
    manager.create_service({**pull_services.service("other", "n3", "reg/web:1")})
    manager.nodes_do.clear()
    ran = deploy(manager)
    assert image_of(ran) == f"reg/web:2@{NEXT}"
    assert [one["Spec"]["Labels"][PULL] for one in manager.services_labelled(PULL)] == ["other"]


def test_services_of_a_killed_run_are_removed_also_without_the_setting(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    manager.create_service(pull_services.service("s", "n3", "reg/web:1"))
    deploy(manager, pull=False)
    assert manager.pulling() == []


def test_a_service_of_a_user_with_the_label_is_not_removed(deploy: Any) -> None:
    manager = swarm("n1", "n2")
    manager.create_service({**pull_services.service("s", "n3", "reg/web:1"), "Name": "of-a-user"})
    ran = deploy(manager)
    assert image_of(ran) == f"reg/web:2@{NEXT}"
    assert [one["Spec"]["Name"] for one in manager.services_labelled(PULL)] == ["of-a-user"]


def test_a_manager_that_is_lost_meanwhile_can_be_replaced(deploy: Any) -> None:
    """The next manager begins again, and finds the services by their label."""
    manager = swarm("n1", "n2")
    create = manager.create_service

    def lost(*_arguments: Any, **_options: Any) -> str:
        raise GpuSwarmError("The manager cannot be reached.")

    manager.create_service = lost
    ran = deploy(manager)
    assert (ran.result["answered"], ran.result["failed"], ran.deployed) == (False, True, None)
    manager.create_service = create
    assert image_of(deploy(manager)) == f"reg/web:2@{NEXT}"
