# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recipes of docs/RECIPES.md with real services: policies, jobs and commands as that page has them, and the stack files of docs/examples with
other images. One node has the policies for a model of card each, one that of two services on the very same card, and one the default."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.lab import CHECKOUT

from .fleet import UUID, Fleet, Run, at_hand, wait_until
from .work import COUNT, cards, containers, variables

NAME = "e2e-recipes"
FLEET = """
nodes:
  r1: {groups: [swarm_managers, gpu_nodes], gpus: r1.conf, toolkit: 1.20.0}
  r2: {gpus: t4x4, toolkit: 1.20.0, cpu: broadwell}
  r3: {gpus: {name: NVIDIA A100-SXM4-80GB, memory: 81920, compute: "8.0", count: 3}, toolkit: 1.20.0, cpu: skylake_avx512}
  r4: {gpus: r4.conf, toolkit: 1.20.0, cpu: broadwell}
"""
NODES = ["r1", "r2", "r3", "r4"]
# A card for each of the policies that are for one model.
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
# The oldest of three drivers: r2 has one for CUDA 12.2, and r3 one for 13.0.
R4 = """
driver = 470.256.02
cuda = 11.4
[gpu 0]
name = Tesla V100-PCIE-16GB
memory = 16160
compute = 7.0
"""
VRAM_CARD, DOKPLOY_CARD, SLOTS_CARD, H100 = 0, 1, 2, slice(3, 5)
SPARK, VRAM, KINDS = "A Spark worker for each GPU", "Two tasks with 4000 MiB each on a card of 8 GB", "Kinds by model, and slots, in a stack file"
SEEN_S = 60
# Its tasks may see cards that they did not reserve.
BY_SLOT = "by-slot"


def blocks(page: str, heading: str) -> list[Any]:
    """The YAML that stands below a heading."""
    text = (CHECKOUT / "docs" / page).read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)]


def policy(page: str, heading: str) -> list[dict[str, Any]]:
    (found,) = [block["gpu_node_advertise"] for block in blocks(page, heading) if "gpu_node_advertise" in block]
    return found


def example(folder: Path, name: str, replaced: dict[str, str]) -> Path:
    """A stack file of docs/examples with other images, which the lab has, and what these run."""
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
    """All recipes at a time. What is in no policy, such as the isolation, is as it is by default."""
    dokploy = {"as": "gpu", "kind": "gpu", "select": {"index": [DOKPLOY_CARD]}}
    rules = {
        "r1": [*policy("RECIPES.md", VRAM), dokploy, *policy("RECIPES.md", KINDS)],
        "r2": policy("SHARING.md", "Two services on the very same card"),
        **{name: policy("RECIPES.md", SPARK) for name in ("r3", "r4")},
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
        fleet[name].run("sh", "-c", "docker ps --quiet | xargs --no-run-if-empty docker kill", check=False)  # not all of them end when they are to
    wait_until("the tasks to end", lambda: not manager.docker("node", "ps", "--quiet", *NODES), SEEN_S, lambda: manager.docker("node", "ps", *NODES))


def deploy(fleet: Fleet, inventory: Path, compose: Path, stack: str, *arguments: str) -> Run:
    return fleet.playbook(inventory, "-e", f"compose={compose}", "-e", f"stack={stack}", *arguments, playbook="fleet.gpu_swarm.deploy")


def create(fleet: Fleet, name: str, *options: str) -> None:
    fleet["r1"].docker("service", "create", "--detach", "--no-resolve-image", "--name", name, *options, "lab/cuda")


def running(fleet: Fleet, service: str, number: int = 1) -> list[tuple[str, str]]:
    """The node and the container of each of its tasks, of which there are so many."""

    def found() -> list[tuple[str, str]]:
        return [(name, container) for name in NODES for container in containers(fleet[name], service)]

    shown = ("service", "ps", "--no-trunc", service)
    return wait_until(f"{number} tasks of {service}", lambda: len(found()) == number and found(), SEEN_S, lambda: fleet["r1"].docker(*shown))


def seen(fleet: Fleet, service: str, number: int = 1) -> list[tuple[str, str]]:
    """The node and the GPU of each of its tasks, which all see one."""
    made = []
    for name, container in running(fleet, service, number):
        (card,) = cards(fleet[name], container)
        made.append((name, card))
    return sorted(made)


def whole(fleet: Fleet) -> list[tuple[str, str]]:
    """The GPUs that are of the kind NVIDIA-GPU."""
    return sorted([("r2", card) for card in fleet["r2"].gpus()[1:]] + [(name, card) for name in ("r3", "r4") for card in fleet[name].gpus()])


# The master listens at the address of its name, and the workers connect to that name, as Spark's do. Each worker says which GPU it sees.
LISTENS = r'exec busybox httpd -f -vv -p "$$(busybox ping -c 1 -w 1 master | sed "s/^[^(]*(\([0-9.]*\)).*/\1/;q"):7077"'
SAYS = r'until (echo "GET /$$(nvidia-smi -L | sed "s/.*(UUID: \(.*\))/\1/") HTTP/1.0"; echo) | busybox nc master 7077 | grep HTTP; do sleep 1; done'
MASTER, WORKER = f"command: [sh, -c, '{LISTENS}']", f"command: [sh, -c, '{SAYS}; exec sleep infinity']"
SPARK_FILE = {
    "apache/spark:3.5.7": "lab/cuda",
    "command: [/opt/spark/bin/spark-class, org.apache.spark.deploy.master.Master, --host, master]": MASTER,
    'command: [/opt/spark/bin/spark-class, org.apache.spark.deploy.worker.Worker, "spark://master:7077"]': WORKER,
}


def test_a_spark_worker_for_each_gpu(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """Each worker sees a GPU of its own, and the master none, though its image requests all. One worker more than GPUs waits."""
    run = deploy(fleet, inventory, example(tmp_path, "spark.yml", SPARK_FILE), "spark")
    assert run.rc == 0, run.output
    assert "spark_worker: 4 of 4 running" in run.output
    more = example(tmp_path, "spark.yml", {**SPARK_FILE, "replicas: 4": "replicas: 8"})
    run = deploy(fleet, inventory, more, "spark", "-e", "gpu_stack_allow_pending=true", "-e", "gpu_stack_wait_timeout=10")
    assert run.rc == 75, run.output
    assert "spark_worker: 7 of 8 running; needs 1 NVIDIA-GPU on one node" in run.output
    assert seen(fleet, "spark_worker", 7) == whole(fleet)
    ((name, master),) = running(fleet, "spark_master")
    assert fleet[name].docker("exec", master, "sh", "-c", COUNT) == "0"

    def connected() -> set[str]:
        return set(UUID.findall(fleet[name].run("sh", "-c", f"docker logs {master} 2>&1")))

    wait_until("the workers to reach their master", lambda: connected() == {card for _name, card in whole(fleet)}, SEEN_S, connected)


JOBS = {"image": "lab/cuda", "command": ["sh", "-c", 'echo "LR=$LR: $MAX_CONTAINER_MEMORY MiB"; until [ -e /over ]; do sleep 1; done']}


def test_two_jobs_of_4000_mib_on_a_card_and_a_third_that_waits(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """It waits until one of them is over. prune_jobs then removes that one, and none that runs."""
    (job,) = [block for block in blocks("RECIPES.md", VRAM) if "array" in block]
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
    """The card that its task sees, and which share it finds."""
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
# Of three drivers, three models and two levels of CPU: the image, and how many of the tasks.
BY_NODE = {"r2 lab/task": 3, "r3 lab/cuda": 3, "r4 lab/old": 1}


def test_one_kind_for_all_and_an_image_for_each_machine(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """Each node has another driver and model, and one a younger CPU. The one with a card of less memory gets no task."""
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
    # Half of 15360 MiB, and of these 300 are CUDA's own.
    expected = (fleet["r2"].gpus()[0], "7680", "0.480468")
    assert [shares(fleet, name) for name in ("prepare", "compute")] == [expected, expected]


def test_a_template_chooses_cards_that_are_not_advertised(fleet: Fleet, inventory: Path) -> None:
    """The command of SHARING.md. The first card stays free, the fourth task fails, and a service that is not allowed to is refused."""
    text = (CHECKOUT / "docs/SHARING.md").read_text()
    (line,) = re.findall(r"^\$ docker service create (.*Task\.Slot.*) …$", text, re.MULTILINE)
    options, manager = shlex.split(line.replace("gpu-1", "r2")), fleet["r1"]
    create(fleet, BY_SLOT, *options)
    assert seen(fleet, BY_SLOT, 3) == sorted(("r2", card) for card in fleet["r2"].gpus()[1:])

    def errors(service: str) -> list[list[str]]:
        """The name of each task that failed, and why."""
        shown = manager.docker("service", "ps", "--no-trunc", "--format", "{{.Name}}={{.Error}}", service)
        return [one.split("=", 1) for one in shown.splitlines() if not one.endswith("=")]

    manager.docker("service", "scale", "--detach", f"{BY_SLOT}=4")
    wait_until("the fourth to fail", lambda: errors(BY_SLOT), SEEN_S)
    assert {name.split()[-1] for name, _why in errors(BY_SLOT)} == {f"{BY_SLOT}.4"}  # with a sign in front of earlier ones
    create(fleet, "others", *options)

    def refused() -> bool:
        return any("isolation: reserved" in why for _name, why in errors("others"))

    wait_until("another to be refused", refused, SEEN_S, lambda: errors("others"))


def test_beside_docker_service_create(fleet: Fleet, inventory: Path) -> None:
    """A general name with a label for what some of them are. Then the service reserves the kind in lower case, which another tool knows."""
    create(fleet, "plain", "--generic-resource", "NVIDIA-GPU=1", "--constraint", "node.labels.gpu.model==Tesla-T4")
    ((name, card),) = seen(fleet, "plain")
    assert (name, card in fleet["r2"].gpus()[1:]) == ("r2", True)
    other = ("--generic-resource-rm", "NVIDIA-GPU", "--generic-resource-add", "gpu=1", "--constraint-rm", "node.labels.gpu.model==Tesla-T4")
    fleet["r1"].docker("service", "update", "--detach", "--no-resolve-image", *other, "plain")
    wait_until("its new task", lambda: containers(fleet["r1"], "plain"), SEEN_S, lambda: fleet["r1"].docker("service", "ps", "--no-trunc", "plain"))
    assert seen(fleet, "plain") == [("r1", fleet["r1"].gpus()[DOKPLOY_CARD])]


def test_beside_docker_stack_deploy(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """It refuses the Compose file of docs/STACKS.md, takes what deploy --check prints of it, and files with generic_resources as they are."""
    text = (CHECKOUT / "docs/STACKS.md").read_text().partition("# compose.yml\n")[2].partition("```")[0]
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
