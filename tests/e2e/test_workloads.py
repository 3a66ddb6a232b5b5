# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recipes of docs/run, from vLLM to a registry: each file is deployed, and an image of the lab checks what the real image needs.

The image has the names that the recipes use (tests/lab/workload). The files are changed only where the lab differs: ports, because all recipes run at
the same time, NFS, which needs a server in a kernel, and the pace of healthchecks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.lab.lab import CHECKOUT, HERE
from tests.lab.workload.workload import PEOPLE, PROGRAMS

from .fleet import Fleet, Node, Run, at_hand, wait_until
from .jobs import JOB
from .work import cards, containers, variables

FLEET = """
nodes:
  n1: {{groups: [swarm_managers, gpu_nodes], gpus: {{name: Tesla T4, memory: 15360, compute: "7.5", count: 12}}, image: {0}, toolkit: 1.20.0}}
  n2: {{gpus: {{name: NVIDIA H100 80GB HBM3, memory: 81559, compute: "9.0", count: 4}}, image: {0}, toolkit: 1.20.0}}
"""
NODES = ["n1", "n2"]
OLD = "debian12"  # Docker 20.10
RELEASES = ["debian13", *(pytest.param(name, marks=pytest.mark.rare) for name in (OLD, "debian-testing"))]
# Two cards of n2 are divided into quarters, as docs/run/jupyterhub.md says.
ADVERTISED = [
    {"as": "slots", "kind": "NVIDIA-SLOT", "slots": 4, "select": {"index": [0, 1]}},
    {"as": "gpu", "kind": "NVIDIA-GPU", "select": {"index": [2, 3]}},
]
WORK_S = 120
PLAIN, CUDA, CRON = "lab/workload", "lab/workload-cuda", "lab/workload-cron"
# The names that the recipes use, by the lab's image.
IMAGES = {
    CUDA: [
        "vllm/vllm-openai:v0.21.0", "ollama/ollama:0.32.15", "jrottenberg/ffmpeg:8.1-nvidia2404", "registry.example.org/train:1",
        "quay.io/jupyter/pytorch-notebook:cuda12-2026-07-28",
    ],
    PLAIN: ["registry:3.0.0", "registry.example.org/hub:5.5.1", "ghcr.io/open-webui/open-webui:v0.8.3"],
    CRON: ["crazymax/swarm-cronjob:1.16.0"],
}  # fmt: skip
# What the images of each kind do without a command, and the variable that CUDA images have.
CHANGES = {
    PLAIN: ['CMD ["registry"]'],
    CUDA: ['CMD ["ollama", "serve"]', "ENV NVIDIA_VISIBLE_DEVICES=all"],
    CRON: ['CMD ["swarm-cronjob"]'],
}
ENVIRONMENT = {
    "HF_TOKEN": "a token", "HUB_ADMIN": "ada", "NFS_SERVER": "192.0.2.5", "REGISTRY_NODE": "n1", "VLLM_API_KEY": "a key of the API",
    "WEBUI_NODE": "n2", "WEBUI_SECRET_KEY": "a key of cookies",
}  # fmt: skip
BESIDE = {"registry.crt": "a certificate", "registry.key": "a key", "htpasswd": "deployer:$2y$05$a"}
# Directories of the nodes that are on NFS in a real fleet.
SHARED = ["/srv/media/in", "/srv/media/out", "/srv/checkpoints", "/srv/models/Qwen/Qwen3-0.6B", *(f"/srv/homes/{person}" for person in PEOPLE)]
FILMS = ("alien", "brazil", "casablanca")
PACE = {"interval: 10s": "interval: 2s", "monitor: 30s": "monitor: 3s"}


class Recipe(NamedTuple):
    """A Compose file, the tasks of its services that run and that end, and what is replaced in the lab."""

    file: str
    runs: dict[str, int]
    ends: tuple[str, ...] = ()
    replaced: dict[str, str] = {}  # noqa: RUF012


HUB_ON_NFS = {
    '{ type: nfs, o: "addr=${NFS_SERVER},rw,nfsvers=4.1", device: ":/export/homes" }': "{ type: none, o: bind, device: /srv/homes }",
    """{"type": "nfs", "o": f"addr={os.environ['NFS_SERVER']},rw,nfsvers=4.1"}""": '{"type": "none", "o": "bind"}',
    'f":/export/homes/{name}"': 'f"/srv/homes/{name}"',
    '"8000:8000"': '"8002:8000"',
}
MODELS_ON_NFS = {
    "type: nfs": "type: none",
    "addr=${NFS_SERVER:?write NFS_SERVER=ADDRESS into .env},nfsvers=4.1,ro": "bind,ro",
    '":/export/models"': "/srv/models",
    '"8000:8000"': '"8003:8000"',
}
RECIPES = {
    "llm": Recipe("vllm.yml", {"vllm": 2}),
    "large": Recipe("vllm_two_gpus.yml", {"vllm": 1}, (), {'"8000:8000"': '"8001:8000"'}),
    "chat": Recipe("ollama.yml", {"ollama": 1, "webui": 1}, ("pull",)),
    "hub": Recipe("jupyterhub.yml", {"hub": 1}, (), HUB_ON_NFS),
    "nightly": Recipe("nightly_cron.yml", {"scheduler": 1}, ("train",)),
    "shared": Recipe("models_nfs.yml", {"vllm": 2}, (), MODELS_ON_NFS),
    "registry": Recipe("registry.yml", {"registry": 1}),
}


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def fleet(release: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Fleet]:
    work = tmp_path_factory.mktemp("workloads")
    (work / "fleet.yml").write_text(FLEET.format(release))
    yield from at_hand(f"e2e-workloads-{release}", work / "fleet.yml", pytestconfig.getoption("--fleet"), work)


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    """Provision, and give each node the image under all names, and what is on NFS elsewhere."""
    made = fleet.inventory({"n2": {"gpu_node_advertise": ADVERTISED}}, swarm_managers=["n1"], gpu_nodes=NODES)
    with ThreadPoolExecutor() as pool:
        run = pool.submit(fleet.playbook, made)
        archive = image_of(fleet["n1"])
        list(pool.map(lambda name: prepare(fleet[name]), NODES))
        assert run.result().rc == 0, run.result().output
        list(pool.map(lambda name: load(fleet[name], archive), NODES))  # after the restart of dockerd
    return made


def image_of(node: Node) -> bytes:
    """Make the file system of the image from a node's own Python and tools."""
    for name in ("workload.py", "build.sh"):
        node.write(f"/root/workload/{name}", (HERE / "workload" / name).read_bytes())
    return node.start("sh", "/root/workload/build.sh", "/root/workload/workload.py", *PROGRAMS).stdout


def load(node: Node, archive: bytes) -> None:
    """Import the image once, and make the other images and names from it."""
    node.start("docker", "import", *changes(PLAIN), "-", PLAIN, text=archive)
    for image in (CUDA, CRON):
        container = node.docker("create", PLAIN)
        node.docker("commit", *changes(image), container, image)
        node.docker("rm", container)
    for image, names in IMAGES.items():
        for name in names:
            node.docker("tag", image, name)


def changes(image: str) -> list[str]:
    path = "ENV PATH=/usr/local/bin:/usr/bin:/bin"
    return [word for change in (path, *CHANGES[image]) for word in ("--change", change)]


def prepare(node: Node) -> None:
    node.run("mkdir", "-p", *SHARED)
    node.write("/srv/models/Qwen/Qwen3-0.6B/config.json", b"{}")
    for film in FILMS:
        node.write(f"/srv/media/in/{film}.mkv", b"a film")


def file_of(folder: Path, recipe: Recipe, more: dict[str, str] | None = None) -> Path:
    text = (CHECKOUT / "docs/examples/stacks" / recipe.file).read_text()
    for former, new in {**recipe.replaced, **(more or {})}.items():
        assert former in text, f"{recipe.file} has no {former}"
        text = text.replace(former, new)
    for former, new in PACE.items():
        text = text.replace(former, new)
    for name, content in BESIDE.items():
        (folder / name).write_text(content)
    path = folder / recipe.file
    path.write_text(text)
    return path


def deploy(fleet: Fleet, inventory: Path, compose: Path, stack: str, *arguments: str) -> Run:
    # The lab has no registry, and the nodes have the images.
    words = ("-e", f"compose={compose}", "-e", f"stack={stack}", "-e", "gpu_stack_query_registries=false", *arguments)
    return fleet.playbook(inventory, *words, playbook="fleet.gpu_swarm.deploy", env=ENVIRONMENT)


@pytest.fixture(scope="module")
def jobs(fleet: Fleet, inventory: Path) -> dict[str, Run]:
    """Submit the jobs of docs/examples/jobs, and wait for their end."""
    names = ("ffmpeg", "nightly", "download_model")

    def submitted(name: str) -> Run:
        return fleet.playbook(inventory, "-e", f"job={CHECKOUT}/docs/examples/jobs/{name}.yml", "-e", f"wait_timeout={WORK_S}", playbook=JOB)

    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(submitted, names), strict=True))


@pytest.fixture(scope="module")
def deployed(fleet: Fleet, inventory: Path, release: str, jobs: dict[str, Run], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Deploy all recipes at the same time. With Docker 20.10, a new network would stop tasks with GPUs, so each test deploys its own recipe."""
    if release == OLD:
        return {}
    folder = tmp_path_factory.mktemp("all")

    def started(stack: str) -> Run:
        return deploy(fleet, inventory, file_of(folder, RECIPES[stack]), stack, "-e", "gpu_stack_wait_timeout=0")

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(RECIPES, pool.map(started, RECIPES), strict=True))


@pytest.fixture
def stack(fleet: Fleet, inventory: Path, deployed: dict[str, Run], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the name of a stack that is deployed."""
    name = str(request.param)
    run = deployed.get(name) or deploy(fleet, inventory, file_of(tmp_path, RECIPES[name]), name, "-e", "gpu_stack_wait_timeout=0")
    assert run.rc in (0, 75), run.output
    yield name
    if not deployed:
        if name == "hub":  # it would start the notebooks again
            fleet["n1"].docker("service", "rm", "hub_hub")
        for notebook in fleet["n1"].docker("service", "ls", "--quiet", "--filter", "name=jupyter-").split():
            fleet["n1"].docker("service", "rm", notebook)
        run = deploy(fleet, inventory, tmp_path / RECIPES[name].file, name, "-e", "state=absent")
        assert run.rc == 0, run.output


# -- what runs -----------------------------------------------------------------------------------------------------------


def running(fleet: Fleet, service: str, number: int = 1) -> list[tuple[Node, str]]:
    """Return the node and the container of each task, once this number of them runs and is healthy."""

    def found() -> list[tuple[Node, str]]:
        states = fleet["n1"].docker("service", "ps", "--format", "{{.CurrentState}}", "--filter", "desired-state=running", service).splitlines()
        there = [(fleet[name], container) for name in NODES for container in containers(fleet[name], service)]
        return there if len(there) == number == sum(state.startswith("Running") for state in states) else []

    return wait_until(f"{number} tasks of {service}", found, WORK_S, lambda: told(fleet, service))  # type: ignore[no-any-return]


def completed(fleet: Fleet, service: str) -> None:
    """Wait until the task of a service has completed."""

    def is_complete() -> bool:
        return fleet["n1"].docker("service", "ps", "--format", "{{.CurrentState}}", service).startswith("Complete")

    wait_until(f"the end of {service}", is_complete, WORK_S, lambda: told(fleet, service))


def told(fleet: Fleet, service: str) -> str:
    """Return what swarm and the tasks say about a service."""
    commands = (["service", "ps", "--no-trunc", service], ["service", "logs", "--raw", service])
    done = [fleet["n1"].start("timeout", "20", "docker", *command, check=False) for command in commands]
    return "\n".join(f"{one.stdout.decode()}{one.stderr.decode()}" for one in done)


def log(node: Node, container: str) -> str:
    return node.run("sh", "-c", f"docker logs {container} 2>&1")


def visible(found: list[tuple[Node, str]]) -> list[int]:
    """Return how many GPUs each task sees. A task without a GPU has no nvidia-smi."""
    return [len(cards(node, container)) if node.start("docker", "exec", container, "nvidia-smi", "-L", check=False).returncode == 0 else 0
            for node, container in found]  # fmt: skip


@pytest.mark.parametrize("stack", RECIPES, indirect=True)
def test_a_recipe_runs_and_its_image_finds_what_it_needs(fleet: Fleet, stack: str) -> None:
    recipe = RECIPES[stack]
    for service, number in recipe.runs.items():
        for node, container in running(fleet, f"{stack}_{service}", number):
            assert has_everything(node, container)
    for service in recipe.ends:
        completed(fleet, f"{stack}_{service}")
    if stack == "hub":
        check_notebooks(fleet)


def has_everything(node: Node, container: str) -> bool:
    return "lab: has everything" in log(node, container)


def check_notebooks(fleet: Fleet) -> None:
    """Five people have a notebook each, with a quarter of a card of their own."""
    slots = []
    for person in PEOPLE:
        ((node, container),) = running(fleet, f"jupyter-{person}")
        # A notebook has no healthcheck, so its task runs before its program has checked anything.
        wait_until(f"the notebook of {person}", partial(has_everything, node, container), shown=partial(log, node, container))
        assert visible([(node, container)]) == [1]
        slots.append(variables(node, container)["GPU_SWARM_SLOTS"])
        assert node.read(f"/srv/homes/{person}/{person}") == b"mine"
    assert len(set(slots)) == len(PEOPLE)
    owners = fleet["n1"].docker_json("service", "inspect", "--format", "{{json .Spec.Labels}}", "jupyter-ada")
    assert owners["gpu-swarm.owner"] == "ada"


def test_the_jobs_of_the_recipes_end_with_their_results(fleet: Fleet, jobs: dict[str, Run]) -> None:
    """Films are encoded with NVENC, a training leaves a checkpoint, and a model is downloaded."""
    for run in jobs.values():
        assert run.rc == 0, run.output
    written = {
        path: [node.read(path) for node in (fleet[name] for name in NODES)]
        for path in (*(f"/srv/media/out/{film}.mkv" for film in FILMS), "/srv/checkpoints/last.pt", "/srv/models/Qwen/Qwen3-0.6B/config.json")
    }
    assert {path: sum(content is not None for content in contents) >= 1 for path, contents in written.items()} == dict.fromkeys(written, True)
    assert fleet["n1"].read("/srv/media/out/alien.mkv") == b"encoded"  # only n1 has the card of the constraint


@pytest.mark.parametrize("stack", ["llm"], indirect=True)
def test_an_update_loses_no_request(fleet: Fleet, inventory: Path, stack: str, tmp_path: Path) -> None:
    """Two clients open a new connection for each request while both replicas are replaced, one of them for requests that take two seconds.

    The clients ask for the addresses of the tasks, because the lab's kernel may have no IPVS. Swarm removes a task from this answer and from the load
    balancer in one step, two seconds before it sends SIGTERM.
    """
    manager = fleet["n1"]
    former = {container for _node, container in running(fleet, "llm_vllm", 2)}
    for name, path in (("fast", "/v1/models"), ("slow", "/slow")):
        own = ("--detach", "--no-resolve-image", "--name", name, "--network", "llm_default", "--constraint", "node.hostname==n1")
        manager.docker("service", "create", *own, "--entrypoint", "client", PLAIN, "vllm", "8000", path)
    clients = {name: running(fleet, name)[0] for name in ("fast", "slow")}

    def counted(name: str) -> dict[str, Any]:
        lines = log(*clients[name]).splitlines()
        return json.loads(lines[-1]) if lines else {"answers": {}, "errors": []}  # type: ignore[no-any-return]

    def revisions() -> list[str]:
        return sorted(text.split()[-1] for text in counted("fast")["answers"])

    wait_until("answers of both replicas", lambda: revisions() == ["first", "first"], WORK_S, lambda: counted("fast"))
    secrets = "    secrets: [vllm_api_key]\n"
    changed = file_of(tmp_path, RECIPES["llm"], {secrets: f"    environment: {{ REVISION: second }}\n{secrets}"})
    run = deploy(fleet, inventory, changed, "llm", "-e", f"gpu_stack_wait_timeout={WORK_S}")
    assert run.rc == 0, run.output
    wait_until("answers of the new replicas", lambda: revisions() == ["first"] * 2 + ["second"] * 2, WORK_S, lambda: counted("fast"))
    for name, (node, container) in clients.items():
        node.docker("stop", "--time", "30", container)
        found = counted(name)
        assert found["errors"] == [], found
        assert sum(found["answers"].values()) > 0
        manager.docker("service", "rm", name)
    there = [(fleet[name], container) for name in NODES for container in fleet[name].docker("ps", "--all", "--quiet", "--no-trunc").split()]
    drained = [log(node, container) for node, container in there if container in former]
    assert len(drained) == 2
    assert all(text.endswith("lab: drained") for text in drained), drained


SERVERS = [("large", "vllm"), ("chat", "ollama"), ("chat", "webui"), ("hub", "hub"), ("registry", "registry")]


@pytest.mark.parametrize(("stack", "service"), SERVERS, indirect=["stack"])
def test_a_server_ends_after_sigterm(fleet: Fleet, stack: str, service: str) -> None:
    ((node, container),) = running(fleet, f"{stack}_{service}")
    node.docker("stop", "--time", "30", container)
    assert node.docker("inspect", "--format", "{{.State.ExitCode}}", container) == "0"
    assert log(node, container).endswith("lab: drained")
