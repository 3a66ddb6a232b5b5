# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the recipes of docs/run/recipes.md with real services.

The tests use the policies, jobs and commands of the pages, and the stack files of docs/examples with other images. One node has the policies for
single models, one has the policy of two services on the same card, and one has the default.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.lab import CHECKOUT

from .fleet import UUID, Fleet, Node, Run, at_hand, wait_until
from .work import COUNT, cards, containers, variables

pytestmark = pytest.mark.rare

NAME = "e2e-recipes"
FLEET = """
nodes:
  r1: {groups: [swarm_managers, gpu_nodes], gpus: r1.conf, toolkit: 1.20.0}
  r2: {gpus: t4x4, toolkit: 1.20.0, cpu: broadwell}
  r3: {gpus: {name: NVIDIA A100-SXM4-80GB, memory: 81920, compute: "8.0", count: 3}, toolkit: 1.20.0, cpu: skylake_avx512}
  r4: {gpus: r4.conf, toolkit: 1.20.0, cpu: broadwell}
"""
NODES = ["r1", "r2", "r3", "r4"]
# One card for each policy that names a single model.
R1 = """
driver = 580.95.05
cuda = 13.0
[gpu 0]
name = NVIDIA GeForce RTX 2070
memory = 8000
compute = 7.5
[gpu 1]
name = NVIDIA GeForce GTX 1080
memory = 8192
compute = 6.1
[gpu 2]
name = NVIDIA L4
memory = 23034
compute = 8.9
[gpu 3-4]
name = NVIDIA H100 80GB HBM3
memory = 81559
compute = 9.0
"""
# r1 has the oldest of three drivers. r2 has one for CUDA 12.2, and r3 one for 13.0.
R4 = """
driver = 470.256.02
cuda = 11.4
[gpu 0]
name = Tesla V100-PCIE-16GB
memory = 16160
compute = 7.0
"""
VRAM_CARD, DOKPLOY_CARD, SLOTS_CARD, H100 = 0, 1, 2, slice(3, 5)
SEEN_S = 60
# The tasks of this service may see cards that they did not reserve.
BY_SLOT = "by-slot"


def blocks(page: str, heading: str = "") -> list[Any]:
    """Return the YAML blocks of a page, or of one section."""
    text = (CHECKOUT / "docs" / page).read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else text
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)]


def policy(page: str, heading: str = "") -> list[dict[str, Any]]:
    (found,) = [block["gpu_node_advertise"] for block in blocks(page, heading) if "gpu_node_advertise" in block]
    return found


def example(folder: Path, name: str, replaced: dict[str, str]) -> Path:
    """Return a stack file of docs/examples, with images of the lab and the commands that these images run."""
    text = (CHECKOUT / "docs/examples/stacks" / name).read_text()
    for former, new in replaced.items():
        assert former in text, f"{name} has no {former}"
        text = text.replace(former, new)
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("recipes")
    (work / "r1.conf").write_text(R1)
    (work / "r4.conf").write_text(R4)
    (work / "fleet.yml").write_text(FLEET)
    yield from at_hand(NAME, work / "fleet.yml", pytestconfig.getoption("--fleet"), work)


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    """Provision with all recipes at once. Everything outside the policies, such as the isolation, has its default."""
    dokploy = {"as": "gpu", "kind": "gpu", "select": {"index": [DOKPLOY_CARD]}}
    rules = {
        "r1": [*policy("run/memory.md"), dokploy, *policy("run/kinds.md")],
        "r2": policy("run/sharing.md", "Two services on the very same card"),
        **{name: policy("run/spark.md") for name in ("r3", "r4")},
    }
    more = {"r2": {"gpu_node_isolation_allow": [BY_SLOT]}}
    hosts = {name: {"gpu_node_advertise": found, **more.get(name, {})} for name, found in rules.items()}
    made = fleet.inventory(hosts, swarm_managers=["r1"], gpu_nodes=NODES)
    run = fleet.playbook(made)
    assert run.rc == 0, run.output
    return made


@pytest.fixture(autouse=True)
def nothing_left(fleet: Fleet, inventory: Path) -> Iterator[None]:
    yield
    manager = fleet["r1"]
    for stack in manager.docker("stack", "ls", "--format", "{{.Name}}").split():
        manager.start("docker", "stack", "rm", stack, check=False)
    for service in manager.docker("service", "ls", "--quiet").split():
        manager.docker("service", "rm", service)
    for name in NODES:
        fleet[name].run("sh", "-c", "docker ps --quiet | xargs --no-run-if-empty docker kill", check=False)  # some ignore a request to stop
    wait_until("the tasks to end", lambda: not manager.docker("node", "ps", "--quiet", *NODES), SEEN_S, lambda: manager.docker("node", "ps", *NODES))


def deploy(fleet: Fleet, inventory: Path, compose: Path, stack: str, *arguments: str) -> Run:
    return fleet.playbook(inventory, "-e", f"compose={compose}", "-e", f"stack={stack}", *arguments, playbook="fleet.gpu_swarm.deploy")


def create(fleet: Fleet, name: str, *options: str) -> None:
    fleet["r1"].docker("service", "create", "--detach", "--no-resolve-image", "--name", name, *options, "lab/cuda")


def running(fleet: Fleet, service: str, number: int = 1) -> list[tuple[str, str]]:
    """Return the node and the container of each task, once this number of them runs."""

    def found() -> list[tuple[str, str]]:
        return [(name, container) for name in NODES for container in containers(fleet[name], service)]

    shown = ("service", "ps", "--no-trunc", service)
    return wait_until(f"{number} tasks of {service}", lambda: len(found()) == number and found(), SEEN_S, lambda: fleet["r1"].docker(*shown))


def seen(fleet: Fleet, service: str, number: int = 1) -> list[tuple[str, str]]:
    """Return the node and the GPU of each task. Each task sees one GPU."""
    made = []
    for name, container in running(fleet, service, number):
        (card,) = cards(fleet[name], container)
        made.append((name, card))
    return sorted(made)


def whole(fleet: Fleet) -> list[tuple[str, str]]:
    """Return the GPUs of the kind NVIDIA-GPU."""
    return sorted([("r2", card) for card in fleet["r2"].gpus()[1:]] + [(name, card) for name in ("r3", "r4") for card in fleet[name].gpus()])


# A replacement of Spark's program. The master listens at the address of its name. Like Spark's workers, each worker runs the discovery script of its
# options, and connects to the given master. It requests a path with its GPU from the master.
SPARK_CLASS = r"""#!/bin/sh
case "$1 $2" in
"org.apache.spark.deploy.master.Master --host")
    exec busybox httpd -f -vv -p "$(busybox ping -c 1 -w 1 "$3" | sed 's/^[^(]*(\([0-9.]*\)).*/\1/;q'):7077" ;;
"org.apache.spark.deploy.worker.Worker spark://"*)
    for option in $SPARK_WORKER_OPTS; do
        case $option in
        -Dspark.worker.resource.gpu.discoveryScript=*) "${option#*=}" || exit ;;
        -Dspark.worker.resource.gpu.amount=*) echo "amount ${option#*=}" ;;
        esac
    done
    master=${2#spark://} card=$(nvidia-smi -L | sed 's/.*(UUID: \(.*\))/\1/')
    until (echo "GET /$card HTTP/1.0"; echo) | busybox nc "${master%:*}" "${master#*:}" | grep HTTP; do sleep 1; done
    exec sleep infinity ;;
esac
echo "$* is no command of Spark's" >&2
exit 2
"""
# Spark expects one line of JSON from such a script, with nvidia-smi's numbers of the GPUs in this container.
DISCOVERY = r"""#!/bin/sh
found=$(nvidia-smi --query-gpu=index --format=csv,noheader) && [ "$found" ] || exit 1
echo "{\"name\": \"gpu\", \"addresses\": [\"$(echo $found | sed 's/ /", "/g')\"]}"
"""
# Spark's image has its programs in this folder.
SPARK_FILES = {"bin/spark-class": SPARK_CLASS, "examples/src/main/scripts/getGpusResources.sh": DISCOVERY}
SPARK_IMAGE = {"apache/spark:3.5.7": "lab/spark"}


@pytest.fixture(scope="module")
def spark_image(fleet: Fleet, inventory: Path) -> None:
    for name in NODES:
        node = fleet[name]
        for path, text in SPARK_FILES.items():
            node.write(f"/root/opt/spark/{path}", text.encode())
        node.run("chmod", "-R", "755", "/root/opt")
        container = node.docker("create", "lab/cuda", "true")
        node.docker("cp", "/root/opt", f"{container}:/")
        node.docker("commit", container, "lab/spark")
        node.docker("rm", container)


def test_a_spark_worker_for_each_gpu(fleet: Fleet, inventory: Path, spark_image: None, tmp_path: Path) -> None:
    """Each worker sees its own GPU. The master sees no GPU, although its image requests all. The stack has one worker too many, which waits."""
    run = deploy(fleet, inventory, example(tmp_path, "spark.yml", SPARK_IMAGE), "spark")
    assert run.rc == 0, run.output
    assert "spark_worker: 4 of 4 running" in run.output
    more = example(tmp_path, "spark.yml", {**SPARK_IMAGE, "replicas: 4": "replicas: 8"})
    run = deploy(fleet, inventory, more, "spark", "-e", "gpu_stack_allow_pending=true", "-e", "gpu_stack_wait_timeout=10")
    assert run.rc == 75, run.output
    assert "spark_worker: 7 of 8 running; needs 1 NVIDIA-GPU on one node" in run.output
    assert seen(fleet, "spark_worker", 7) == whole(fleet)
    for name, worker in running(fleet, "spark_worker", 7):
        assert discovered(fleet[name], worker) == ("1", "gpu", [reserved(fleet[name], worker)])
    ((name, master),) = running(fleet, "spark_master")
    assert fleet[name].docker("exec", master, "sh", "-c", COUNT) == "0"

    def connected() -> set[str]:
        return set(UUID.findall(fleet[name].run("sh", "-c", f"docker logs {master} 2>&1")))

    wait_until("the workers to reach their master", lambda: connected() == {card for _name, card in whole(fleet)}, SEEN_S, connected)


def discovered(node: Node, worker: str) -> tuple[str, str, list[str]]:
    """Return how many GPUs a worker requests, the name of the resource, and the UUIDs that the worker's discovery script found."""
    amount, said = wait_until("the discovery script", lambda: re.findall(r"^amount (\d+)\n(\{.*\})$", node.docker("logs", worker), re.MULTILINE))[0]
    shown = node.docker("exec", worker, "nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader")
    by_index, found = dict(line.split(", ") for line in shown.splitlines()), json.loads(said)
    return amount, found["name"], [by_index[address] for address in found["addresses"]]


def reserved(node: Node, container: str) -> str:
    """Return the resources that swarm allocated to the service's task."""
    given = node.docker_json("inspect", container)[0]["Config"]["Env"]
    (card,) = [one.partition("=")[2] for one in given if one.startswith("DOCKER_RESOURCE_NVIDIA-GPU=")]
    return card


JOBS = {"image": "lab/cuda", "command": ["sh", "-c", 'echo "LR=$LR: $MAX_CONTAINER_MEMORY MiB"; until [ -e /over ]; do sleep 1; done']}


def test_two_jobs_of_4000_mib_on_a_card_and_a_third_that_waits(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """The third job waits until one of the two jobs has ended. prune_jobs then removes the finished job, and no running job."""
    (job,) = [block for block in blocks("run/memory.md") if "array" in block]
    path = tmp_path / "job.yml"
    path.write_text(yaml.safe_dump({**job, **JOBS}))
    run = fleet.playbook(inventory, "-e", f"job={path}", "-e", "wait=false", playbook="fleet.gpu_swarm.job")
    assert run.rc == 0, run.output
    manager = node = fleet["r1"]

    def states() -> dict[str, list[str]]:
        services = manager.docker("service", "ls", "--format", "{{.Name}}", "--filter", "label=gpu-swarm.job").split()
        shown = ("--no-trunc", "--format", "{{.CurrentState}} {{.Error}}")
        found = {name: manager.docker("service", "ps", *shown, name) for name in services}
        return {state: sorted(name for name, text in found.items() if text.startswith(state)) for state in ("Pending", "Running", "Complete")}

    def counts() -> list[int]:
        return [len(names) for names in states().values()]

    wait_until("two to run and one to wait", lambda: counts() == [1, 2, 0], SEEN_S, states)
    (waits,), (first, second), _over = states().values()
    assert "insufficient resources" in manager.docker("service", "ps", "--no-trunc", "--format", "{{.Error}}", waits)
    for service in (first, second):
        assert shares(fleet, service) == (node.gpus()[VRAM_CARD], "4000", "0.462500")

    node.docker("exec", containers(node, first)[0], "busybox", "touch", "/over")
    wait_until("the third to run", lambda: counts() == [0, 2, 1], SEEN_S, states)
    assert shares(fleet, waits) == (node.gpus()[VRAM_CARD], "4000", "0.462500")
    run = fleet.playbook(inventory, "-e", "older_than=0s", playbook="fleet.gpu_swarm.prune_jobs")
    assert (run.rc, run.changed()["r1"]) == (0, 1), run.output
    assert list(states().values()) == [[], sorted([second, waits]), []]
    assert ": 4000 MiB" in node.run("sh", "-c", f"cat /var/lib/gpu-swarm/jobs/{first}*")


def shares(fleet: Fleet, service: str) -> tuple[str, str, str]:
    """Return the card that the service's task sees, and its share of the card."""
    ((name, container),) = running(fleet, service)
    its, (card,) = variables(fleet[name], container), cards(fleet[name], container)
    return card, its["MAX_CONTAINER_MEMORY"], its["GPU_MEMORY_FRACTION"]


CUDA_IMAGE = "nvidia/cuda:13.0.0-base-ubuntu24.04"


def test_kinds_by_model_and_slots_in_a_stack_file(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    run = deploy(fleet, inventory, example(tmp_path, "kinds.yml", {CUDA_IMAGE: "lab/cuda"}), "models")
    assert run.rc == 0, run.output
    node, ((name, train),) = fleet["r1"], running(fleet, "models_train")
    assert (name, cards(node, train)) == ("r1", node.gpus()[H100])
    slots = {variables(node, container)["GPU_SWARM_SLOTS"] for _name, container in running(fleet, "models_infer", 4)}
    card = node.gpus()[SLOTS_CARD]
    assert slots == {f"{card}.slot{number}" for number in (1, 2, 3, 4)}
    assert seen(fleet, "models_infer", 4) == [("r1", card)] * 4


IMAGES = {"registry.example.org/train:cuda12.2-avx512": "lab/none", "registry.example.org/train:cuda12.2": "lab/task"}
IMAGES.update({"registry.example.org/train:cuda12.8": "lab/cuda", "registry.example.org/train:cuda11.4": "lab/old"})
# Three drivers, three models and two CPU levels: the image, and the number of its tasks.
BY_NODE = {"r2 lab/task": 3, "r3 lab/cuda": 3, "r4 lab/old": 1}


def test_one_kind_for_all_and_an_image_for_each_machine(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """Each node has another driver and model, and one has a newer CPU. The node whose card has less memory gets no task."""
    for name in NODES:
        fleet[name].docker("tag", "lab/task", "lab/old")
    run = deploy(fleet, inventory, example(tmp_path, "by_node.yml", IMAGES), "train")
    assert run.rc == 0, run.output
    services = fleet["r1"].docker("service", "ls", "--format", "{{.Name}}").split()
    shown = fleet["r1"].docker("service", "ps", "--filter", "desired-state=running", "--format", "{{.Name}} {{.Node}} {{.Image}}", *services)
    tasks = [line.removesuffix(":latest").split() for line in shown.splitlines()]
    assert Counter(f"{node} {image}" for _name, node, image in tasks) == BY_NODE
    numbers = Counter(name.rpartition(".")[0] for name, _node, _image in tasks)
    assert sorted(one for service, number in numbers.items() for one in seen(fleet, service, number)) == whole(fleet)


def test_two_services_on_the_very_same_card(fleet: Fleet, inventory: Path) -> None:
    for name in ("prepare", "compute"):
        create(fleet, name, "--generic-resource", "PIPELINE=1")
    # Half of 15360 MiB. CUDA itself uses 300 MiB of this half.
    expected = (fleet["r2"].gpus()[0], "7680", "0.480468")
    assert [shares(fleet, name) for name in ("prepare", "compute")] == [expected, expected]


def test_a_template_chooses_cards_that_are_not_advertised(fleet: Fleet, inventory: Path) -> None:
    """Uses the command from run/sharing.md. The first card stays free, the fourth task fails, and a service without permission is refused."""
    text = (CHECKOUT / "docs/run/sharing.md").read_text()
    (line,) = re.findall(r"^\$ docker service create (.*Task\.Slot.*) …$", text, re.MULTILINE)
    options, manager = shlex.split(line.replace("gpu-1", "r2")), fleet["r1"]
    create(fleet, BY_SLOT, *options)
    assert seen(fleet, BY_SLOT, 3) == sorted(("r2", card) for card in fleet["r2"].gpus()[1:])

    def errors(service: str) -> list[list[str]]:
        """Return the name of each failed task, and the reason."""
        shown = manager.docker("service", "ps", "--no-trunc", "--format", "{{.Name}}={{.Error}}", service)
        return [one.split("=", 1) for one in shown.splitlines() if not one.endswith("=")]

    manager.docker("service", "scale", "--detach", f"{BY_SLOT}=4")
    wait_until("the fourth to fail", lambda: errors(BY_SLOT), SEEN_S)
    assert {name.split()[-1] for name, _why in errors(BY_SLOT)} == {f"{BY_SLOT}.4"}  # Docker writes a mark before the name of former tasks
    create(fleet, "others", *options)

    def refused() -> bool:
        return any("isolation: reserved" in why for _name, why in errors("others"))

    wait_until("another to be refused", refused, SEEN_S, lambda: errors("others"))


def test_docker_service_create_can_be_used_beside(fleet: Fleet, inventory: Path) -> None:
    """A service reserves a general kind, and a label selects GPUs. Another service writes the kind in lower case, as another tool does."""
    create(fleet, "plain", "--generic-resource", "NVIDIA-GPU=1", "--constraint", "node.labels.gpu.model==Tesla-T4")
    ((name, card),) = seen(fleet, "plain")
    assert (name, card in fleet["r2"].gpus()[1:]) == ("r2", True)
    other = ("--generic-resource-rm", "NVIDIA-GPU", "--generic-resource-add", "gpu=1", "--constraint-rm", "node.labels.gpu.model==Tesla-T4")
    fleet["r1"].docker("service", "update", "--detach", "--no-resolve-image", *other, "plain")
    wait_until("its new task", lambda: containers(fleet["r1"], "plain"), SEEN_S, lambda: fleet["r1"].docker("service", "ps", "--no-trunc", "plain"))
    assert seen(fleet, "plain") == [("r1", fleet["r1"].gpus()[DOKPLOY_CARD])]


# Calls Docker's API like programs do: the method, the path, and the request body on standard input.
CALL = """
import http.client, socket, sys
connection = http.client.HTTPConnection("localhost")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect("/var/run/docker.sock")
connection.request(*sys.argv[1:3], body=sys.stdin.read() or None, headers={"Content-Type": "application/json"})
answer = connection.getresponse()
sys.stdout.write(answer.read().decode())
sys.exit(answer.status >= 400)
"""


def call(node: Node, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    return json.loads(node.start("python3", "-c", CALL, method, path, text=json.dumps(body).encode() if body else None).stdout)


def updated(fleet: Fleet, service: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> tuple[str, list[str]]:
    """Update a service, and return the node and the cards of the new task. ``change`` turns the former specification into the new one."""
    ((_name, former),) = running(fleet, service)

    def written() -> bool:
        """Try again if swarm has meanwhile written the progress of the last update."""
        found = call(fleet["r1"], "GET", f"/services/{service}")
        path = f"/services/{found['ID']}/update?version={found['Version']['Index']}"
        done = fleet["r1"].start("python3", "-c", CALL, "POST", path, text=json.dumps(change(found["Spec"])).encode(), check=False)
        assert done.returncode == 0 or b"update out of sequence" in done.stdout, done.stdout
        return done.returncode == 0

    wait_until("the update", written)
    return new_task(fleet, service, former)


def new_task(fleet: Fleet, service: str, former: str) -> tuple[str, list[str]]:
    def found() -> list[tuple[str, str]]:
        there = [(name, container) for name in NODES for container in containers(fleet[name], service)]
        return [] if any(container == former for _name, container in there) else there

    ((name, container),) = wait_until("its new task", found, SEEN_S, lambda: fleet["r1"].docker("service", "ps", "--no-trunc", service))
    return name, [] if fleet[name].docker("exec", container, "sh", "-c", COUNT) == "0" else cards(fleet[name], container)


ONE_GPU = """
services:
  app:
    image: lab/cuda
    stop_grace_period: 1s
    deploy: {resources: {reservations: {generic_resources: [{discrete_resource_spec: {kind: gpu, value: 1}}]}}}
"""


def stack_deploy(fleet: Fleet, stack: str) -> None:
    """Deploy as both tools do. The lab has no registry where Docker could look up an image."""
    fleet["r1"].write("/root/stack/docker-compose.yml", ONE_GPU.encode())
    words = ("--prune", "--with-registry-auth", "--resolve-image=never", "--compose-file", "/root/stack/docker-compose.yml")
    fleet["r1"].docker("stack", "deploy", *words, stack)


def test_portainer_can_be_used_beside(fleet: Fleet, inventory: Path) -> None:
    """Portainer deploys with 'docker stack deploy', and updates a service with its whole specification.

    If a user changes the number of CPUs in its form, Portainer rewrites all resources. It knows only memory and CPUs
    (app/docker/views/services/edit/serviceController.js).
    """
    card = fleet["r1"].gpus()[DOKPLOY_CARD]
    stack_deploy(fleet, "portainer")
    assert seen(fleet, "portainer_app") == [("r1", card)]

    def variable(spec: dict[str, Any]) -> dict[str, Any]:
        spec["TaskTemplate"]["ContainerSpec"]["Env"] = ["EDITED=1"]
        return spec

    def cpus(spec: dict[str, Any]) -> dict[str, Any]:
        none = {"NanoCPUs": 0, "MemoryBytes": 0}
        spec["TaskTemplate"]["Resources"] = {"Limits": none, "Reservations": {**none, "NanoCPUs": 10**8}}
        return spec

    assert updated(fleet, "portainer_app", variable) == ("r1", [card])
    assert updated(fleet, "portainer_app", cpus)[1] == []
    ((_name, former),) = running(fleet, "portainer_app")
    stack_deploy(fleet, "portainer")
    assert new_task(fleet, "portainer_app", former) == ("r1", [card])


# The request for an application (packages/server/src/utils/builders/index.ts).
DOKPLOY_APP = {
    "Name": "app",
    "TaskTemplate": {
        "ContainerSpec": {"Image": "lab/cuda", "Env": ["A=1"], "Mounts": []},
        "Placement": {"Constraints": []},
        "Resources": {"Limits": {}, "Reservations": {}},
    },
    "Mode": {"Replicated": {"Replicas": 1}},
    "RollbackConfig": {"Parallelism": 1, "Order": "start-first"},
    "UpdateConfig": {"Parallelism": 1, "Order": "start-first", "FailureAction": "rollback"},
    "EndpointSpec": {"Ports": []},
}


def test_dokploy_can_be_used_beside(fleet: Fleet, inventory: Path) -> None:
    """Stacks of Dokploy can reserve GPUs.

    Applications of Dokploy cannot. Each deployment of an application writes the whole service. Dokploy's page about GPUs counts amounts, and ignores
    named GPUs even if it knows their kind (packages/server/src/utils/gpu-setup.ts).
    """
    manager, card = fleet["r1"], fleet["r1"].gpus()[DOKPLOY_CARD]
    call(manager, "POST", "/services/create", DOKPLOY_APP)
    ((name, former),) = running(fleet, "app")
    assert fleet[name].docker("exec", former, "sh", "-c", COUNT) == "0"
    manager.docker("service", "update", "--detach", "--no-resolve-image", "--generic-resource-add", "gpu=1", "app")
    assert new_task(fleet, "app", former) == ("r1", [card])

    def again(spec: dict[str, Any]) -> dict[str, Any]:
        task = {**DOKPLOY_APP["TaskTemplate"], "ForceUpdate": spec["TaskTemplate"].get("ForceUpdate", 0) + 1}
        return {**DOKPLOY_APP, "TaskTemplate": task}

    assert updated(fleet, "app", again)[1] == []
    stack_deploy(fleet, "dokploy")
    assert seen(fleet, "dokploy_app") == [("r1", card)]
    shown = manager.docker_json("node", "inspect", "self", "--format", "{{json .Description.Resources.GenericResources}}")
    of_kind = [form for one in shown for form, its in one.items() if its["Kind"].lower() == "gpu"]
    assert of_kind == ["NamedResourceSpec"]


def test_docker_stack_deploy_can_be_used_beside(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """Docker refuses the Compose file of docs/run/compose.md. It accepts the output of deploy --check, and files with generic_resources."""
    text = (CHECKOUT / "docs/run/compose.md").read_text().partition("# compose.yml\n")[2].partition("```")[0]
    path = tmp_path / "compose.yml"
    path.write_text(text.replace(CUDA_IMAGE, "lab/cuda"))
    run = deploy(fleet, inventory, path, "train", "--check")
    assert run.rc == 0, run.output
    printed = run.output.partition("# stack.yml\n")[2].partition("\nchanged: ")[0]

    def deployed(stack: str, text: str) -> int:
        command = ("docker", "stack", "deploy", "--resolve-image", "never", "--compose-file", "-", stack)
        return fleet["r1"].start(*command, text=text.encode(), check=False).returncode

    assert deployed("train", path.read_text())
    assert [deployed("train", printed), deployed("models", example(tmp_path, "kinds.yml", {CUDA_IMAGE: "lab/cuda"}).read_text())] == [0, 0]
    assert set(seen(fleet, "train_train", 2)) < set(whole(fleet))
    assert seen(fleet, "models_infer", 4) == [("r1", fleet["r1"].gpus()[SLOTS_CARD])] * 4
