# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The predictions of status agree with the real scheduler. The playbook status shows them without changing a node."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plugins.module_utils._ledger.ledger import ledger
from plugins.module_utils._ledger.listed import Listed

from .conftest import NODES, Loud
from .fleet import Fleet, Node, Run, wait_until
from .swarm import KIND, member

PLAYBOOK = "fleet.gpu_swarm.status"
CASES, FEW, SEED = 30, 10, 14
# Sends requests to the daemon of a node, and prints the answers.
SEND = """
import http.client, json, socket, sys
class Local(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/var/run/docker.sock")
def send(method, path, body):
    api = Local("localhost")
    api.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    answer = api.getresponse()
    text = answer.read().decode()
    assert answer.status < 300, (method, path, text)
    return json.loads(text or "null")
print(json.dumps([send(*one) for one in json.load(sys.stdin)]))
"""


@dataclass(frozen=True)
class Swarm:
    """The API of a manager."""

    manager: Node

    def send(self, *requests: tuple[str, str, Any]) -> list[Any]:
        return json.loads(self.manager.start("python3", "-c", SEND, text=json.dumps(requests).encode()).stdout)

    def all(self) -> tuple[Any, Any, Any]:
        """Nodes, tasks and services."""
        nodes, tasks, services = self.send(*(("GET", f"/{what}", None) for what in ("nodes", "tasks", "services")))
        return nodes, tasks, services

    def tasks(self, service_id: str) -> list[dict[str, Any]]:
        (tasks,) = self.send(("GET", "/tasks", None))
        return [task for task in tasks if task.get("ServiceID") == service_id]

    def create(self, spec: dict[str, Any]) -> str:
        return str(self.send(("POST", "/services/create", spec))[0]["ID"])

    def scale(self, service_id: str, spec: dict[str, Any], replicas: int) -> None:
        (service,) = self.send(("GET", f"/services/{service_id}", None))
        more = {**spec, "Mode": {"Replicated": {"Replicas": replicas}}}
        self.send(("POST", f"/services/{service_id}/update?version={service['Version']['Index']}", more))

    def remove(self, service_id: str) -> None:
        self.send(("DELETE", f"/services/{service_id}", None))
        wait_until("its tasks to end", lambda: not self.tasks(service_id))


# -- services, one choice of each list -------------------------------------------------------------------------------

CHOICES: dict[str, list[dict[str, Any]]] = {
    "reserves": [
        {}, {"gpus": 0}, {"gpus": 1}, {"gpus": 1, "cpus": 0.5}, {"gpus": 2}, {"gpus": 3}, {"gpus": 4}, {"gpus": 5}, {"cpus": 1}, {"cpus": 1.5},
        {"cpus": 64}, {"gib": 1}, {"gib": 4096},
    ],
    "constraints": [
        {}, {}, {"constraints": ["node.role==worker"]}, {"constraints": ["node.hostname!=g1"]}, {"constraints": ["Node.Hostname==G2"]},
        {"constraints": ["node.labels.gpu.count==4"]}, {"constraints": ["node.labels.gpu.count!=4"]}, {"constraints": ["node.labels.rack==7"]},
        {"constraints": ["node.ip!=192.0.2.0/24"]}, {"constraints": ["node.ip==192.0.2.0/24"]}, {"constraints": ["engine.labels.rack==7"]},
        {"constraints": ["node.platform.arch==x86_64", "node.role==manager"]},
    ],
    "platform": [
        {}, {}, {"platform": {"OS": "linux", "Architecture": "amd64"}}, {"platform": {"OS": "linux", "Architecture": "arm64"}},
        {"platform": {"Architecture": "x86_64"}}, {"platform": {"OS": "windows"}},
    ],
    "plugins": [{}, {}, {}, {"log": "json-file"}, {"log": "none"}, {"log": "nowhere"}, {"volume": "local"}, {"volume": "rexray"}],
    "ports": [{}, {}, {}, {"port": (8080, "tcp")}, {"port": (8080, "udp")}, {"port": (8081, "tcp")}],
    "replicas": [{}, {}, {"most": 1}, {"most": 2}],
}  # fmt: skip


def generated(count: int) -> Iterator[dict[str, Any]]:
    """Generate services that differ in several things at once. Every choice occurs, because the choices of each list are used in turn."""
    chance = random.Random(SEED)
    orders = [itertools.cycle(chance.sample(choices, len(choices))) for choices in CHOICES.values()]
    for chosen in itertools.islice(zip(*orders, strict=False), count):
        # Few services have all restrictions, because a service that fits on no node proves little.
        kept = [choice if chance.random() < 0.6 else {} for choice in chosen]
        yield {key: value for choice in kept for key, value in choice.items()}


def spec_of(name: str, made: dict[str, Any], replicas: int = 0) -> dict[str, Any]:
    """Return the specification of a service for the API."""
    reserved: dict[str, Any] = {}
    if "gpus" in made:
        reserved["GenericResources"] = [{"DiscreteResourceSpec": {"Kind": KIND, "Value": made["gpus"]}}]
    if "cpus" in made:
        reserved["NanoCPUs"] = int(made["cpus"] * 1e9)
    if "gib" in made:
        reserved["MemoryBytes"] = made["gib"] * 2**30
    container: dict[str, Any] = {"Image": "lab/task", "StopGracePeriod": 1}
    if "volume" in made:
        driver = {"DriverConfig": {"Name": made["volume"]}}
        container["Mounts"] = [{"Type": "volume", "Source": "data", "Target": "/data", "VolumeOptions": driver}]
    number, protocol = made.get("port", (0, ""))
    port = {"Protocol": protocol, "TargetPort": 80, "PublishedPort": number, "PublishMode": "host"}
    return {
        "Name": name,
        "Mode": {"Replicated": {"Replicas": replicas}},
        "EndpointSpec": {"Ports": [port]} if number else {},
        "TaskTemplate": {
            "ContainerSpec": container,
            "Resources": {"Reservations": reserved},
            "RestartPolicy": {"Condition": "any", "Delay": 1},
            "Placement": {
                "Constraints": made.get("constraints", []),
                "Platforms": [made["platform"]] if "platform" in made else [],
                "MaxReplicas": made.get("most", 0),
            },
            **({"LogDriver": {"Name": made["log"]}} if "log" in made else {}),
        },
    }


# -- the scheduler ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swarm(fleet: Fleet, first: Loud) -> Iterator[Swarm]:
    """Prepare a mixed fleet with work: a GPU of g2 is allocated, a port of g1 is in use, and g1 has a label."""
    api = Swarm(fleet["m1"])
    holder = spec_of("holder", {"gpus": 1, "constraints": ["node.hostname==g2"]}, 1)
    # Set when the service is created: docker service update would rewrite the specification, and swarm may then replace the task.
    held = api.create({**holder, "Labels": {"gpu-swarm.owner": "alice"}})
    taken = api.create(spec_of("web", {"port": (8080, "tcp"), "constraints": ["node.hostname==g1"]}, 1))
    fleet["m1"].docker("node", "update", "--label-add", "rack=7", "g1")
    wait_until("them to run", lambda: all(_states(api, one) == ["running"] for one in (held, taken)), shown=lambda: _shown(api, held, taken))
    yield api
    for one in (held, taken):
        api.remove(one)
    fleet["m1"].docker("node", "update", "--label-rm", "rack", "g1")


def _states(api: Swarm, service_id: str) -> list[str]:
    return [task["Status"]["State"] for task in api.tasks(service_id)]


def _shown(api: Swarm, *service_ids: str) -> list[Any]:
    return [task["Status"] for one in service_ids for task in api.tasks(one)]


def predicted(api: Swarm, name: str) -> dict[str, Any]:
    nodes, tasks, services = api.all()
    (found,) = ledger(Listed(nodes, tasks, services), "gpu-swarm.", [name])["explained"]
    return found


def placed(api: Swarm, service_id: str, replicas: int) -> list[str]:
    """Return the node of each task of the service, after the scheduler has checked all tasks."""

    def looked_at() -> list[dict[str, Any]]:
        tasks = api.tasks(service_id)
        done = [task for task in tasks if task.get("NodeID") or task["Status"].get("Err")]
        return done if len(done) == replicas else []

    tasks = wait_until("the scheduler", looked_at, shown=lambda: _shown(api, service_id))
    return sorted(task["NodeID"] for task in tasks if task.get("NodeID"))


def differences(api: Swarm, name: str, made: dict[str, Any]) -> list[str]:
    """Return where the scheduler decides differently. It spreads tasks, so with one task for each feasible node, each of these nodes gets one."""
    spec = spec_of(name, made)
    service_id = api.create(spec)
    try:
        said = predicted(api, name)
        replicas = said["nodes"]
        api.scale(service_id, spec, replicas)
        on = placed(api, service_id, replicas)
    finally:
        api.remove(service_id)
    expected = replicas if said["room"] is None else min(said["room"], replicas)
    if (sorted(set(on)), len(on)) == (said["feasible"], expected):
        return []
    return [f"{made}: {expected} tasks on {said['feasible']} were predicted, and {len(on)} are on {sorted(set(on))}: {said['text']}"]


def predictions(swarm: Swarm, first: int, last: int) -> None:
    made = list(enumerate(generated(last)))[first:]
    chosen = {str(one.get(key)) for _number, one in made for key in ("gpus", "cpus", "log", "volume", "port", "platform", "most", "constraints")}
    assert len(chosen) > 20
    found = [text for number, one in made for text in differences(swarm, f"case-{number}", one)]
    assert found == []


def test_the_scheduler_agrees_with_the_predictions(swarm: Swarm) -> None:
    predictions(swarm, 0, FEW)


@pytest.mark.rare
def test_the_scheduler_agrees_with_more_predictions(swarm: Swarm) -> None:
    predictions(swarm, FEW, CASES)


# -- the playbook ----------------------------------------------------------------------------------------------------


def shown(fleet: Fleet, inventory: Path, *arguments: str, columns: int = 1000) -> Run:
    words = [word for argument in arguments for word in ("--extra-vars", argument)]
    return fleet.playbook(inventory, *words, playbook=PLAYBOOK, env={"COLUMNS": str(columns)})


def as_json(run: Run) -> dict[str, Any]:
    (line,) = [line for line in run.output.splitlines() if line.startswith("{")]
    return json.loads(line)


def test_a_healthy_fleet_is_shown(fleet: Fleet, inventory: Path, first: Loud) -> None:
    for name in NODES:
        fleet[name].touch()
    run, found = shown(fleet, inventory), as_json(shown(fleet, inventory, "output=json"))
    # Some nodes left the swarm in other tests. The manager still lists them as down.
    assert run.rc == (2 if found["wrong"] else 0), run.output
    assert list(run.recap) == ["m1"]
    assert {name: run.row(name).split()[0] for name in NODES} == dict.fromkeys(NODES, "ready")
    assert "Nothing is pending." in run.output
    assert {name: fleet[name].touched() for name in ("g1", "g2")} == {"g1": [], "g2": []}


def test_the_reason_of_a_pending_service_is_shown(fleet: Fleet, inventory: Path, swarm: Swarm) -> None:
    big = swarm.create(spec_of("big", {"gpus": 4}, 1))
    try:
        wait_until("the scheduler", lambda: any(status.get("Err") for status in _shown(swarm, big)))
        one, everything = shown(fleet, inventory, "service=big"), shown(fleet, inventory, "output=json")
        assert one.rc == 75, one.output
        assert "needs 4 NVIDIA-GPU on one node: g2 has 3 NVIDIA-GPU free and would have 4 if holder.1 ended" in one.output
        found = as_json(everything)
        assert ([row["service"] for row in found["pending"]], found["waiting"]) == (["big"], ["big"])
        assert everything.rc == (2 if found["wrong"] else 75), everything.output
        assert [(row["node"], row["task"], row["owner"]) for row in found["holders"]] == [("g2", "holder.1", "alice")]
    finally:
        swarm.remove(big)


def test_a_service_that_reserves_0_is_named(fleet: Fleet, inventory: Path, swarm: Swarm) -> None:
    """The service gets the three free GPUs of g2."""
    spec = spec_of("greedy", {"gpus": 0, "constraints": ["node.hostname==g2"]}, 1)
    greedy = swarm.create(spec)
    try:
        wait_until("it to run", lambda: _states(swarm, greedy) == ["running"], shown=lambda: _shown(swarm, greedy))
        run = shown(fleet, inventory)
        swarm.scale(greedy, spec, 2)
        wait_until("the scheduler", lambda: any(status.get("Err") for status in _shown(swarm, greedy)))
        pending = shown(fleet, inventory, "service=greedy")
    finally:
        swarm.remove(greedy)
    assert "service greedy has 3 NVIDIA-GPU on node g2" in run.output, run.output
    assert "needs 1 or more NVIDIA-GPU (value: 0 means all free ones) on one node: g2 has 0 NVIDIA-GPU free" in pending.output, pending.output


def as_a_run_does(fleet: Fleet, availability: str) -> None:
    """Pause g1, or return g1 to service, like a run does."""
    node = {"id": fleet["g1"].swarm()["NodeID"], "availability": availability, "remember": availability != "former"}
    run = fleet.module("m1", "fleet.gpu_swarm.swarm_nodes", {"nodes": [node]})
    assert run.rc == 0, run.output


def test_pending_and_failing_services_set_the_exit_status(fleet: Fleet, inventory: Path, swarm: Swarm) -> None:
    as_a_run_does(fleet, "pause")
    never = swarm.create(spec_of("never", {"gpus": 9}, replicas=1))
    try:
        everything, free = shown(fleet, inventory), shown(fleet, inventory, "status_what=free", columns=60)
        assert everything.rc in (2, 75), everything.output
        assert re.search(r"^g1 +paused, by a run of this collection since \d{4}-\S+Z: it returns to active", everything.output, re.MULTILINE)
        assert "paused, by a run of this collection" in " ".join(free.output.split())
        assert free.too_wide(60) == []
        assert shown(fleet, inventory, "service=never").rc == 2
    finally:
        as_a_run_does(fleet, "former")
        swarm.remove(never)
    assert not {"gpu-swarm.paused-since", "gpu-swarm.former-availability"} & member(fleet, "g1")["Spec"]["Labels"].keys()


POLICY = """\
gpu_node_advertise:
  - {as: none, select: {model: "*T4*"}}
  - {as: gpu, kind: TRAINING}
"""


@pytest.mark.rare
def test_the_effect_of_a_policy_is_shown(fleet: Fleet, inventory: Path, swarm: Swarm, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yml"
    policy.write_text(POLICY, encoding="utf-8")
    before = {name: fleet[name].read("/etc/docker/daemon.json") for name in ("g1", "g2")}
    labels = {name: member(fleet, name)["Spec"]["Labels"] for name in NODES}
    run, consented = shown(fleet, inventory, f"plan={policy}"), shown(fleet, inventory, f"plan={policy}", "provision_allow_pending=true")
    for name in ("g1", "g2"):
        assert re.search(rf"(?m)^{name} +cannot be changed: services could not be placed .*: service holder", run.output), run.output
    place = "leaves no place for service holder"
    assert re.search(rf"(?m)^g1 +\+2 TRAINING; −2 NVIDIA-GPU; restarts dockerd; .*service web; {place}", consented.output), consented.output
    assert re.search(rf"(?m)^g2 +−4 NVIDIA-GPU; restarts dockerd; .*service holder; {place}", consented.output), consented.output
    assert (run.rc, consented.rc) == (2, 0)
    assert not any([*run.changed().values(), *consented.changed().values()])
    assert "Show it" not in run.output  # the current fleet
    assert {name: fleet[name].read("/etc/docker/daemon.json") for name in before} == before
    assert {name: member(fleet, name)["Spec"]["Labels"] for name in NODES} == labels
    same = tmp_path / "same.yml"
    same.write_text("gpu_node_advertise: [{as: gpu, kind: NVIDIA-GPU}]\n", encoding="utf-8")
    assert "restarts" not in shown(fleet, inventory, f"plan={same}").output
    assert "plan is gone.yml, which is not a file" in shown(fleet, inventory, "plan=gone.yml").output

    both = tmp_path / "site.yml"
    plays = [{"ansible.builtin.import_playbook": f"fleet.gpu_swarm.{name}"} for name in ("status", "provision")]
    both.write_text(json.dumps(plays), encoding="utf-8")
    run = fleet.playbook(inventory, "--extra-vars", f"plan={policy}", "--extra-vars", "provision_allow_pending=true", playbook=str(both))
    assert f"status with plan has read {policy} earlier in this run of Ansible" in run.output
    assert run.rc == 2, run.output
    assert {name: fleet[name].read("/etc/docker/daemon.json") for name in before} == before


def test_missing_services_and_invalid_values_are_errors(fleet: Fleet, inventory: Path, first: Loud) -> None:
    assert "The swarm has no service gone." in shown(fleet, inventory, "service=gone").failures("m1")[0]
    sections = "all, free, holders, pending, faulty, usage, events or card"
    assert f"what is 'nothing', but must be {sections}" in shown(fleet, inventory, "what=nothing").failures("m1")[0]


def test_the_next_manager_is_called_if_the_first_does_not_answer(fleet: Fleet, first: Loud) -> None:
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 9, "ansible_connection": "ssh"}
    both = fleet.inventory({"gone": gone}, swarm_managers=["gone", "m1"])
    run = shown(fleet, both, "output=json")
    assert as_json(run)["nodes"], run.output
    assert run.rc == (2 if as_json(run)["wrong"] else 0), run.output
    nobody = shown(fleet, fleet.inventory({"gone": gone}, swarm_managers=["gone"]))
    assert nobody.rc == 2
    assert "No manager of the swarm answers: gone cannot be reached" in nobody.failures("gone")[0]


# This is the last step, because a drain stops all tasks of the node.
@pytest.mark.rare
def test_the_scheduler_agrees_if_a_node_is_paused_or_drained(swarm: Swarm, fleet: Fleet) -> None:
    for node, availability in (("g1", "pause"), ("g2", "drain")):
        fleet["m1"].docker("node", "update", "--availability", availability, node)
        try:
            assert differences(swarm, f"case-{availability}", {"gpus": 1}) + differences(swarm, f"case-{availability}-any", {"cpus": 0.5}) == []
        finally:
            fleet["m1"].docker("node", "update", "--availability", "active", node)
