# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tasks see of a node's GPUs at each level of isolation, on the oldest and the newest release of Docker.

The leak exists at the level `off`, and the guard closes the leak. On one node, containers are in a user namespace, and dockerd keeps its records in
the folder of this namespace. The Molecule scenario `isolation` covers Docker 26.1.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from .fleet import CONFIG_TOML, DAEMON_JSON, Fleet, Node, Run, lab, wait_until
from .tasks_db import COMMITS, read_under_writes, unreadable
from .watched import MACHINE, reported
from .watched import WITHIN_S as PAUSED_S
from .work import COUNT, cards, containers, variables

NAME = "e2e-isolation"
FLEET = """
nodes:
  m1: {groups: [swarm_managers]}
  i1: {gpus: t4x4, toolkit: 1.20.0, image: debian-testing}
  i2: {gpus: t4x4, toolkit: 1.20.0, image: debian12, daemon_json: '{"userns-remap": "default"}'}
"""
NODES = ["i1", "i2"]
ALL = 4
# molecule/isolation tests all four levels on Docker 20.10 and 26.1: at `off` each leak is open, at `audit` it is counted.
LEVELS = [*(pytest.param(level, marks=pytest.mark.rare) for level in ("off", "audit", "reserved")), "exclusive"]
VARIABLE = "DOCKER_RESOURCE_NVIDIA-GPU"
HOME = "/usr/local/libexec/gpu-swarm"
GUARD = f"{HOME}/nvidia-guard"
FOUND = "/run/gpu-swarm-guard/found.json"
ALLOCATIONS, PROCESSES = "/run/gpu-swarm/allocations.json", "/etc/gpu-lab/nvml.conf.processes"
DROP_IN = "/run/systemd/system/docker.service.d/flag.conf"
RESERVES = ("--generic-resource", "NVIDIA-GPU=1")
SLEEP = ("sleep", "9999")
SEEN_S = 60
SEES_ITS_OWN = "sees the GPUs allocated to it and no others"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Fleet]:
    work, given = tmp_path_factory.mktemp("isolation"), pytestconfig.getoption("--fleet")
    if given:
        yield Fleet.of(given, work)
        return
    (work / "fleet.yml").write_text(FLEET)
    lab("up", str(work / "fleet.yml"), "--name", NAME)
    yield Fleet.of(NAME, work)
    lab("down", NAME)


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    return fleet.inventory(swarm_managers=["m1"], gpu_nodes=NODES)


@pytest.fixture(scope="module", autouse=True)
def before(fleet: Fleet, inventory: Path) -> dict[str, tuple[dict[str, bytes | None], str]]:
    """Return each node's files and guard directories from before the provisioning, then provision the nodes."""
    found = {name: (fleet[name].files(), directories(fleet[name])) for name in NODES}
    provision_at_level(fleet, inventory, "off")
    return found


def provision_at_level(fleet: Fleet, inventory: Path, level: str, **more: Any) -> Run:
    run = fleet.playbook(inventory, "--extra-vars", json.dumps({"gpu_swarm_isolation": level, **more}))
    assert run.rc == 0, run.output
    return run


def directories(node: Node) -> str:
    return node.run("ls", "-d", HOME, "/usr/local/libexec", "/run/gpu-swarm-guard", check=False)


def await_removal(fleet: Fleet, *names: str) -> None:
    """Wait until the services and their containers are removed."""
    fleet["m1"].docker("service", "rm", *names)
    for node in (fleet[name] for name in NODES):
        wait_until(f"the containers of {names} to end", lambda node=node: not any(containers(node, name) for name in names))


def verify(fleet: Fleet, inventory: Path, level: str, **more: Any) -> Run:
    variables = {"gpu_swarm_isolation": level, "verify_image": "lab/cuda", **more}
    return fleet.playbook(inventory, "--extra-vars", json.dumps(variables), playbook="fleet.gpu_swarm.verify")


def rows(run: Run, name: str) -> list[str]:
    """Return verify's findings about a node, one line for each task."""
    table = run.output.partition("verdict")[2].partition("nodes: ")[0]
    return [re.sub("  +", "  ", line) for line in re.findall(rf"^{name} +(\S.*)$", table, re.MULTILINE)]


def create(fleet: Fleet, name: str, *options: str, image: str = "lab/task", command: tuple[str, ...] = SLEEP) -> None:
    default = () if "--mode" in options or "--replicas" in options else ("--mode", "global")
    on = ("--constraint", "node.role==worker", "--restart-condition", "none") if "--restart-condition" not in options else ()
    fleet["m1"].docker("service", "create", "--detach", "--no-resolve-image", "--name", name, *default, *on, *options, image, *command)


def tasks(fleet: Fleet, service: str) -> list[dict[str, str]]:
    shown = fleet["m1"].docker("service", "ps", "--no-trunc", "--format", "{{json .}}", service)
    return [json.loads(line) for line in shown.splitlines()]


def gpu_of(fleet: Fleet, service: str) -> str:
    """Return the GPU that swarm allocated to the only task of a service."""
    (task,) = fleet["m1"].docker_json("inspect", "--type", "task", tasks(fleet, service)[0]["ID"])
    return task["GenericResources"][0]["NamedResourceSpec"]["Value"]


def advertised(node: Node) -> list[str]:
    return [entry.partition("=")[2] for entry in json.loads(node.read(DAEMON_JSON) or b"{}")["node-generic-resources"]]


def availability(fleet: Fleet, node: Node) -> str:
    return str(fleet["m1"].docker_json("node", "inspect", node.swarm()["NodeID"])[0]["Spec"]["Availability"])


def node_of(fleet: Fleet, task: dict[str, str]) -> str:
    return next(name for name in NODES if task["Node"] in (name, fleet[name].run("hostname")))


def gpus_seen(fleet: Fleet, service: str) -> dict[str, int | str]:
    """Return for each node how many GPUs its task of a global service sees, or why it does not run."""
    return {name: int(text) if runs else text for name, (runs, text) in outputs(fleet, service, COUNT).items()}


def outputs(fleet: Fleet, service: str, command: str) -> dict[str, tuple[bool, str]]:
    """Return for each node whether its task of a global service runs, and the output of a command in it or the task's error."""

    def states() -> list[dict[str, str]]:
        found = tasks(fleet, service)
        done = [one for one in found if re.match("Running|Failed|Rejected|Complete", one["CurrentState"])]
        return found if len(found) == len(NODES) == len(done) else []

    found: dict[str, tuple[bool, str]] = {}
    for task in wait_until(f"the tasks of {service}", states, SEEN_S, lambda: tasks(fleet, service)):
        name = node_of(fleet, task)
        if task["CurrentState"].startswith("Running"):
            (container,) = containers(fleet[name], service)
            found[name] = True, fleet[name].docker("exec", container, "sh", "-c", command)
        else:
            found[name] = False, task["Error"]
    return found


def healthy(node: Node, service: str) -> bool:
    """Return whether the healthcheck of a service's only container has run on this node and has succeeded."""
    (container,) = containers(node, service)
    state = node.docker_json("inspect", "--format", "{{json .State.Health}}", container)
    return (state["Status"], state["Log"][-1]["ExitCode"]) == ("healthy", 0)


def refused(found: dict[str, int | str], words: str) -> bool:
    return all(isinstance(one, str) and words in one for one in found.values())


def audit_counts(node: Node) -> dict[str, dict[str, int]]:
    read = json.loads(node.read(FOUND) or b"{}")
    return {service: {name: one["count"] for name, one in names.items()} for service, names in read.items()}


def assert_verified(run: Run, level: str, closed: bool) -> None:
    """Check that verify reports for each node the same results that the tests below find on the node."""
    assert run.rc == 0, run.output
    expected = ["1 NVIDIA-GPU  1  passed: " + SEES_ITS_OWN]
    if closed:
        expected.append("–  0  passed: without a reservation, a task is refused")
        expected.append("1 NVIDIA-GPU  0  passed: with variables that request more than it reserved, a task is refused")
        assert "isolation proved: 2" in run.output
    assert {name: rows(run, name) for name in NODES} == dict.fromkeys(NODES, expected), run.output
    assert (f"isolation {level}" in run.output and "a task can see all GPUs of its node: i1, i2" in run.output) is not closed


@contextmanager
def with_flag(node: Node, flag: str) -> Iterator[None]:
    """Run dockerd of the node with one more flag."""
    started = node.run("sh", "-c", "tr '\\0' ' ' </proc/$(cat /run/docker.pid)/cmdline")
    node.write(DROP_IN, f"[Service]\nExecStart=\nExecStart=/usr/sbin/dockerd {started.partition(' ')[2]} {flag}\n".encode())
    try:
        node.run("systemctl", "daemon-reload")
        node.dockerd("restart")
        yield
    finally:
        node.run("sh", "-c", f"rm {DROP_IN} && systemctl daemon-reload")
        node.dockerd("restart")


@pytest.mark.rare
def test_a_guard_that_needs_a_restart_is_previewed_if_only_the_swarm_names_the_level(fleet: Fleet, inventory: Path) -> None:
    """A reload would reset the flag of dockerd (moby daemon/reload.go)."""
    with with_flag(fleet["i1"], "--max-concurrent-downloads=2"):
        run = fleet.playbook(inventory, "--check")
        assert (run.rc, "restarts dockerd" in run.output) == (0, False), run.output
        run = fleet.playbook(inventory, "--limit", "m1,i2", "--extra-vars", "gpu_swarm_isolation=reserved")
        assert run.rc == 0, run.output
        before = {name: fleet[name].started() for name in NODES}
        run = fleet.playbook(inventory, "--check")
        assert re.search("^i1 .*isolation off → reserved; restarts dockerd$", run.output, re.MULTILINE), run.output
        assert not re.search("^i2 .*restarts dockerd", run.output, re.MULTILINE), run.output
        run = fleet.playbook(inventory)
        assert (run.rc, level_on(fleet["i1"])) == (0, "reserved"), run.output
        assert {name: fleet[name].started() == before[name] for name in NODES} == {"i1": False, "i2": True}


@pytest.mark.rare
def test_allocations_are_checked_without_a_guard(fleet: Fleet, inventory: Path) -> None:
    """Uses cgroups of both releases of Docker.

    In NVML, a process of a task is on another task's card and on an unallocated card, and one process is outside containers.
    """
    provision_at_level(fleet, inventory, "off", gpu_node_idle_after=5)
    create(fleet, "train", *RESERVES)
    create(fleet, "leak", image="lab/cuda")
    assert [gpus_seen(fleet, service) for service in ("train", "leak")] == [dict.fromkeys(NODES, number) for number in (1, ALL)]
    tasks_of = {service: {node_of(fleet, one): one["ID"] for one in tasks(fleet, service)} for service in ("train", "leak")}
    wrong = {}
    for name in NODES:
        node, (container,) = fleet[name], containers(fleet[name], "leak")
        task = fleet["m1"].docker_json("inspect", "--type", "task", tasks_of["train"][name])[0]
        held = task["GenericResources"][0]["NamedResourceSpec"]["Value"]
        other, free = [card for card in node.gpus() if card != held][:2]
        leak, host = node.docker("inspect", "--format", "{{.State.Pid}}", container), node.run("pgrep", "--oldest", "systemd-journal")
        node.write(PROCESSES, f"{held} compute {leak}\n{other} mps {leak}\n{free} graphics {host}\n".encode())
        train, leaks = tasks_of["train"][name], tasks_of["leak"][name]
        first = [["used-by-another", held, leaks, train, "sleep"], ["not-held", other, leaks, "", "sleep"]]
        wrong[name] = [*first, ["idle", held, train, "", ""], ["outside", free, "", "", "root (systemd-journal)"]]
        node.run("systemctl", "restart", "gpu-swarm-health.service")  # the watcher's first two reads find all these processes
    for name in NODES:
        found = wait_until("the findings", lambda name=name: found_on(fleet[name]), 60, lambda name=name: fleet[name].read(ALLOCATIONS))
        assert [one[:5] for one in found] == wrong[name]
    assert set(provision_at_level(fleet, inventory, "off", gpu_node_idle_after=5).changed().values()) == {0}
    shown = status(fleet, inventory)
    assert sorted((one["card"], one["finding"]) for one in shown) == sorted((one[1], one[0]) for name in NODES for one in wrong[name])
    assert {"root (systemd-journal) uses it, but it is allocated to no task"} < {one["details"].partition(" (since")[0] for one in shown}
    await_removal(fleet, "train", "leak")
    assert {one["finding"] for one in status(fleet, inventory)} == {"outside"}  # although no run has read the nodes again
    for name in NODES:
        fleet[name].run("rm", PROCESSES)


def found_on(node: Node) -> list[list[Any]]:
    return json.loads(node.read(ALLOCATIONS) or b"{}").get("found", [])


def status(fleet: Fleet, inventory: Path) -> list[dict[str, Any]]:
    run = fleet.playbook(inventory, "--extra-vars", "output=json", playbook="fleet.gpu_swarm.status")
    assert run.rc == 0, run.output
    return json.loads(next(line for line in run.output.splitlines() if line.startswith("{")))["allocation_findings"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_task_sees_its_gpus_at_each_level(fleet: Fleet, inventory: Path, level: str) -> None:
    started = {name: fleet[name].started() for name in NODES}
    provision_at_level(fleet, inventory, level)
    assert {name: fleet[name].started() for name in NODES} == started  # a reload is sufficient
    closed = level in ("reserved", "exclusive")
    assert_verified(verify(fleet, inventory, level), level, closed)
    uuid = {name: fleet[name].gpus()[-1] for name in NODES}
    create(fleet, "reserves", *RESERVES, "--health-cmd", f'[ "$({COUNT})" = 1 ]', "--health-interval", "1s", image="lab/cuda")
    create(fleet, "baked", image="lab/cuda")
    create(fleet, "forges", "--env", f"{VARIABLE}=all")
    create(fleet, "wants", "--env", "NVIDIA_VISIBLE_DEVICES=all")
    create(fleet, "names", "--env", f"{VARIABLE}={uuid['i1']}", "--env", f"NVIDIA_VISIBLE_DEVICES={uuid['i2']}")
    create(fleet, "none", "--health-cmd", "true", "--health-interval", "1s")
    one, nothing, every = (dict.fromkeys(NODES, number) for number in (1, 0, ALL))

    assert gpus_seen(fleet, "reserves") == one
    assert gpus_seen(fleet, "none") == nothing
    assert all(healthy(fleet[name], service) for name in NODES for service in ("reserves", "none"))
    assert gpus_seen(fleet, "baked") == (nothing if closed else every)
    forges, wants, names = (gpus_seen(fleet, service) for service in ("forges", "wants", "names"))
    if closed:
        assert refused(forges, f"the service forges is refused on this node (isolation: {level}): it sets {VARIABLE}=all itself"), forges
        assert refused(wants, "it sets NVIDIA_VISIBLE_DEVICES=all, and has no reservation"), wants
        assert refused(names, f"it sets {VARIABLE}={uuid['i1']} itself, and it has no reservation"), names
    else:
        assert (forges, wants, names["i1"]) == (every, every, 1)  # i2 does not have this GPU
    found = audit_counts(fleet["i1"])
    assert set(found) == (set() if level == "off" else {"baked", "forges", "wants", "names"})
    await_removal(fleet, "reserves", "baked", "forges", "wants", "names", "none")
    for name in NODES:
        fleet[name].run("rm", "-rf", "/run/gpu-swarm-guard")


def test_a_run_with_nothing_to_change_changes_nothing(fleet: Fleet, inventory: Path) -> None:
    files = {name: (fleet[name].files(), fleet[name].run("sh", "-c", f"find {HOME} -type f | xargs md5sum")) for name in NODES}
    run = provision_at_level(fleet, inventory, "exclusive")
    assert set(run.changed().values()) == {0}, run.output
    assert {name: (fleet[name].files(), fleet[name].run("sh", "-c", f"find {HOME} -type f | xargs md5sum")) for name in NODES} == files


@pytest.mark.rare
def test_allocations_are_read_while_swarm_writes(fleet: Fleet, inventory: Path) -> None:
    """Meanwhile tasks start and end, and the agent writes each step of these tasks."""
    provision_at_level(fleet, inventory, "reserved")
    create(fleet, "stays", *RESERVES)
    assert gpus_seen(fleet, "stays") == dict.fromkeys(NODES, 1)
    create(fleet, "churns", "--restart-condition", "any", "--restart-delay", "0s", "--mode", "global", command=("true",))
    create(fleet, "there", "--mode", "global", "--restart-condition", "any", "--env", "SITE=m1")
    assert wait_until("a task on m1", lambda: containers(fleet["m1"], "there"))

    def read(name: str) -> dict[str, Any]:
        (container,) = containers(fleet[name], "stays")
        task = fleet[name].docker("inspect", "--format", '{{index .Config.Labels "com.docker.swarm.task.id"}}', container)
        return {**read_under_writes(fleet[name], HOME, task), "sees": cards(fleet[name], container)}

    with ThreadPoolExecutor() as pool:
        found = dict(zip(NODES, pool.map(read, NODES), strict=True))
    for one in found.values():
        assert (one["problems"], one["answers"]) == ([], [[[["NVIDIA-GPU", *one["sees"]]], []]]), found
        assert one["commits"] == COMMITS < one["reads"], found
    # m1 has Docker 26.1 and no GPUs. On this node, the guard reads only the variables of a task's service.
    (container,) = containers(fleet["m1"], "there")
    task = fleet["m1"].docker("inspect", "--format", '{{index .Config.Labels "com.docker.swarm.task.id"}}', container)
    one = read_under_writes(fleet["m1"], copy_guard_code(fleet["i1"], fleet["m1"]), task)
    assert (one["problems"], one["answers"], one["commits"]) == ([], [[[], ["SITE=m1"]]], COMMITS), one
    await_removal(fleet, "stays", "churns", "there")


def copy_guard_code(source: Node, target: Node) -> str:
    """Copy the guard's code of another node to a node without a guard."""
    packed = source.start("tar", "-C", HOME, "-c", ".").stdout
    target.start("sh", "-c", "mkdir -p /run/guard && tar -C /run/guard -x", text=packed)
    return "/run/guard"


@pytest.mark.rare
def test_without_readable_allocations_the_variables_decide_and_that_is_counted(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "reserved")
    with ExitStack() as stack:
        for name in NODES:
            fleet[name].run("rm", "-rf", "/run/gpu-swarm-guard")
            stack.enter_context(unreadable(fleet[name]))
        create(fleet, "reserves", *RESERVES, "--env", "NVIDIA_VISIBLE_DEVICES=all", image="lab/cuda")
        create(fleet, "forges", "--env", f"{VARIABLE}=all")
        create(fleet, "baked", image="lab/cuda")
        assert gpus_seen(fleet, "reserves") == dict.fromkeys(NODES, 1)
        assert gpus_seen(fleet, "baked") == dict.fromkeys(NODES, 0)
        assert refused(gpus_seen(fleet, "forges"), "it requests all, which this node does not advertise")
    for name in NODES:
        unread = {service: "unread" in names for service, names in audit_counts(fleet[name]).items()}
        assert unread == dict.fromkeys(("reserves", "forges", "baked"), True)
    await_removal(fleet, "reserves", "forges", "baked")
    for name in NODES:
        fleet[name].run("rm", "-rf", "/run/gpu-swarm-guard")


@pytest.mark.rare
def test_an_operators_container_and_an_allowed_service_see_what_they_request(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "exclusive", gpu_node_isolation_allow=["exporter", "label:sees"])
    for name in NODES:
        assert fleet[name].docker("run", "--rm", "lab/cuda", "sh", "-c", COUNT) == str(ALL)
        compose = ("--label", "com.docker.compose.project=site", "--label", "com.docker.compose.service=notebook")
        assert fleet[name].docker("run", "--rm", *compose, "lab/cuda", "sh", "-c", COUNT) == str(ALL)
        assert gpus_seen_by_build(fleet[name], "lab/cuda", buildkit=False) == str(ALL)
    assert gpus_seen_by_build(fleet["i2"], "lab/cuda", buildkit=True) == "0"  # this command does not call the runtime
    fake = ("--container-label", "com.docker.swarm.task.id=fake", "--container-label", "com.docker.swarm.service.name=exporter")
    create(fleet, "poses", *fake, "--env", "NVIDIA_VISIBLE_DEVICES=all")
    create(fleet, "hides", *fake, image="lab/cuda")
    create(fleet, "exporter", image="lab/cuda")
    create(fleet, "labelled", "--container-label", "sees=all", "--env", "NVIDIA_VISIBLE_DEVICES=all")
    create(fleet, "not-so", "--label", "sees=all", image="lab/cuda")
    assert [gpus_seen(fleet, name) for name in ("exporter", "labelled", "not-so")] == [dict.fromkeys(NODES, number) for number in (ALL, ALL, 0)]
    assert gpus_seen(fleet, "hides") == dict.fromkeys(NODES, 0)
    assert refused(gpus_seen(fleet, "poses"), "the service poses is refused on this node (isolation: exclusive): it sets NVIDIA_VISIBLE_DEVICES=all")
    await_removal(fleet, "exporter", "labelled", "not-so", "poses", "hides")


def gpus_seen_by_build(node: Node, image: str, *, buildkit: bool) -> str:
    """Return how many GPUs a build step sees."""
    given = f"FROM {image}\nRUN echo sees $({COUNT}).\n".encode()
    progress = "--progress=plain " if buildkit else ""
    build = f"DOCKER_BUILDKIT={int(buildkit)} docker build --no-cache {progress}- 2>&1"
    shown = node.start("sh", "-c", build, text=given).stdout.decode()
    (found,) = set(re.findall(r"sees ([0-9]+)\.", shown))
    return found


MOUNT = "type=bind,source=/dev/null,target=/var/run/nvidia-container-devices/all"
NO_SLASH = MOUNT.replace("/all", "all")  # NVIDIA's runtime compares the start of the text


# jit-cdi is the meaning of "auto", which all other tests have.
@pytest.mark.rare
@pytest.mark.parametrize("mode", ["legacy", "cdi", "jit-cdi"])
def test_the_leak_is_closed_in_each_mode_of_nvidias_runtime(fleet: Fleet, inventory: Path, mode: str) -> None:
    """One toolkit accepts mounts as requests, as an operator's container shows."""
    provision_at_level(fleet, inventory, "reserved")
    before = {name: fleet[name].read(CONFIG_TOML) or b"" for name in NODES}
    try:
        for name in NODES:
            fleet[name].run("nvidia-ctk", "cdi", "generate", "--output=/var/run/cdi/nvidia.yaml")  # mode cdi reads these specifications
            takes = b"accept-nvidia-visible-devices-as-volume-mounts = true\n"
            fleet[name].write(CONFIG_TOML, takes + re.sub(rb'(?m)^mode = "\w+"', f'mode = "{mode}"'.encode(), before[name]))
            for mount in (MOUNT, NO_SLASH):
                assert fleet[name].docker("run", "--rm", "--mount", mount, "lab/task", "sh", "-c", COUNT) == str(ALL)
            assert fleet[name].docker("run", "--rm", "lab/cuda", "sh", "-c", COUNT) == str(ALL)
        create(fleet, "reserves", *RESERVES, "--env", "NVIDIA_VISIBLE_DEVICES=all", image="lab/cuda")
        create(fleet, "baked", image="lab/cuda")
        create(fleet, "forges", "--env", f"{VARIABLE}=all")
        create(fleet, "mounts", "--mount", MOUNT)
        create(fleet, "no-slash", "--mount", NO_SLASH)
        assert [gpus_seen(fleet, service) for service in ("reserves", "baked")] == [dict.fromkeys(NODES, number) for number in (1, 0)]
        assert refused(gpus_seen(fleet, "forges"), f"it sets {VARIABLE}=all itself")
        text = "it has a mount at /var/run/nvidia-container-devices/all, which makes NVIDIA's runtime give it GPUs"
        assert refused(gpus_seen(fleet, "mounts"), text)
        assert refused(gpus_seen(fleet, "no-slash"), "it has a mount at /var/run/nvidia-container-devicesall, which makes NVIDIA's runtime")
    finally:
        for name in NODES:
            fleet[name].write(CONFIG_TOML, before[name])
    await_removal(fleet, "reserves", "baked", "forges", "mounts", "no-slash")


# NVIDIA's tools accept this layout, but a program that reads single lines does not.
LAYOUTS = {
    "a list before it": b'x = [\n  "[t]",\n]\nswarm-resource = "%s"\n',
    "a long string before it": b'x = """\n[t]\n"""\nswarm-resource = "%s"\n',
    "an escape": b'swarm-resource = "\\u0041,%s"\n',
    "a long string": b'swarm-resource = """%s"""\n',
}


@pytest.mark.rare
def test_a_variable_of_an_image_opens_nothing_in_any_layout_of_config_toml(fleet: Fleet, inventory: Path) -> None:
    """The file changes after the last run. An operator's container shows that NVIDIA's runtime reads the variable."""
    provision_at_level(fleet, inventory, "reserved")
    before = {name: fleet[name].read(CONFIG_TOML) or b"" for name in NODES}
    for name in NODES:
        made = fleet[name].docker("create", "lab/cuda")
        fleet[name].docker("commit", "--change", f"ENV {VARIABLE}=all", "--change", "ENV NVIDIA_VISIBLE_DEVICES=void", made, "lab/baked")
        fleet[name].docker("rm", made)
    try:
        for layout in LAYOUTS.values():
            for name in NODES:
                rest = re.sub(rb"(?m)^#?swarm-resource.*\n", b"", before[name])
                fleet[name].write(CONFIG_TOML, layout % VARIABLE.encode() + rest)
                assert fleet[name].docker("run", "--rm", "lab/baked", "sh", "-c", COUNT) == str(ALL)
            create(fleet, "baked", image="lab/baked")
            create(fleet, "reserves", *RESERVES, image="lab/baked")
            assert [gpus_seen(fleet, service) for service in ("baked", "reserves")] == [dict.fromkeys(NODES, number) for number in (0, 1)]
            await_removal(fleet, "baked", "reserves")
    finally:
        for name in NODES:
            fleet[name].write(CONFIG_TOML, before[name])


@pytest.mark.rare
def test_a_node_whose_config_toml_gives_no_task_a_gpu_is_refused(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "reserved")
    before = fleet["i1"].read(CONFIG_TOML) or b""
    try:
        fleet["i1"].write(CONFIG_TOML, b"accept-nvidia-visible-devices-envvar-when-unprivileged = false\n" + before)
        assert fleet["i1"].docker("run", "--rm", "lab/cuda", "sh", "-c", COUNT) == "0"
        run = fleet.playbook(inventory, "--extra-vars", json.dumps({"gpu_swarm_isolation": "reserved"}))
        assert (run.rc, "accept_risks: [variables-not-accepted]" in run.output) == (2, True), run.output
    finally:
        fleet["i1"].write(CONFIG_TOML, before)


def test_a_broken_guard_starts_only_containers_without_a_request(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "reserved")
    for name in NODES:
        fleet[name].run("sh", "-c", f"rm -r {HOME}/code-*")
    create(fleet, "plain")
    create(fleet, "gpu", *RESERVES)
    assert gpus_seen(fleet, "plain") == dict.fromkeys(NODES, 0)
    assert refused(gpus_seen(fleet, "gpu"), "the guard of this node's GPUs does not run")
    await_removal(fleet, "plain", "gpu")
    for name in NODES:
        fleet[name].run("touch", f"{HOME}/pass-through")
    create(fleet, "gpu", *RESERVES)
    assert gpus_seen(fleet, "gpu") == dict.fromkeys(NODES, 1)
    await_removal(fleet, "gpu")
    for name in NODES:
        fleet[name].run("rm", f"{HOME}/pass-through")
    provision_at_level(fleet, inventory, "reserved")
    create(fleet, "gpu", *RESERVES)
    assert gpus_seen(fleet, "gpu") == dict.fromkeys(NODES, 1)
    await_removal(fleet, "gpu")


@pytest.mark.rare
def test_a_job_that_a_guard_refuses_is_submitted_again_without_using_a_retry(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    """While a guard is broken, the job is submitted again. A job that every node would refuse fails at once."""
    provision_at_level(fleet, inventory, "reserved")
    for name, more in {"again": {}, "never": {"gpus": 0, "env": {"NVIDIA_VISIBLE_DEVICES": "all"}, "constraints": ["node.role==worker"]}}.items():
        (tmp_path / name).write_text(json.dumps({"name": name, "image": "lab/task", "command": ["nvidia-smi", "-L"], **more}))

    def job(name: str, *arguments: str) -> Run:
        return fleet.playbook(inventory, "-e", f"job={tmp_path / name}", *arguments, playbook="fleet.gpu_swarm.job")

    for name in NODES:
        fleet[name].run("mv", f"{HOME}/settings.json", "/run/settings.json")
    waits = job("again", "-e", "wait_timeout=12")
    assert (waits.rc, "the last try: gpu-swarm: the guard of this node's GPUs failed" in waits.output) == (75, True), waits.output
    for name in NODES:
        fleet[name].run("mv", "/run/settings.json", f"{HOME}/settings.json")
    run = job("again", "-e", "wait_timeout=120")
    assert (run.rc, "1 complete" in run.output) == (0, True), run.output
    (service,) = fleet["m1"].docker("service", "ls", "--quiet", "--filter", "label=gpu-swarm.job=again").split()
    labels = fleet["m1"].docker_json("service", "inspect", service, "--format", "{{json .Spec.Labels}}")
    assert (labels["gpu-swarm.job-retried"], int(labels["gpu-swarm.job-refused"]) > 1) == ("0", True)

    run = job("never")
    assert (run.rc, "it sets NVIDIA_VISIBLE_DEVICES=all, and has no reservation" in run.output) == (2, True), run.output
    for name in ("again", "never"):
        assert job(name, "-e", "state=absent").rc == 0
    fleet["m1"].run("rm", "--recursive", "--force", "/var/lib/gpu-swarm/jobs")


@pytest.mark.rare
def test_a_tool_that_replaces_the_guard_is_drift(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "reserved")
    node = fleet["i1"]
    node.write(DAEMON_JSON, (node.read(DAEMON_JSON) or b"").replace(GUARD.encode(), b"nvidia-container-runtime"))
    node.run("systemctl", "reload", "docker")
    wait_until("the reload", lambda: node.docker("info", "--format", "{{.Runtimes.nvidia.Path}}") != GUARD, shown=lambda: "")
    run = fleet.playbook(inventory, "--check", "--diff", "--extra-vars", '{"gpu_swarm_isolation": "reserved"}')
    assert f"the runtime nvidia is nvidia-container-runtime, not {GUARD}" in run.output
    run = verify(fleet, inventory, "reserved")
    assert "i1" in run.failed(), run.output
    leak = "NOT ISOLATED: without a reservation, a task sees GPUs that are not allocated to it, GPU-"
    assert leak in "".join(run.failures("i1"))
    assert leak in rows(run, "i1")[1]
    assert ["passed: " in row for row in rows(run, "i2")[:3]] == [True] * 3, run.output
    provision_at_level(fleet, inventory, "reserved")
    assert node.docker("info", "--format", "{{.Runtimes.nvidia.Path}}") == GUARD


SHIMS = 'for pid in $(docker ps --quiet | xargs docker inspect --format "{{.State.Pid}}"); do kill -9 $(cut -d " " -f 4 /proc/$pid/stat); done'
KILLS = {
    "dockerd": "systemctl reset-failed docker && kill -9 $(cat /run/docker.pid)",  # other tests may have used up this minute's starts
    "containerd": "kill -9 $(pgrep -x containerd)",
    "shim": SHIMS,
    "node": "systemctl reboot --force --force",
}


def boot(node: Node) -> str:
    """Return the node's boot time, or an empty string while the node is down."""
    return node.run("stat", "--format", "%Y", "/proc/1", check=False)


@pytest.mark.parametrize("what", ["dockerd", *(pytest.param(name, marks=pytest.mark.rare) for name in ("containerd", "shim", "node"))])
def test_gpus_are_free_after_a_kill(fleet: Fleet, inventory: Path, what: str) -> None:
    """Containers that survive a kill of containerd hold their GPUs until their service is updated."""
    provision_at_level(fleet, inventory, "exclusive")
    node = fleet["i2"]
    on = ("--constraint", "node.hostname==" + node.run("hostname"), "--restart-condition", "any", "--stop-grace-period", "1s")
    create(fleet, "all-cards", *on, "--mode", "replicated", "--replicas", str(ALL), *RESERVES)

    def running() -> list[str]:
        found = containers(node, "all-cards") if node.docker_json("info", "--format", "{{json .Swarm.LocalNodeState}}") == "active" else []
        return found if len(found) == ALL else []

    first = wait_until("all cards in use", running, SEEN_S, lambda: tasks(fleet, "all-cards"))
    booted = boot(node)
    node.start("sh", "-c", KILLS[what], check=what != "node")
    wait_until("another boot", lambda: what != "node" or boot(node) not in ("", booted))
    wait_until("dockerd", lambda: node.start("docker", "info", check=False).returncode == 0)
    if what == "containerd":
        wait_until("containerd", lambda: node.run("systemctl", "is-active", "containerd", check=False) == "active")
        assert sorted(running()) == sorted(first)
        fleet["m1"].docker("service", "update", "--detach", "--force", "--update-parallelism", "0", "all-cards")
    again = wait_until("all cards in use again", lambda: not set(running()) & set(first) and running(), 90, lambda: tasks(fleet, "all-cards"))
    listed = [node.docker("exec", container, "nvidia-smi", "-L") for container in again]
    assert sorted(re.findall("GPU-[0-9a-f-]{36}", "".join(listed))) == sorted(node.gpus())
    await_removal(fleet, "all-cards")


PACKAGES = ("libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit-base", "nvidia-container-toolkit")
INSTALL = """
echo 'deb [trusted=yes] http://lab-repo/libnvidia-container/stable/deb/amd64 /' >/run/toolkit.list
set -- -o Dir::Etc::sourcelist=/run/toolkit.list -o Dir::Etc::sourceparts=- -- "$@"
export DEBIAN_FRONTEND=noninteractive
apt-get update "$1" "$2" "$3" "$4" >/dev/null && apt-get install --yes --allow-downgrades "$@" >/dev/null
"""


@pytest.mark.rare
def test_the_toolkit_is_upgraded_under_the_guard(fleet: Fleet, inventory: Path) -> None:
    """Containers that the guard started run during the upgrade. They can still be stopped, and new containers start through the guard."""
    node = fleet["i1"]

    def install(version: str) -> None:
        node.run("sh", "-ec", INSTALL, "-", *(f"{name}={version}-1" for name in PACKAGES))
        assert version in node.run("nvidia-ctk", "--version")

    install("1.19.1")
    provision_at_level(fleet, inventory, "reserved")
    create(fleet, "train", *RESERVES, image="lab/cuda")
    assert gpus_seen(fleet, "train") == dict.fromkeys(NODES, 1)
    node.docker("run", "--detach", "--name", "mine", "lab/cuda", *SLEEP)
    install("1.20.0")
    assert node.docker("exec", "mine", "sh", "-c", COUNT) == str(ALL)
    node.docker("stop", "--time", "1", "mine")
    node.docker("rm", "mine")
    await_removal(fleet, "train")
    create(fleet, "train", *RESERVES, image="lab/cuda")
    create(fleet, "baked", image="lab/cuda")
    assert [gpus_seen(fleet, service) for service in ("train", "baked")] == [dict.fromkeys(NODES, number) for number in (1, 0)]
    assert set(provision_at_level(fleet, inventory, "reserved").changed().values()) == {0}
    await_removal(fleet, "train", "baked")


@pytest.mark.rare
def test_a_gpu_that_swarm_allocates_twice_is_refused(fleet: Fleet, inventory: Path) -> None:
    """A restarted leader claims the GPUs of running tasks from the front of its list (swarmkit nodeinfo.go).

    Its allocations on this node stay wrong after that.
    """
    provision_at_level(fleet, inventory, "exclusive")
    on = ("--mode", "replicated", "--replicas", "1", "--constraint", "node.hostname==" + fleet["i2"].run("hostname"))
    holders = {}
    for service in ("one", "two", "three", "four"):
        create(fleet, service, *on, *RESERVES)
        wait_until(service, lambda service=service: containers(fleet["i2"], service), SEEN_S, lambda service=service: tasks(fleet, service))
        holders[gpu_of(fleet, service)] = service
    # The remaining task has the second GPU in the list. The new leader claims the first GPU for this task, and gives the second one to the next task.
    stays = holders.pop(advertised(fleet["i2"])[1])
    await_removal(fleet, *holders.values())
    fleet["m1"].dockerd("restart")
    wait_until("the manager", lambda: fleet["m1"].swarm()["ControlAvailable"])
    listed = ("node", "ls", "--format", "{{.Status}}")
    wait_until("the nodes", lambda: fleet["m1"].docker(*listed).split() == ["Ready"] * 3, SEEN_S, lambda: fleet["m1"].docker(*listed))
    create(fleet, "third", *on, *RESERVES)

    def ended() -> list[dict[str, str]]:
        return [one for one in tasks(fleet, "third") if "gpu-swarm" in one["Error"]]

    task = wait_until("the refusal", ended, SEEN_S, lambda: tasks(fleet, "third"))[0]
    assert "refused on this node (isolation: exclusive)" in task["Error"]
    assert re.search(rf"task \w{{25}} of the service {stays} \(container [0-9a-f]{{12}}\) still has GPU-[0-9a-f-]{{36}}", task["Error"])
    assert audit_counts(fleet["i2"])["third"] == {"held-twice": 1}
    await_removal(fleet, stays, "third")


def level_of_the_swarm(fleet: Fleet) -> dict[str, Any]:
    labels = fleet["m1"].docker_json("info", "--format", "{{json .Swarm.Cluster.Spec.Labels}}") or {}
    return json.loads(labels.get("gpu-swarm.isolation", "{}"))


def level_on(node: Node) -> str:
    return json.loads(node.read(f"{HOME}/settings.json") or b"{}")["level"]


@pytest.mark.rare
def test_the_swarm_has_one_level_and_a_node_that_was_not_reached_is_drift(fleet: Fleet, inventory: Path) -> None:
    def status() -> Run:
        return fleet.playbook(inventory, playbook="fleet.gpu_swarm.status")

    provision_at_level(fleet, inventory, "audit")
    started = {name: fleet[name].started() for name in NODES}
    create(fleet, "baked", image="lab/cuda")
    assert gpus_seen(fleet, "baked") == dict.fromkeys(NODES, ALL)
    run = fleet.playbook(inventory, "--limit", "m1,i1", "--extra-vars", "gpu_swarm_isolation=reserved", "--check")
    assert "The isolation of the swarm becomes reserved; it is audit." in run.output
    run = fleet.playbook(inventory, "--limit", "m1,i1")  # only the counts change
    assert (run.rc, set(run.changed().values())) == (0, {0}), run.output
    shown = status()
    assert (shown.rc, "isolation: audit; change these before isolation is enforced: baked (hidden)" in shown.output) == (0, True), shown.output
    await_removal(fleet, "baked")

    def known() -> Any:
        return level_of_the_swarm(fleet), [(fleet[name].advertised(), level_on(fleet[name])) for name in NODES]

    before = known()
    divided = fleet.inventory({"i2": {"gpu_swarm_isolation": "reserved"}}, swarm_managers=["m1"], gpu_nodes=NODES)
    run = fleet.playbook(divided, "--limit", "m1,i1")
    assert (run.rc in (0, 75), known()) == (False, before), run.output
    assert "gpu_swarm_isolation applies to the whole run, but is not set for m1, and 'reserved' for i2." in run.output

    run = fleet.playbook(inventory, "--limit", "m1,i1", "--extra-vars", "gpu_swarm_isolation=reserved")
    assert run.rc == 0, run.output
    assert (level_of_the_swarm(fleet)["level"], level_on(fleet["i1"]), level_on(fleet["i2"])) == ("reserved", "reserved", "audit")
    shown = status()
    assert shown.rc == 75, shown.output
    assert shown.output.count("isolation audit, not reserved") == 1
    assert f"Waiting: {fleet['i2'].run('hostname')}." in shown.output
    run = fleet.playbook(inventory)  # read from the label
    assert (run.rc, level_on(fleet["i2"]), level_on(fleet["i1"])) == (0, "reserved", "reserved"), run.output
    shown = status()
    assert (shown.rc, "isolation: reserved" in shown.output) == (0, True), shown.output
    assert {name: fleet[name].started() for name in NODES} == started


def dedicated(fleet: Fleet) -> list[str]:
    """Return the nodes with the label."""
    nodes = fleet["m1"].docker_json("node", "inspect", *fleet["m1"].docker("node", "ls", "--quiet").split())
    return sorted(node["Description"]["Hostname"] for node in nodes if node["Spec"]["Labels"].get("gpu.dedicated") == "true")


@pytest.mark.rare
def test_services_without_a_reservation_are_kept_off_dedicated_nodes_by_their_own_constraint(fleet: Fleet, inventory: Path) -> None:
    def status() -> Run:
        return fleet.playbook(inventory, playbook="fleet.gpu_swarm.status")

    level = level_of_the_swarm(fleet)["level"]
    create(fleet, "web", "--mode", "replicated", "--replicas", "3", "--restart-condition", "any")
    create(fleet, "exporter")
    create(fleet, "train", *RESERVES)
    once = ("--constraint", "node.labels.gpu.dedicated!=true", "--constraint", f"node.hostname=={fleet['i2'].run('hostname')}")
    create(fleet, "once", "--mode", "replicated", "--restart-condition", "none", *once)
    names = ("web", "exporter", "train", "once")

    def there() -> dict[str, list[str]]:
        return {name: [container for service in names for container in containers(fleet[name], service)] for name in NODES}

    before = wait_until("the tasks", lambda: [len(one) for one in there().values()] == [3, 4] and there(), SEEN_S, there)
    assert "without a reservation on nodes with GPUs: once (i2), web (i1, i2); global: exporter" in status().output
    run = fleet.playbook(inventory, "--extra-vars", json.dumps({"gpu_swarm_isolation": level, "gpu_swarm_dedicated": True}))
    command = "docker service update --constraint-add 'node.labels.gpu.dedicated!=true' web"
    assert (run.rc, command in run.output, there()) == (75, True, before), run.output
    assert (dedicated(fleet), "once.1" in run.row("i2")) == (["i1"], True), run.output  # swarm would evict the task and not restart it
    shown = status().output
    assert f"\n  {command}\n" in shown, shown
    assert "constraint-add 'node.labels.gpu.dedicated!=true' exporter" not in shown

    fleet["m1"].docker("service", "rm", "once")
    wait_until("its end", lambda: not containers(fleet["i2"], "once"))
    provision_at_level(fleet, inventory, level, gpu_swarm_dedicated=True)
    assert (dedicated(fleet), [len(one) for one in there().values()]) == (["i1", "i2"], [3, 3])
    fleet["m1"].run("sh", "-c", command + " --detach")
    wait_until("web to leave", lambda: [len(one) for one in there().values()] == [2, 2] and len(containers(fleet["m1"], "web")) == 3, SEEN_S, there)
    provision_at_level(fleet, inventory, level)
    assert dedicated(fleet) == []
    fleet["m1"].docker("service", "rm", "web")
    await_removal(fleet, "exporter", "train")


SHARED = [
    {"as": "vram", "select": {"index": [0]}},
    {"as": "slots", "slots": 2, "slots_together": True, "select": {"index": [1, 2]}},
    {"as": "gpu"},
]


@pytest.mark.rare
def test_a_task_with_a_share_of_a_card_sees_that_card_and_finds_its_share(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "exclusive", gpu_node_advertise=SHARED)
    create(fleet, "apart", "--generic-resource", "NVIDIA-SLOT=3")
    assert refused(gpus_seen(fleet, "apart"), "swarm gave it slots of 2 cards")
    create(fleet, "memory", "--generic-resource", "VRAM=8000", "--env", "NVIDIA_VISIBLE_DEVICES=all")
    create(fleet, "slot", "--generic-resource", "NVIDIA-SLOT=1", "--mode", "replicated", "--replicas", "8", image="lab/cuda")
    assert gpus_seen(fleet, "memory") == dict.fromkeys(NODES, 1)
    wait_until("the slots", lambda: all(len(containers(fleet[name], "slot")) == 4 for name in NODES), SEEN_S, lambda: tasks(fleet, "slot"))
    for node in (fleet[name] for name in NODES):
        (memory,), first = containers(node, "memory"), node.gpus()[0]
        its = variables(node, memory)
        assert (cards(node, memory), its["MAX_CONTAINER_MEMORY"], its["GPU_MEMORY_FRACTION"]) == ([first], "8000", "0.501302")
        by_slot = {}
        for container in containers(node, "slot"):
            its = variables(node, container)
            by_slot[its["GPU_SWARM_SLOTS"]] = cards(node, container)
            assert (its["MAX_CONTAINER_MEMORY"], its["GPU_MEMORY_FRACTION"]) == ("7680", "0.480468")
        assert by_slot == {f"{card}.slot{number}": [card] for card in node.gpus()[1:3] for number in (1, 2)}
    await_removal(fleet, "apart", "memory", "slot")
    run = verify(fleet, inventory, "exclusive", gpu_node_advertise=SHARED)
    assert run.rc == 0, run.output
    shares = [f"{what}  1  passed: {SEES_ITS_OWN}" for what in ("4 × 1 NVIDIA-SLOT", "301 VRAM")]
    assert {name: rows(run, name)[1:3] for name in NODES} == dict.fromkeys(NODES, shares), run.output


@pytest.mark.rare
def test_with_off_a_slot_is_its_card_and_running_tasks_keep_it_afterwards(fleet: Fleet, inventory: Path) -> None:
    provision_at_level(fleet, inventory, "off", gpu_node_advertise=SHARED)
    create(fleet, "slot", "--generic-resource", "NVIDIA-SLOT=1", image="lab/cuda")
    create(fleet, "open", image="lab/cuda")
    assert (gpus_seen(fleet, "slot"), gpus_seen(fleet, "open")) == (dict.fromkeys(NODES, 1), dict.fromkeys(NODES, ALL))
    assert [audit_counts(fleet[name]).get("open") for name in NODES] == [None, None]
    running = {name: containers(fleet[name], "slot") for name in NODES}
    provision_at_level(fleet, inventory, "exclusive", gpu_node_advertise=SHARED)
    for name, (container,) in running.items():
        (hold,) = fleet[name].run("sh", "-c", "cat /run/gpu-swarm-guard/holds/*").splitlines()
        held = json.loads(hold)
        assert (held["container"].startswith(container), held["service"]) == (True, "slot")
        assert held["devices"] == [variables(fleet[name], container)["GPU_SWARM_SLOTS"]]
    await_removal(fleet, "slot", "open")


EIGHTS = [{"as": "slots", "slots": 8}]


@contextmanager
def update_node_repeatedly(fleet: Fleet, name: str) -> Iterator[None]:
    """Update the node repeatedly. Each time swarm recounts its free resources from the front of the list."""
    manager, node, over = fleet["m1"], fleet[name].swarm()["NodeID"], threading.Event()

    def go_on() -> None:
        while not over.wait(0.1):
            manager.docker("node", "update", "--label-add", "counted=anew", node)

    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(go_on)
        try:
            yield
        finally:
            over.set()
            going.result()
            manager.docker("node", "update", "--label-rm", "counted", node)


@pytest.mark.rare
def test_verify_tests_each_of_many_slots_once(fleet: Fleet, inventory: Path) -> None:
    """Each slot is tested once, even if swarm gives a tested slot to the next task first, or if some slots are in use."""
    provision_at_level(fleet, inventory, "reserved", gpu_node_advertise=EIGHTS)
    create(fleet, "busy", "--generic-resource", "NVIDIA-SLOT=1")
    assert gpus_seen(fleet, "busy") == dict.fromkeys(NODES, 1)
    before = fleet["m1"].docker("service", "ls", "--quiet")
    with update_node_repeatedly(fleet, "i1"):
        run = verify(fleet, inventory, "reserved", gpu_node_advertise=EIGHTS)
    assert run.rc == 0, run.output
    each = f"{8 * ALL - 1} × 1 NVIDIA-SLOT  1  passed: {SEES_ITS_OWN}"
    assert {name: rows(run, name)[0] for name in NODES} == dict.fromkeys(NODES, each), run.output
    assert "not tested" not in run.output
    assert fleet["m1"].docker("service", "ls", "--quiet") == before
    await_removal(fleet, "busy")


PAIRS = [{"as": "group", "kind": "PAIR", "size": 2}]


@pytest.mark.rare
def test_a_task_with_a_group_sees_its_gpus_and_no_others(fleet: Fleet, inventory: Path) -> None:
    """NVLink bridges connect the first card with the third, and the second with the fourth."""
    for name in NODES:
        fleet.swap_gpus(name, "a6000x4")
    run = provision_at_level(fleet, inventory, "exclusive", gpu_node_advertise=PAIRS)
    assert "+2 PAIR" in run.output, run.output
    pairs = {name: ["+".join(fleet[name].gpus()[first::2]) for first in (0, 1)] for name in NODES}
    assert {name: advertised(fleet[name]) for name in NODES} == pairs
    create(fleet, "forges", "--generic-resource", "PAIR=1", "--env", "DOCKER_RESOURCE_PAIR=all")
    assert refused(gpus_seen(fleet, "forges"), "it sets DOCKER_RESOURCE_PAIR=all itself")
    create(fleet, "pair", "--generic-resource", "PAIR=1", "--mode", "replicated", "--replicas", "3", image="lab/cuda")
    wait_until("the pairs", lambda: sum(len(containers(fleet[name], "pair")) for name in NODES) == 3, SEEN_S, lambda: tasks(fleet, "pair"))
    seen_by = {name: ["+".join(cards(fleet[name], container)) for container in containers(fleet[name], "pair")] for name in NODES}
    assert all(set(found) <= set(pairs[name]) and len(found) == len(set(found)) for name, found in seen_by.items()), seen_by
    for name in NODES:
        holds = fleet[name].run("sh", "-c", "for one in /run/gpu-swarm-guard/holds/*; do cat $one; echo; done").splitlines()
        assert sorted("+".join(json.loads(one)["devices"]) for one in holds) == sorted(seen_by[name]), holds
    (free,) = [name for name in NODES if len(seen_by[name]) == 1]
    run = fleet.playbook(inventory, "--extra-vars", '{"verify_image": "lab/cuda"}', playbook="fleet.gpu_swarm.verify")
    assert "1 PAIR  2  passed: " + SEES_ITS_OWN in rows(run, free), run.output
    run = provision_at_level(fleet, inventory, "exclusive", gpu_node_advertise=PAIRS)
    assert set(run.changed().values()) == {0}, run.output
    await_removal(fleet, "forges", "pair")
    for name in NODES:
        fleet.swap_gpus(name, "t4x4")


@pytest.mark.rare
def test_each_slot_of_a_mig_device_is_one_device(fleet: Fleet, inventory: Path) -> None:
    fleet.swap_gpus("i1", "a100-mig")
    rules = {"gpu_node_advertise": [{"as": "slots", "slots": 2}]}
    provision_at_level(fleet, inventory, "exclusive", **rules, gpu_node_allow_shrink=True)
    slots = advertised(fleet["i1"])
    devices = [slot.partition(".")[0] for slot in slots]
    assert ([slot.partition(".")[2] for slot in slots], [one[:4] for one in devices]) == (["slot1", "slot2"] * 4, ["MIG-"] * 6 + ["GPU-"] * 2)
    there = ("--constraint", f"node.id=={fleet['i1'].swarm()['NodeID']}", "--generic-resource", "NVIDIA-SLOT=1")
    create(fleet, "slot", *there, "--replicas", "8", image="lab/cuda")
    found = wait_until("the slots", lambda: len(containers(fleet["i1"], "slot")) == 8 and containers(fleet["i1"], "slot"), SEEN_S)
    seen_by, shares = {}, {}
    for container in found:
        its = variables(fleet["i1"], container)
        seen_by[its["GPU_SWARM_SLOTS"]] = re.findall(r"MIG-[0-9a-f-]{36}|(?<=\) )GPU-", fleet["i1"].docker("exec", container, "nvidia-smi", "-L"))
        shares[its["GPU_SWARM_SLOTS"].partition(".")[0]] = its["MAX_CONTAINER_MEMORY"]
    whole = {slot for slot in slots if slot.startswith("GPU-")}
    assert {slot: cards for slot, cards in seen_by.items() if slot not in whole} == {
        slot: [slot.partition(".")[0]] for slot in slots if slot not in whole
    }
    assert whole < set(seen_by)
    assert sorted(shares.values()) == ["20096", "40960", "4864", "9984"]
    await_removal(fleet, "slot")
    run = verify(fleet, inventory, "exclusive", verify_gpus="all", **rules)
    assert run.rc == 0, run.output
    assert rows(run, "i1")[0] == "8 × 1 NVIDIA-SLOT  1  passed: " + SEES_ITS_OWN, run.output
    fleet.swap_gpus("i1", "t4x4")


@pytest.mark.rare
def test_a_group_whose_card_dies_is_no_longer_advertised_and_the_others_are(fleet: Fleet, inventory: Path) -> None:
    """The node is paused. With consent, the next run removes the group, and the remaining card joins no other group."""
    node, given = fleet["i1"], {"gpu_swarm_isolation": "exclusive", "gpu_node_advertise": PAIRS}

    def run(**more: bool) -> Run:
        return fleet.playbook(inventory, "--limit", "m1,i1", "--extra-vars", json.dumps({**given, **more}))

    fleet.swap_gpus("i1", "a6000x4")
    assert (found := run(gpu_node_allow_shrink=True)).rc == 0, found.output
    pair, other = advertised(node)
    dead, machine = pair.split("+")[1], node.read(MACHINE) or b""
    node.write(MACHINE, machine + f"\n[gpu {node.gpus().index(dead)}]\nfault = lost\n".encode())
    wait_until("the pause", lambda: availability(fleet, node) == "pause", PAUSED_S, lambda: reported(fleet["m1"], node))
    found = run()
    assert (found.rc, dead in found.failures("i1")[-1]) == (2, True), found.output
    assert advertised(node) == [pair, other]
    found = run(gpu_node_allow_shrink=True)
    assert advertised(node) == [other], found.output
    there = ("--constraint", f"node.id=={node.swarm()['NodeID']}", "--replicas", "2")
    create(fleet, "pair", *there, "--generic-resource", "PAIR=1", image="lab/cuda")
    (container,) = wait_until("the pair", lambda: containers(node, "pair"), SEEN_S, lambda: tasks(fleet, "pair"))
    assert "+".join(cards(node, container)) == other
    await_removal(fleet, "pair")
    fleet.swap_gpus("i1", "t4x4")


# runc allows some devices in every container, but not this one.
FUSE = "[ -c /dev/fuse ] && (: <>/dev/fuse) 2>/dev/null && echo opened || echo closed"
NAMED = {"fuse": ["/dev/fuse"], "gone": ["/dev/no-such-device*"], "log": ["/dev/kms?"]}
ASKS = "GPU_SWARM_DEVICES"


@pytest.mark.parametrize("level", ["reserved", pytest.param("off", marks=pytest.mark.rare)])
def test_a_service_gets_the_devices_that_it_asks_for_by_name(fleet: Fleet, inventory: Path, level: str) -> None:
    """Only i1 can give devices, because i2 has userns-remap. Neither an image nor an operator's container gets one."""
    for name in NODES:
        fleet[name].run("sh", "-c", "[ -c /dev/fuse ] || mknod /dev/fuse c 10 229; [ -c /dev/kmsg ] || mknod /dev/kmsg c 1 11")
        made = fleet[name].docker("create", "lab/task")
        fleet[name].docker("commit", "--change", f"ENV {ASKS}=fuse", made, "lab/asks")
        fleet[name].docker("rm", made)
    provision_at_level(fleet, inventory, level)
    started = {name: fleet[name].started() for name in NODES}
    provision_at_level(fleet, inventory, level, gpu_swarm_devices=NAMED, gpu_node_isolation_allow=["refused-too"])
    assert {name: fleet[name].started() for name in NODES} == started
    label = "{{index .Spec.Labels \"gpu-swarm.device.fuse\"}}"
    node_ids = {name: fleet[name].swarm()["NodeID"] for name in NODES}
    labels = {name: fleet["m1"].docker("node", "inspect", "--format", label, node_ids[name]) for name in NODES}
    assert labels == {"i1": "true", "i2": ""}

    create(fleet, "asks", "--env", f"{ASKS}=fuse")
    for service, names in (("refused", "fuse,other"), ("refused-too", "gone"), ("never", "log")):
        create(fleet, service, "--env", f"{ASKS}={names}")
    create(fleet, "image", image="lab/asks")
    found = outputs(fleet, "asks", FUSE)
    assert (found["i1"], found["i2"][0], "userns-remap" in found["i2"][1]) == ((True, "opened"), False, True), found
    assert outputs(fleet, "image", FUSE) == dict.fromkeys(NODES, (True, "closed"))
    for service, words in {
        "refused": f"(isolation: {level}): it asks for the device 'other' ({ASKS}), which this node does not allow",
        "refused-too": "add the constraint node.labels.gpu-swarm.device.gone==true",
        "never": "/dev/kmsg is never given",
    }.items():
        runs, error = outputs(fleet, service, FUSE)["i1"]
        assert (runs, words.lower() in error.lower()) == (False, True), error
    for name in NODES:
        assert fleet[name].docker("run", "--rm", "--env", f"{ASKS}=fuse", "lab/asks", "sh", "-c", FUSE) == "closed"
    task_id = next(task["ID"] for task in tasks(fleet, "asks") if node_of(fleet, task) == "i1")
    assert fleet["i1"].docker("run", "--rm", "--label", f"com.docker.swarm.task.id={task_id}", "lab/asks", "sh", "-c", FUSE) == "closed"
    fleet["i1"].run("systemctl", "daemon-reload")
    assert outputs(fleet, "asks", FUSE)["i1"] == (True, "opened")
    await_removal(fleet, "asks", "refused", "refused-too", "never", "image")

    fleet["i1"].run("sh", "-c", f"rm -r {HOME}/code-*")
    create(fleet, "asks", "--env", f"{ASKS}=fuse")
    assert "the guard of this node's GPUs does not run" in outputs(fleet, "asks", FUSE)["i1"][1]
    await_removal(fleet, "asks")
    provision_at_level(fleet, inventory, level)
    create(fleet, "asks", "--env", f"{ASKS}=fuse")
    runs, text = outputs(fleet, "asks", FUSE)["i1"]
    if level == "off":  # the node has no guard any more
        assert (runs, text) == (True, "closed")
    else:
        assert (runs, "It allows none" in text) == (False, True), text
    await_removal(fleet, "asks")


@pytest.mark.rare
def test_the_guard_is_removed_while_a_container_runs_which_can_be_stopped(
    fleet: Fleet, inventory: Path, before: dict[str, tuple[dict[str, bytes | None], str]]
) -> None:
    provision_at_level(fleet, inventory, "reserved")
    for name in NODES:
        fleet[name].docker("run", "--detach", "--name", "mine", "lab/cuda", *SLEEP)
    provision_at_level(fleet, inventory, "off")
    for name in NODES:
        assert fleet[name].run("readlink", GUARD).endswith("/nvidia-container-runtime")
        assert fleet[name].docker("exec", "mine", "sh", "-c", COUNT) == str(ALL)
        fleet[name].docker("stop", "--time", "1", "mine")
        fleet[name].docker("rm", "mine")
        assert fleet[name].docker("run", "--rm", "lab/cuda", "sh", "-c", COUNT) == str(ALL)
    provision_at_level(fleet, inventory, "off")
    for name in NODES:
        assert directories(fleet[name]) == before[name][1]
    provision_at_level(fleet, inventory, "exclusive")
    run = fleet.playbook(inventory, "--extra-vars", '{"deprovision_leave": false}', playbook="fleet.gpu_swarm.deprovision")
    assert run.rc == 0, run.output
    for name in NODES:
        assert (fleet[name].files(), directories(fleet[name])) == before[name]
    assert level_of_the_swarm(fleet) == {}
