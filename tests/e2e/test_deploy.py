# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deploy: an ordinary Compose file runs on the swarm.

Its tasks see as many GPUs as the file requests. x-gpu selects the nodes and the images. A stack that cannot run is not deployed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.lab.fleet import MACHINES

from .conftest import Loud
from .fleet import Fleet, Run, wait_until
from .swarm import classes_of, named

# The manager keeps the files of a stack here during the deployment.
CARRIED = "/run/gpu-swarm-stacks"
PLAYBOOK = "fleet.gpu_swarm.deploy"
STACK = "e2e"
COMPOSE = """
name: another
services:
  train:
    image: lab/task
    container_name: train
    restart: unless-stopped
    env_file: own.env
    command: ["sh", "-c", "echo $$SAYS $$NVIDIA_DRIVER_CAPABILITIES; echo $$CHAT $$NODE; cat /note /key; nvidia-smi -L; exec sleep 100000"]
    configs: [{source: note, target: /note}]
    secrets: [{source: key, target: /key}]
    depends_on: {web: {condition: service_started}}
    stop_grace_period: 1s
    tmpfs: ["/scratch:size=16m"]
    deploy:
      replicas: ${REPLICAS}
      resources:
        limits: {pids: 1000}
        reservations:
          devices: [{driver: nvidia, count: 1, capabilities: [gpu, utility]}]
  web:
    image: lab/task
    command: ["sleep", "100000"]
    stop_grace_period: 1s
    restart: "no"
    network_mode: host
    shm_size: 32m
    mem_limit: 64m
    pids_limit: 100
configs:
  note: {file: note.txt}
secrets:
  key: {environment: E2E_KEY}
"""

# Text that is not a template field of swarm reaches the container unchanged.
OWN = """
SAYS='it costs $5'
API_KEY='k3y-{{Zq+'
CHAT='{{ m.role }}-{{Zq+'
NODE='{{.Node.Hostname}}'
"""


def leftover_files(fleet: Fleet) -> list[str]:
    return fleet["m1"].run("find", CARRIED, "-type", "f").splitlines()


def deployment_killed(fleet: Fleet) -> bool:
    """Kill the process on the manager that would remove the files, while 'docker stack deploy' reads them."""
    kill = 'until pid=$(pgrep -f "[s]tack deploy --compose-file"); do sleep 0.01; done; kill -KILL $(ps -o ppid= -p $pid) $pid'
    return fleet["m1"].start("timeout", "60", "sh", "-c", kill, check=False).returncode == 0


def versions(fleet: Fleet, kind: str) -> list[str]:
    return fleet["m1"].docker(kind, "ls", "--format", "{{.Name}}", "--filter", "label=gpu-swarm.version-of").split()


# g1 has RTX 4090, a driver for CUDA 12.9 and AVX-512. g2 has T4, a driver for 12.2 and an older CPU.
BY_NODE = """
services:
  picked:
    image: lab/task
    command: [sleep, "100000"]
    stop_grace_period: 1s
    x-gpu: {model: "*4090*", cuda: ">=12.4", cpu: skylake_avx512}
  train:
    image: lab/task
    command: [sleep, "100000"]
    stop_grace_period: 1s
    x-gpu:
      images:
        - {image: lab/task, name: old, cuda: "12.2"}
        - {image: lab/cuda, name: new, cuda: "12.8", compute_capability: ">=8.0", cpu: x86-64-v4}
        - {image: lab/cuda, name: avx512, cuda: "12.2", cpu: x86-64-v4}
    deploy: {replicas: 3, resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}
  each:
    image: lab/task
    command: [sleep, "100000"]
    stop_grace_period: 1s
    x-gpu: {images: [{image: lab/task, name: old, cuda: "12.2"}, {image: lab/cuda, name: new, cuda: "12.8"}]}
    deploy: {mode: global}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    files = {"compose.yml": COMPOSE, ".env": "REPLICAS=2\nE2E_KEY=first-of-all\n", "own.env": OWN}
    files["note.txt"] = "carried\n"
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "by_node.yml").write_text(BY_NODE)
    (folder / "large.yml").write_text(COMPOSE.replace("count: 1", "count: 64"))
    return folder


@pytest.fixture(scope="module", autouse=True)
def stack(fleet: Fleet, first: Loud) -> Iterator[None]:
    yield
    fleet["m1"].start("docker", "stack", "rm", STACK)
    wait_for_gpus(fleet)


def wait_for_gpus(fleet: Fleet) -> None:
    """Wait until removed tasks have ended. Until then, they hold their GPUs, and the next test would find less room."""
    states = partial(fleet["m1"].docker, "node", "ps", "--format", "{{.CurrentState}}", "g1", "g2")
    wait_until("removed tasks to end", lambda: "Running" not in states(), shown=states)


def test_a_compose_file_runs(fleet: Fleet, inventory: Path, project: Path) -> None:
    arguments = ["-e", f"compose={project / 'compose.yml'}", "-e", f"stack={STACK}", "--diff"]
    checked = fleet.playbook(inventory, "--check", *arguments, playbook=PLAYBOOK)
    assert checked.rc == 0, checked.output
    assert "services.train.container_name has no effect on Swarm" in checked.output
    assert "kind: NVIDIA-GPU" in checked.output
    assert "k3y" not in checked.output
    assert not fleet["m1"].docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}").strip()

    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert f"{STACK}_train: 2 of 2 running" in run.output
    assert "k3y" not in run.output

    def log() -> str:
        return fleet["m1"].docker("service", "logs", "--raw", f"{STACK}_train")

    wait_until("both tasks to write", lambda: log().count("GPU-") == 2)
    assert log().count("it costs $5 compute,utility") == log().count("carried") == log().count("first-of-all") == 2
    assert all(log().count(f"{{{{ m.role }}}}-{{{{Zq+ {fleet[name].run('hostname').strip()}") == 1 for name in ("g1", "g2"))
    assert leftover_files(fleet) == []
    template = fleet["m1"].docker_json("service", "inspect", f"{STACK}_train")[0]["Spec"]["TaskTemplate"]
    assert (template["ContainerSpec"]["Mounts"][0]["TmpfsOptions"], template["Resources"]["Limits"]) == ({"SizeBytes": 2**24}, {"Pids": 1000})
    check_translated(fleet)
    again = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert (again.rc, again.changed()["m1"]) == (0, 0), again.output


def check_translated(fleet: Fleet) -> None:
    """Check in the containers that keys for a single machine were translated for the swarm."""
    template = fleet["m1"].docker_json("service", "inspect", f"{STACK}_web")[0]["Spec"]["TaskTemplate"]
    assert (template["RestartPolicy"]["Condition"], template["Resources"]["Limits"]) == ("none", {"MemoryBytes": 2**26, "Pids": 100})
    tasks = {name: fleet[name].docker("ps", "--quiet", "--filter", f"name={STACK}_web").split() for name in ("m1", "g1", "g2")}
    (where, task), *others = [(name, one) for name, ids in tasks.items() for one in ids]
    assert others == []
    assert fleet[where].docker("inspect", "--format", "{{.HostConfig.NetworkMode}}", task).strip() == "host"
    assert "size=32768k" in fleet[where].docker("exec", task, "grep", " /dev/shm ", "/proc/mounts")


@pytest.mark.rare
def test_files_and_variables_of_a_stack_may_change(fleet: Fleet, inventory: Path, project: Path) -> None:
    """Docker cannot change configs and secrets, so each new content gets a new name. The former config stays for 'docker service rollback'."""
    arguments = ["-e", f"compose={project / 'compose.yml'}", "-e", f"stack={STACK}"]
    seen = []
    for content in ("second", "third"):
        (project / "note.txt").write_text(f"{content}\n")
        (project / ".env").write_text(f"REPLICAS=1\nE2E_KEY={content}-key\n")
        run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
        assert run.rc == 0, run.output
        seen.append({kind: versions(fleet, kind) for kind in ("config", "secret")})
        assert [len(names) for names in seen[-1].values()] == [2, 2]
    assert all(set(seen[0][kind]) != set(seen[1][kind]) for kind in seen[0])
    tasks = {name: fleet[name].docker("ps", "--quiet", "--filter", f"name={STACK}_train").split() for name in ("g1", "g2")}
    (where, task), *others = [(name, one) for name, ids in tasks.items() for one in ids]
    assert (fleet[where].docker("exec", task, "cat", "/note", "/key").split(), others) == (["third", "third-key"], [])


@pytest.mark.rare
def test_leftovers_of_a_killed_run_are_removed(fleet: Fleet, inventory: Path, project: Path) -> None:
    (project / ".env").write_text("REPLICAS=1\nE2E_KEY=of-a-killed-run\n")
    arguments = ["-e", f"compose={project / 'compose.yml'}", "-e", f"stack={STACK}"]
    fleet.killed_when("docker stack deploy to run", lambda: deployment_killed(fleet), inventory, *arguments, playbook=PLAYBOOK)
    assert any(path.endswith("/secrets/key") for path in leftover_files(fleet))
    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert leftover_files(fleet) == []


def test_a_stack_that_no_node_can_run_is_not_deployed(fleet: Fleet, inventory: Path, project: Path) -> None:
    arguments = ["-e", f"compose={project / 'large.yml'}", "-e", f"stack={STACK}x"]
    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 2, run.output
    assert f"{STACK}x_train needs 64 NVIDIA-GPU on one node" in run.output
    assert not fleet["m1"].docker("service", "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}x").strip()


EXTERNAL = """
services: {a: {image: lab/task, configs: [settings], secrets: [key], networks: [own, shared, local]}}
configs: {settings: {external: true, name: e2e-absent-config}}
secrets: {key: {external: true, name: e2e-absent-secret}}
networks: {own: {}, shared: {external: true, name: e2e-absent}, local: {external: true, name: e2e-of-one-machine}}
"""


def test_missing_external_parts_are_one_error(fleet: Fleet, inventory: Path, project: Path) -> None:
    """For a network of only the manager, Docker reports a wrong scope. It reports the secret only after it has created the stack's network."""
    (project / "external.yml").write_text(EXTERNAL)
    manager, of_stack = fleet["m1"], ("--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}there")
    manager.docker("network", "create", "e2e-of-one-machine")
    try:
        run = fleet.playbook(inventory, "-e", f"compose={project / 'external.yml'}", "-e", f"stack={STACK}there", playbook=PLAYBOOK)
    finally:
        manager.docker("network", "rm", "e2e-of-one-machine")
    assert run.rc == 2, run.output
    missing = "no config e2e-absent-config, no network e2e-absent, no network e2e-of-one-machine, no secret e2e-absent-secret"
    assert f"The swarm has {missing}, but the Compose file declares it as external." in run.output
    assert [manager.docker(kind, "ls", *of_stack).split() for kind in ("network", "service", "config")] == [[], [], []]


ROLLED_BACK = """
services:
  web:
    image: lab/task
    command: [sleep, "100000"]
    stop_grace_period: 1s
    deploy: {update_config: {failure_action: rollback, monitor: 2s}, rollback_config: {monitor: 1s}}
"""


@pytest.mark.rare
def test_an_update_that_swarm_rolls_back_is_a_failure_with_its_cause(fleet: Fleet, inventory: Path, project: Path) -> None:
    manager, path = fleet["m1"], project / "back.yml"
    arguments = ["-e", f"compose={path}", "-e", f"stack={STACK}back"]
    by_hand = ("docker", "stack", "deploy", "--resolve-image=never", "--compose-file", "-", f"{STACK}back")

    def update() -> str:
        return str((manager.docker_json("service", "inspect", f"{STACK}back_web")[0].get("UpdateStatus") or {}).get("State"))

    manager.start(*by_hand, text=ROLLED_BACK.encode())
    try:
        wait_until("what it runs as before", lambda: " Running " in manager.docker("stack", "ps", f"{STACK}back"))
        path.write_text(ROLLED_BACK.replace('[sleep, "100000"]', '[sh, -c, "exit 7"]'))
        run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
        # The next deployment starts from the specification after the rollback.
        rolled_back = update()
        manager.start(*by_hand, text=ROLLED_BACK.encode())
        after = update()
    finally:
        manager.start("docker", "stack", "rm", f"{STACK}back")
    assert (run.rc, rolled_back, after.startswith("rollback")) == (2, "rollback_completed", False), (run.output, rolled_back, after)
    assert f"{STACK}back_web: 1 of 1 running; swarm rolled its update back, and it runs as before: " in run.output, run.output
    assert "1 failed, the last with: task: non-zero exit (7)" in run.output, run.output


WITH_GPU = """
services:
  web:
    image: lab/task
    command: [sleep, "100000"]
    stop_grace_period: 1s
    gpus: [{count: 1}]
    healthcheck: {test: [CMD, "true"], interval: 1s, timeout: 5s, retries: 1}
    deploy: {update_config: {failure_action: rollback, monitor: 5s}, rollback_config: {monitor: 1s}}
"""


@pytest.mark.rare
@pytest.mark.parametrize(
    ("good", "bad", "cause"),
    [
        ('[CMD, "true"]', '[CMD, "false"]', "unhealthy container"),
        # Nothing listens on port 9 of a node, so the pull fails at once.
        ("image: lab/task", "image: 127.0.0.1:9/lab/absent", "No such image: 127.0.0.1:9/lab/absent"),
    ],
)
def test_a_rolled_back_task_has_its_gpu_again(fleet: Fleet, inventory: Path, project: Path, good: str, bad: str, cause: str) -> None:
    manager, path, name = fleet["m1"], project / "gpu_back.yml", f"{STACK}gpuback"
    arguments = ["-e", f"compose={path}", "-e", f"stack={name}"]

    def running() -> list[dict[str, Any]]:
        tasks = manager.inspect_tasks(manager.docker("service", "ps", "--quiet", f"{name}_web").split())
        return [task for task in tasks if task["Status"]["State"] == "running"]

    try:
        path.write_text(WITH_GPU)
        first = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
        assert first.rc == 0, first.output
        (before,) = running()
        path.write_text(WITH_GPU.replace(good, bad))
        run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
        (after,) = running()
    finally:
        manager.start("docker", "stack", "rm", name)
    assert f"{name}_web: 1 replica, stop-first: no replica runs while a model loads" in run.output, run.output
    assert run.rc == 2, run.output
    assert f"{name}_web: 1 of 1 running; swarm rolled its update back, and it runs as before: " in run.output, run.output
    assert cause in run.output, run.output
    assert after["ID"] != before["ID"]
    assert after["Spec"]["ContainerSpec"] == before["Spec"]["ContainerSpec"]
    assert [len(values) for values in named(after["GenericResources"]).values()] == [1], after


@pytest.mark.rare
def test_a_command_that_ends_is_no_service(fleet: Fleet, inventory: Path, project: Path) -> None:
    (project / "ends.yml").write_text('services: {brief: {image: lab/task, command: [sleep, "3"]}}')
    arguments = ["-e", f"compose={project / 'ends.yml'}", "-e", f"stack={STACK}ends"]
    try:
        run = fleet.playbook(inventory, *arguments, "-e", "gpu_stack_wait_timeout=15", playbook=PLAYBOOK)
    finally:
        fleet["m1"].start("docker", "stack", "rm", f"{STACK}ends")
    assert run.rc == 2, run.output
    assert "failed, the last with: ended with exit code 0, and swarm starts it again: a command that ends is a job" in run.failures("m1")[-1]


def test_a_stack_is_removed(fleet: Fleet, inventory: Path) -> None:
    run = fleet.playbook(inventory, "-e", f"stack={STACK}", "-e", "state=absent", playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert "None of its tasks has a GPU any more." in run.output, run.output
    running = ("docker", "ps", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}")
    assert {name: fleet[name].run(*running) for name in ("g1", "g2")} == {"g1": "", "g2": ""}
    for kind in ("service", "config", "secret"):
        assert not fleet["m1"].docker(kind, "ls", "--quiet", "--filter", f"label=com.docker.stack.namespace={STACK}").strip()


STARTS_FIRST = """
services:
  web:
    image: lab/task
    command: [sleep, "100000"]
    stop_signal: SIGKILL
    gpus: [{count: 1}]
    environment: {VERSION: "1"}
    deploy: {replicas: 2, placement: {constraints: [node.hostname==g1]}, update_config: {order: start-first, monitor: 1s}}
"""


def test_an_update_that_starts_first_needs_a_free_gpu(fleet: Fleet, inventory: Path, project: Path) -> None:
    """g1 has two GPUs, and the stack of the other tests is gone. A corrected file can be deployed while a task of the update still waits."""
    path, name = project / "first.yml", f"{STACK}first"

    def deployed(text: str, *more: str) -> Run:
        path.write_text(text)
        return fleet.playbook(inventory, "-e", f"compose={path}", "-e", f"stack={name}", *more, playbook=PLAYBOOK)

    newer = STARTS_FIRST.replace('"1"', '"2"')
    wait_for_gpus(fleet)
    try:
        first = deployed(STARTS_FIRST)
        assert first.rc == 0, first.output
        again, refused = deployed(STARTS_FIRST), deployed(newer)
        hangs = deployed(newer, "-e", "gpu_stack_allow_pending=true", "-e", "gpu_stack_wait_timeout=5")
        corrected = deployed(newer.replace("start-first", "stop-first").replace('"2"', '"3"'))
    finally:
        fleet["m1"].start("docker", "stack", "rm", name)
        wait_for_gpus(fleet)
    assert (again.rc, again.changed()["m1"], f"{name}_web: its tasks stay where they are" in again.output) == (0, 0, True), again.output
    assert refused.rc == 2, refused.output
    assert "its 2 tasks stop only when new ones run (update_config: order: start-first); there is room for 0 more" in refused.output
    assert hangs.rc == 75, hangs.output
    assert f"{name}_web: 2 running in the former version, 0 of 2 in the new version; needs 1 NVIDIA-GPU on one node" in hangs.output
    assert corrected.rc == 0, corrected.output
    assert f"{name}_web: 2 replicas, one at a time, stop-first: one replica less while a model loads" in corrected.output


@pytest.mark.rare
def test_x_gpu_chooses_nodes_and_images_and_provision_keeps_their_labels(fleet: Fleet, inventory: Path, project: Path) -> None:
    arguments = ["-e", f"compose={project / 'by_node.yml'}", "-e", f"stack={STACK}"]
    run = fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)
    assert run.rc == 0, run.output
    assert "train-old: lab/task on g2, 2 of the replicas: node.labels.gpu.class.image-cuda12-2-" in run.output
    assert "train-avx512 is not created: lab/cuda is not the best image for any node" in run.output
    services = [f"{STACK}_{name}" for name in ("picked", "train-new", "train-old")]
    assert {name: each(fleet, name) for name in ("old", "new")} == {"old": ["g2 lab/task"], "new": ["g1 lab/cuda"]}
    tasks = fleet["m1"].docker("service", "ps", "--filter", "desired-state=running", "--format", "{{.Name}} {{.Node}} {{.Image}}", *services)
    found = sorted(tuple(line.replace(":latest", "").split()) for line in tasks.splitlines())
    old = [(f"{STACK}_train-old.{number}", "g2", "lab/task") for number in (1, 2)]
    assert found == [(f"{STACK}_picked.1", "g1", "lab/task"), (f"{STACK}_train-new.1", "g1", "lab/cuda"), *old]

    # Remove the labels, so that g2 is like a new node.
    before = classes_of(fleet, "g2")
    assert len(before) == 2
    removed = [word for label in before for word in ("--label-rm", label)]
    fleet["m1"].docker("node", "update", *removed, fleet["g2"].swarm()["NodeID"])
    wait_until("the task of each node to end", lambda: not each(fleet, "old"))
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    assert classes_of(fleet, "g2") == before
    wait_until("the task of each node", lambda: each(fleet, "old") == ["g2 lab/task"], shown=lambda: each(fleet, "old"))
    # The labels are removed with the last service that needs them.
    assert fleet.playbook(inventory, "-e", f"stack={STACK}", "-e", "state=absent", playbook=PLAYBOOK).rc == 0
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    assert classes_of(fleet, "g1") == classes_of(fleet, "g2") == []


@pytest.mark.rare
def test_a_change_of_class_evicts_no_task_unless_allowed(fleet: Fleet, inventory: Path, project: Path, tmp_path: Path) -> None:
    """With another driver, a different image is best for a node. Neither deploy nor a run without consent moves the node's task."""
    arguments = ["-e", f"compose={project / 'by_node.yml'}", "-e", f"stack={STACK}"]
    assert fleet.playbook(inventory, *arguments, playbook=PLAYBOOK).rc == 0
    before = fleet["m1"].docker("service", "ps", "--quiet", "--filter", "desired-state=running", f"{STACK}_each-old", f"{STACK}_train-old")
    labels = classes_of(fleet, "g2")
    newer = tmp_path / "newer.conf"
    newer.write_text((MACHINES / "t4x4.conf").read_text().replace("535.261.03", "575.64.05").replace("12.2", "12.9"))
    try:
        fleet.swap_gpus("g2", str(newer))
        run = fleet.playbook(inventory, "-e", "provision_disrupt=never")
        assert (run.rc, f"task {STACK}_each-old" in run.row("g2")) == (75, True), run.output
        assert fleet.playbook(inventory, *arguments, playbook=PLAYBOOK).rc == 0
        now = fleet["m1"].docker("service", "ps", "--quiet", "--filter", "desired-state=running", f"{STACK}_each-old", f"{STACK}_train-old")
        assert (now, classes_of(fleet, "g2")) == (before, labels)

        run = fleet.playbook(inventory, "-e", "provision_disrupt=all")
        assert run.rc == 0, run.output
        wait_until("the other image", lambda: "g2 lab/cuda" in each(fleet, "new"), shown=lambda: each(fleet, "new"))
        assert each(fleet, "old") == []
    finally:
        fleet.swap_gpus("g2", "t4x4")
        assert fleet.playbook(inventory, "-e", f"stack={STACK}", "-e", "state=absent", playbook=PLAYBOOK).rc == 0
        assert fleet.playbook(inventory, "-e", "provision_disrupt=all").rc == 0


def each(fleet: Fleet, name: str) -> list[str]:
    """Return the nodes and images of the tasks of a service that has one task on each node."""
    shown = ("--filter", "desired-state=running", "--format", "{{.Node}} {{.Image}} {{.CurrentState}}")
    found = fleet["m1"].docker("service", "ps", *shown, f"{STACK}_each-{name}").splitlines()
    return sorted(line.partition(" Running")[0].removesuffix(":latest") for line in found if " Running" in line)
