# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A saved ledger gives the answers of its swarm, has no secrets, and is refused with one error if it is broken, foreign or of another version."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docker_daemon import Daemon
from swarm_api import RECORDED_AT, A, B, cluster, named, node, placement, recorded, reserving, service, task

from plugins.module_utils._deployment import saved_ledger, swarm_answer
from plugins.module_utils._errors import GpuSwarmError

ROOT = Path(__file__).resolve().parents[3]
ANSIBLE = str(Path(sys.executable).parent / "ansible-playbook")
NAMESPACE = "com.docker.stack.namespace"
SECRET = "s3cr3t-value"
OWN = {NAMESPACE: "s"}


def with_secrets(item: dict[str, Any]) -> dict[str, Any]:
    """Return a task or service with a secret in each place where people put one."""
    template = item["Spec"]["TaskTemplate"] if "TaskTemplate" in item["Spec"] else item["Spec"]
    places = {"Env": [f"TOKEN={SECRET}"], "Args": [f"--key={SECRET}"], "Command": [SECRET], "Labels": {"token": SECRET, NAMESPACE: "s"}}
    mount = {"Type": "volume", "VolumeOptions": {"DriverConfig": {"Name": "nfs", "Options": {"o": SECRET}}}}
    template["ContainerSpec"].update(places, Mounts=[mount])
    template["LogDriver"] = {"Name": "splunk", "Options": {"splunk-token": SECRET}}
    return item


class Swarm:
    """A recorded swarm with a stack s, in place of a Manager."""

    time, node_id = RECORDED_AT, "5nsc33csxb4svew9ugtkil84b"

    def __init__(self) -> None:
        web = with_secrets(service("web1", "s_web", reserves={"NVIDIA-GPU": 1}))
        web["Spec"]["Labels"] = {**OWN, "gpu-swarm.owner": "alice", "traefik.auth": SECRET}
        web["Spec"]["EndpointSpec"] = {"Ports": [{"Protocol": "tcp", "PublishedPort": 8080, "PublishMode": "ingress"}]}
        web["Spec"]["Mode"] = {"Replicated": {"Replicas": 1}}
        self.all_services = [*recorded("services"), web]
        self.all_tasks = [*recorded("tasks"), with_secrets(task("w1", "n2", named(A), service="web1", reserves={"NVIDIA-GPU": 1}))]
        self.all_tasks[-1]["Spec"]["Resources"] = web["Spec"]["TaskTemplate"]["Resources"]

    def nodes(self) -> list[dict[str, Any]]:
        return [*recorded("nodes"), node("n2", labels={"gpu.model": "T4"}, resources=named(A, B))]

    def tasks(self) -> Any:
        return iter(self.all_tasks)

    def services(self) -> list[dict[str, Any]]:
        return self.all_services

    def services_labelled(self, _label: str) -> list[dict[str, Any]]:
        return self.all_services[-1:]

    def networks(self) -> list[dict[str, Any]]:
        subnet = {"Config": [{"Subnet": "10.0.5.0/24", "Gateway": SECRET}]}
        return [
            {"Id": "i1", "Name": "ingress", "Scope": "swarm", "Ingress": True},
            {"Id": "o1", "Name": "other_default", "Scope": "swarm", "IPAM": subnet, "Options": {"key": SECRET}},
        ]

    def networks_labelled(self, _label: str) -> list[dict[str, Any]]:
        return []

    def configs_labelled(self, label: str = "") -> list[dict[str, Any]]:
        all_configs = [{"ID": "c1", "Spec": {"Name": "site", "Data": SECRET, "Labels": {"x": SECRET}}}]
        return [] if label else all_configs

    def secrets_labelled(self, label: str = "") -> list[dict[str, Any]]:
        return [] if label else [{"ID": "k1", "Spec": {"Name": "key", "Labels": {"gpu-swarm.content": SECRET}}}]

    def names(self) -> dict[str, list[str]]:
        return {"services": [one["Spec"]["Name"] for one in self.all_services], "secrets": ["key"], "configs": ["site"]}

    def image_environment(self, _image: str) -> list[str]:
        return []


def spec(name: str, gpus: int = 0, replicas: int = 1, constraints: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    template = {"ContainerSpec": {}, "Resources": reserving({"NVIDIA-GPU": gpus} if gpus else {}), "Placement": placement(constraints)}
    template["Resources"].setdefault("Reservations", {})
    return {"Name": name, "Labels": OWN, "Mode": {"Replicated": {"Replicas": replicas}}, "TaskTemplate": template, **more}


CASES: dict[str, dict[str, Any]] = {
    "fits": {"services": [spec("s_a", 1)]},
    "too many": {"services": [spec("s_a", 9)]},
    "no room": {"services": [spec("s_a", 1, 7)]},
    "constraint": {"services": [spec("s_a", 1, constraints=("node.labels.gpu.model==A100",))]},
    "update": {"services": [spec("s_web", 1, 2)]},
    "start-first": {"services": [spec("s_web", 1, UpdateConfig={"Order": "start-first", "Parallelism": 1})]},
    "prune": {"services": [spec("s_b", 2)], "prune": True},
    "taken": {"services": [spec("big")], "networks": ["other_default"], "external": {"configs": ["site", "none"], "networks": ["ingress"]}},
    "port": {
        "services": [spec("s_a", EndpointSpec={"Ports": [{"Protocol": "tcp", "PublishedPort": 8080, "PublishMode": "ingress"}]})],
        "compared": {"networks": {"s_x": {"driver": "overlay", "subnets": ["10.0.5.0/25"]}}, "attached": ["ingress"], "contents": {}},
    },
}


def saved() -> saved_ledger.SavedSwarm:
    swarm: Any = Swarm()
    return saved_ledger.load(saved_ledger.to_text(saved_ledger.save(swarm)), "ledger.json")


@pytest.mark.parametrize("case", CASES)
def test_a_saved_ledger_answers_like_its_swarm(case: str) -> None:
    swarm: Any = Swarm()
    unknown = {"stack_file": None, "query": {}, "logins": None, "images": [], "labels": {}, "networks": [], "external": {}, "compared": None}
    options = {"stack": "s", "prune": False, **CASES[case]}
    expected, answer = swarm_answer.read(swarm, {**unknown, **options}), saved().answer(options)
    # A check reads only the names of the progress.
    compared = [key for key in expected if key != "progress"]
    assert {key: answer[key] for key in compared} == {key: expected[key] for key in compared}
    assert [one["service"] for one in answer["progress"]] == [one["service"] for one in expected["progress"]]


def test_the_cases_have_errors_and_successes() -> None:
    fits = {name: [one["fits"] for one in saved().answer({"stack": "s", **case})["preflight"]] for name, case in CASES.items()}
    assert fits["fits"] == [True]
    assert fits["too many"] == fits["no room"] == fits["constraint"] == [False]
    answer = saved().answer({"stack": "s", **CASES["port"]})
    assert len(answer["clashes"]) == 3
    assert saved().answer({"stack": "s", **CASES["taken"]})["missing_objects"] == ["config none"]


def test_a_saved_ledger_has_no_secret() -> None:
    swarm: Any = Swarm()
    text = saved_ledger.to_text(saved_ledger.save(swarm))
    assert SECRET not in text
    assert '"gpu-swarm.owner": "alice"' in text
    assert len(text.splitlines()) > len(swarm.all_tasks)


KINDS = ("nodes", "tasks", "services", "networks", "configs", "secrets")
GOOD = {saved_ledger.MARK: 1, "at": RECORDED_AT, "manager": "n1", **{kind: [] for kind in KINDS}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.json is no saved ledger: it is not JSON"),
        ('{"gpu_swarm_ledger": 1, "nodes": [', "x.json is no saved ledger: it is not JSON"),
        ("[" * 100_000, "x.json is no saved ledger: it is not JSON"),
        ("[1]", "x.json is no saved ledger: it has no gpu_swarm_ledger."),
        ('{"nodes": [], "waiting": []}', "x.json is no saved ledger: it has no gpu_swarm_ledger."),
        ('{"gpu_swarm_ledger": 2}', "x.json has version 2 of the saved ledger, and this release of fleet.gpu_swarm reads version 1."),
        ('{"gpu_swarm_ledger": "x"}', 'x.json has version "x" of the saved ledger'),
        ('{"gpu_swarm_ledger": 1}', "The saved ledger x.json is damaged: nodes is no list."),
        (json.dumps({**GOOD, "nodes": [7]}), "The saved ledger x.json is damaged: nodes is no object."),
        (json.dumps({**GOOD, "nodes": [{"Spec": []}]}), "The saved ledger x.json is damaged: nodes.Spec is no object."),
        (json.dumps({**GOOD, "services": [{"Spec": {"Name": None}}]}), "The saved ledger x.json is damaged: services.Spec.Name is no text."),
    ],
)  # fmt: skip
def test_another_file_is_one_error_that_says_how_to_save(text: str, message: str) -> None:
    with pytest.raises(GpuSwarmError) as caught:
        saved_ledger.load(text, "x.json")
    assert caught.value.message.startswith(message)
    assert caught.value.message.endswith(saved_ledger.SAVE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": [{}]},
        {"nodes": [{"ID": 1, "Spec": None, "Description": None}]},
        {"nodes": [node("n1") | {"Spec": {"Labels": 7}}]},
        {"nodes": [node("n1", resources=[{"DiscreteResourceSpec": {"Kind": "NVIDIA-GPU", "Value": math.inf}}])]},
        {"tasks": [{}]},
        {"tasks": [{"Status": {"State": []}}]},
        {"services": [{"ID": "s"}]},
        {"services": [{"ID": "s", "Spec": {"Name": "s_a", "Mode": {}, "Labels": OWN}}]},
    ],
)
def test_fields_of_another_type_are_one_error(wrong: dict[str, Any]) -> None:
    ledger = saved_ledger.load(json.dumps({**GOOD, "nodes": [node("n1")], **wrong}), "x.json")
    with pytest.raises(GpuSwarmError) as caught:
        ledger.answer({"stack": "s", **CASES["constraint"]})
    assert caught.value.message.startswith("The saved ledger x.json is damaged: ")
    assert caught.value.message.endswith(saved_ledger.SAVE)


# -- the two playbooks -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "collections/ansible_collections/fleet").mkdir(parents=True)
    (tmp_path / "collections/ansible_collections/fleet/gpu_swarm").symlink_to(ROOT)
    return tmp_path


def play(folder: Path, playbook: str, *arguments: str) -> Any:
    environment = {
        **os.environ, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200", "PWD": str(folder), "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
    }  # fmt: skip
    command = [ANSIBLE, f"fleet.gpu_swarm.{playbook}", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


COMPOSE = """
services:
  train:
    image: lab/cuda
    environment: {TOKEN: s3cr3t-value}
    restart: always
    deploy:
      replicas: REPLICAS
      resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}
"""


def save_ledger(folder: Path) -> Any:
    swarm = {"LocalNodeState": "active", "ControlAvailable": True, "NodeID": "g1", "Cluster": cluster()}
    answers = {
        "/_ping": (200, "OK"), "/info": {"Swarm": swarm, "SystemTime": "2026-11-20T12:00:00Z"}, "/nodes": [node("g1", resources=named(A, B))],
        "/tasks": [task("t1", "g1", named(A))], "/services": [service()], "/networks": [], "/configs": [], "/secrets": [],
    }  # fmt: skip
    socket = f"{folder}/docker.sock"
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable} ansible_become=false gpu_node_docker_socket={socket}"
    (folder / "hosts").write_text(f"[swarm_managers]\nm1 {local}\n")
    manager = Daemon(socket, {"Api-Version": "1.41"}, answers)
    try:
        return play(folder, "status", "-i", "hosts", "-e", "output=ledger to=ledger.json")
    finally:
        manager.close()
        Path(socket).unlink()


def test_a_pull_request_is_checked_without_a_swarm_and_without_an_inventory(folder: Path) -> None:
    done = save_ledger(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ledger.json: written" in done.stdout
    check = ("preflight", "-e", "compose=compose.yml stack=s ledger=ledger.json")

    (folder / "compose.yml").write_text(COMPOSE.replace("REPLICAS", "1"))
    fits = play(folder, *check)
    assert fits.returncode == 0, fits.stdout + fits.stderr
    assert "s_train: fits on host-g1" in fits.stdout
    assert "ledger.json has it, saved at 2026-11-20T12:00:00Z" in fits.stdout
    assert "The stack s would be deployed. Nothing was changed." in fits.stdout
    assert "s3cr3t-value" not in fits.stdout

    (folder / "compose.yml").write_text(COMPOSE.replace("REPLICAS", "2"))
    waits = play(folder, *check)
    assert waits.returncode == 2, waits.stdout + waits.stderr
    assert "s_train needs 1 NVIDIA-GPU on one node" in " ".join(waits.stdout.split()), waits.stdout
    assert play(folder, *check, "-e", "gpu_stack_allow_pending=true").returncode == 0

    (folder / "compose.yml").write_text("services: {a: {image: lab/cuda, profiles: [gpu]}}")
    empty = play(folder, *check)
    assert empty.returncode == 2
    assert "compose.yml: all services have profiles, and Compose starts none of them by default." in " ".join(empty.stdout.split()), empty.stdout

    (folder / "ledger.json").write_text("{}")
    broken = play(folder, *check)
    assert broken.returncode == 2
    assert "ledger.json is no saved ledger: it has no gpu_swarm_ledger" in " ".join(broken.stdout.split()), broken.stdout
    assert "Traceback" not in broken.stdout + broken.stderr
    assert "exists and is no saved ledger of a fleet" in " ".join(save_ledger(folder).stdout.split())


def test_a_ledger_without_end_is_refused(folder: Path) -> None:
    (folder / "compose.yml").write_text(COMPOSE.replace("REPLICAS", "1"))
    done = play(folder, "preflight", "-e", "compose=compose.yml stack=s ledger=/dev/zero")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "The saved ledger /dev/zero cannot be read on this machine: File too large." in " ".join(done.stdout.split())


def test_devices_are_checked_with_the_setting_of_the_command_line(folder: Path) -> None:
    save_ledger(folder)
    check = ("preflight", "-e", "compose=compose.yml stack=s ledger=ledger.json")
    (folder / "compose.yml").write_text(COMPOSE.replace("REPLICAS", "1").replace("restart: always", "devices: [/dev/fuse]"))
    unnamed = play(folder, *check)
    assert unnamed.returncode == 2, unnamed.stdout + unnamed.stderr
    assert "services.train.devices has /dev/fuse, which no name of gpu_swarm_devices has" in " ".join(unnamed.stdout.split())

    (folder / "all.yml").write_text("gpu_swarm_devices: {fuse: [/dev/fuse]}\n")
    nowhere = play(folder, *check, "-e", "@all.yml")
    assert nowhere.returncode == 2, nowhere.stdout + nowhere.stderr
    assert "no node has such a device: add the paths of fuse to gpu_swarm_devices, and run provision" in " ".join(nowhere.stdout.split())

    ledger = (folder / "ledger.json").read_text().replace('"Labels": {}', '"Labels": {"gpu-swarm.device.fuse": "true"}')
    (folder / "ledger.json").write_text(ledger)
    fits = play(folder, *check, "-e", "@all.yml")
    assert fits.returncode == 0, fits.stdout + fits.stderr
    assert "s_train: fits on host-g1" in fits.stdout

    (folder / "all.yml").write_text("gpu_swarm_devices: {fuse: [/dev/mem]}\n")
    wrong = play(folder, *check, "-e", "@all.yml")
    assert wrong.returncode == 2, wrong.stdout + wrong.stderr
    assert "gpu_swarm_devices.fuse[0] is /dev/mem, which no service is given" in " ".join(wrong.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compose=compose.yml stack=s", "Name the saved ledger, such as -e ledger=ledger.json."),
        ("compose=compose.yml stack=s ledger=none.json", "/none.json cannot be read on this machine: No such file or directory."),
        ("compose=compose.yml ledger=none.json", "The name of the stack is ''."),
        ("stack=s ledger=none.json", "There is no Compose file for the stack s."),
        ("compose=compose.yml stack=s legder=x.json", "legder is not a variable of this playbook. Did you mean ledger?"),
    ],
)
def test_a_missing_setting_is_named(folder: Path, arguments: str, message: str) -> None:
    (folder / "compose.yml").write_text(COMPOSE.replace("REPLICAS", "1"))
    done = play(folder, "preflight", "-e", arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in " ".join(done.stdout.split()), done.stdout
