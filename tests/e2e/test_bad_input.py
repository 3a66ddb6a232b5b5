# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes with a fault: each has one clear error, nothing is changed, dockerd keeps running, and the other nodes are provisioned.

All faults of a wave are on different nodes, so one run of provision tests the whole wave.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.lab.nodes import NVML_CONF

from .conftest import MAIN, NODES, Loud
from .fleet import CONFIG_TOML, DAEMON_JSON, STATE_DIR, Fleet, Node, Run, advertised_as, wait_until
from .swarm import availability_of
from .untouched import DOCKERD, State, leave_swarm

STAND_IN = Path(__file__).with_name("stand_in.py")
SOCKET = "/run/stand-in.sock"
LIBRARY = "/usr/lib/libnvidia-ml.so.1"
FIREWALL = ("OUTPUT", "--protocol", "tcp", "--dport", "2377", "--jump", "REJECT")
HOOK = "/etc/apt/apt.conf.d/99hook"
MACHINE = "a100"  # fleet.yml gives the nodes these machines

Step = Callable[[Fleet, Node], object]


@dataclass(frozen=True)
class Fault:
    wave: int
    name: str
    node: str
    make: Step
    fix: Step
    messages: tuple[str, ...]
    vars: dict[str, Any] = field(default_factory=dict)


def written(wave: int, name: str, node: str, path: str, content: bytes, *messages: str) -> Fault:
    """A fault: a file with an error in it."""

    def make(_fleet: Fleet, node: Node) -> None:
        node.run("cp", "--archive", path, f"{path}.kept", check=False)
        node.write(path, content)

    def fix(_fleet: Fleet, node: Node) -> None:
        node.run("sh", "-c", 'rm "$1"; [ ! -e "$1.kept" ] || mv "$1.kept" "$1"', "-", path)

    return Fault(wave, name, node, make, fix, (path, *messages))


def moved(wave: int, name: str, node: str, path: str, *messages: str) -> Fault:
    """A fault: a missing file."""

    def make(_fleet: Fleet, node: Node) -> None:
        node.run("mv", path, f"{path}.kept")

    def fix(_fleet: Fleet, node: Node) -> None:
        node.run("mv", f"{path}.kept", path)

    return Fault(wave, name, node, make, fix, messages)


def machine(wave: int, name: str, node: str, *messages: str) -> Fault:
    """A fault: other GPUs, or fewer GPUs."""

    def make(fleet: Fleet, node: Node) -> None:
        fleet.swap_gpus(node.name, name)

    def fix(fleet: Fleet, node: Node) -> None:
        fleet.swap_gpus(node.name, MACHINE)

    return Fault(wave, name, node, make, fix, messages)


def answers_again(fleet: Fleet, node: Node) -> None:
    """Make the driver answer again.

    A real driver then releases waiting processes. The stand-in does not release them, and the watcher would still report that the driver hangs.
    """
    fleet.swap_gpus(node.name, "t4x4")
    node.run("systemctl", "try-restart", "gpu-swarm-health.service")


def hangs(_fleet: Fleet, node: Node) -> None:
    """Make the driver hang. Do not swap the machine for this, because a swap queries the driver too."""
    node.write(f"/{NVML_CONF}", b"init = hang\n")


def stand_in(wave: int, name: str, node: str, *messages: str) -> Fault:
    """A fault: another program answers instead of Docker."""

    def make(_fleet: Fleet, node: Node) -> None:
        node.write("/run/stand_in.py", STAND_IN.read_bytes())
        node.run("systemd-run", "--unit=stand-in", "--collect", "python3", "/run/stand_in.py", name, SOCKET)
        wait_until("the stand-in", lambda: node.start("test", "-S", SOCKET, check=False).returncode == 0)

    def fix(_fleet: Fleet, node: Node) -> None:
        node.run("systemctl", "stop", "stand-in.service")
        node.run("rm", SOCKET)

    return Fault(wave, name, node, make, fix, (SOCKET, *messages), {"gpu_node_docker_socket": SOCKET})


def no_docker(_fleet: Fleet, node: Node) -> None:
    node.run("systemctl", "stop", "docker.service", "docker.socket")
    node.run("systemctl", "mask", "docker.service", "docker.socket")


def docker_again(_fleet: Fleet, node: Node) -> None:
    node.run("systemctl", "unmask", "docker.service", "docker.socket")
    node.dockerd("start", "docker.socket", "docker.service")


def flag_for_later(_fleet: Fleet, node: Node) -> None:
    """Replace dockerd with a script that adds a flag. The running dockerd does not have the flag, and no unit shows it."""
    node.run("mv", DOCKERD, f"{DOCKERD}.kept")
    node.write(DOCKERD, f'#!/bin/sh\nexec {DOCKERD}.kept --default-runtime=runc "$@"\n'.encode())
    node.run("chmod", "755", DOCKERD)


def no_flag(_fleet: Fleet, node: Node) -> None:
    node.run("mv", f"{DOCKERD}.kept", DOCKERD)
    node.dockerd("restart")


FAULTS = [
    written(1, "daemon.json is not JSON", "x1", DAEMON_JSON, b'{"debug": false,}\n', "line 1"),
    written(1, "config.toml is not TOML", "x2", CONFIG_TOML, b"disable-require = perhaps\n", "line 1"),
    moved(1, "no NVML library", "x3", LIBRARY, "libnvidia-ml.so.1", "driver"),
    machine(1, "mismatch", "x4", "version", "reboot"),
    Fault(
        1, "a driver that never answers", "g2", hangs, answers_again,
        ("NVML gave no answer within 2 s", "reboot the node", "gpu_node_nvml_timeout"), {"gpu_node_nvml_timeout": 2},
    ),
    written(2, "daemon.json is a list", "x1", DAEMON_JSON, b"[]\n"),
    moved(2, "config.toml is missing", "x2", CONFIG_TOML, CONFIG_TOML, "nvidia-ctk config"),
    machine(2, "nogpu", "x3", "no GPU", "lspci"),
    Fault(2, "no Docker", "x4", no_docker, docker_again, ("Docker Engine is not installed", "Install it")),
    written(3, "live-restore", "x1", DAEMON_JSON, b'{"live-restore": true}\n', "live-restore", "swarm"),
    stand_in(3, "podman", "x2", "Podman", "install Docker Engine"),
    stand_in(3, "rootless", "x3", "rootless", "Install Docker Engine"),
    stand_in(3, "snap", "x4", "snap", "install Docker Engine"),
    # The assessment finds none of the following faults.
    written(4, "dockerd would refuse", "x1", DAEMON_JSON, b'{"no-such-directive": 1}\n', "no-such-directive", "Nothing was changed"),
    Fault(4, "dockerd refuses", "x2", flag_for_later, no_flag, ("default-runtime", "specified both as a flag", "The files were restored")),
    Fault(
        4, "manager unreachable", "x4", lambda _, node: node.run("iptables", "--append", *FIREWALL),
        lambda _, node: node.run("iptables", "--delete", *FIREWALL), ("2377", "cannot reach a manager"), {"swarm_member_port_timeout": 1},
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    run: Run
    before: dict[str, State]
    after: dict[str, State]
    label: str


@pytest.fixture(scope="module")
def outcome(fleet: Fleet, first: Loud) -> Iterator[Callable[[int], Outcome]]:
    """Return a function that returns the results of a wave. It runs the wave when a test first asks for it."""
    yield functools.cache(lambda wave: make_wave(fleet, [fault for fault in FAULTS if fault.wave == wave]))
    leave_swarm(fleet, "x3")


def make_wave(fleet: Fleet, faults: list[Fault]) -> Outcome:
    manager, healthy = fleet["m1"], fleet["g1"].swarm()["NodeID"]
    nodes = sorted({"g1", "x1", "x2", "x3", "x4", *(fault.node for fault in faults)})
    inventory = fleet.inventory({fault.node: fault.vars for fault in faults}, swarm_managers=["m1"], gpu_nodes=nodes)
    manager.docker("node", "update", "--label-rm", "gpu.count", healthy)  # the run has something to change
    made: list[Fault] = []
    try:
        for fault in faults:
            fault.make(fleet, fleet[fault.node])
            made.append(fault)
        before = {fault.node: State.of(fleet[fault.node]) for fault in faults}
        run = fleet.playbook(inventory)
        after = {fault.node: State.of(fleet[fault.node]) for fault in faults}
        label = manager.docker("node", "inspect", "--format", '{{index .Spec.Labels "gpu.count"}}', healthy)
    finally:
        for fault in made:
            fault.fix(fleet, fleet[fault.node])
    return Outcome(run, before, after, label)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_one_clear_error_and_nothing_changed(fault: Fault, outcome: Callable[[int], Outcome]) -> None:
    found = outcome(fault.wave)
    failures = found.run.failures(fault.node)
    assert found.run.rc != 0
    assert failures, found.run.output
    for words in fault.messages:
        assert words in failures[-1]
    before, after = found.before[fault.node], found.after[fault.node]
    assert after.swarm == before.swarm
    if fault.name == "dockerd refuses":  # dockerd was started with the new files, and then with the former files
        assert after.started != ""
        assert after.files == before.files
    elif fault.name == "manager unreachable":  # the node can join at once
        assert b"node-generic-resources" in (after.files[DAEMON_JSON] or b"")
        assert after.started != ""
    else:
        assert after.unwatched == before.unwatched


def test_a_member_with_a_hung_driver_is_paused_until_a_run_finds_it_healthy(fleet: Fleet, outcome: Callable[[int], Outcome]) -> None:
    outcome(1)
    assert availability_of(fleet, "g2") == ("pause", "active")
    run = fleet.playbook(fleet.inventory(**MAIN))
    assert run.rc == 0, run.output
    assert availability_of(fleet, "g2") == ("active", None)


@pytest.mark.parametrize("wave", sorted({fault.wave for fault in FAULTS}))
def test_other_nodes_are_provisioned(wave: int, outcome: Callable[[int], Outcome]) -> None:
    found = outcome(wave)
    assert not found.run.failures("g1")
    assert found.label == "2"


@pytest.mark.parametrize(
    ("playbook", "groups", "arguments", "text"),
    [
        ("provision", {"gpunodes": ["g1"]}, [], "It has the groups gpunodes. Did you mean gpu_nodes by gpunodes?"),
        ("verify", {"swarm_managers": ["m1"]}, [], "the group gpu_nodes is not in the inventory"),
        ("status", {"gpu_nodes": ["g1"]}, [], "the group swarm_managers is not in the inventory"),
        ("deprovision", {"gpu_nodes": ["g1"], "web": ["x5"]}, ["--limit", "web"], "--limit leaves none of swarm_managers, gpu_nodes and"),
        ("maintain", {}, ["--check"], "The inventory has no hosts at all"),
    ],
)
def test_a_run_over_no_hosts_is_no_success(playbook: str, groups: dict[str, list[str]], arguments: list[str], text: str, fleet: Fleet) -> None:
    run = fleet.playbook(fleet.inventory(**groups), *arguments, playbook=f"fleet.gpu_swarm.{playbook}")
    assert run.rc == 2, run.output
    (host,) = run.recap
    assert text in run.failures(host)[0]
    assert "There is no host to work on" in run.failures(host)[0]


def test_invalid_settings_are_found_before_any_change(fleet: Fleet, first: Loud) -> None:
    inventory = fleet.inventory({"g2": {"gpu_node_advertize": []}}, **MAIN)
    before = {name: State.of(fleet[name]) for name in NODES}
    run = fleet.playbook(inventory, *advertised_as("SOMETHING-TO-DO"), "--extra-vars", "provision_wait=soon provision_disrupt=all")
    assert run.rc != 0
    (text,) = run.failures("m1")
    assert text.startswith("provision_wait is 'soon', but must be a whole number of seconds")
    assert "g2: gpu_node_advertize is not a setting. Write gpu_node_advertise" in text
    assert {name: State.of(fleet[name]) for name in NODES} == before


def test_a_first_manager_with_several_addresses_is_found_before_any_change(fleet: Fleet) -> None:
    node = fleet["x1"]
    node.run("ip", "link", "add", "net1", "type", "veth", "peer", "name", "net2")
    try:
        node.run("sh", "-c", "ip addr add 198.51.100.1/24 dev net1 && ip link set net1 up && ip link set net2 up")
        assert b"could not choose an IP address to advertise" in node.start("docker", "swarm", "init", check=False).stderr
        run = fleet.playbook(fleet.inventory(swarm_managers=["x1"]), "--check")
    finally:
        node.run("ip", "link", "delete", "net1")
    assert run.rc == 2, run.output
    assert f"{node.address} (eth0), 198.51.100.1 (net1). Set swarm_member_advertise_addr of x1 to" in run.failures("x1")[-1]


def test_addresses_that_docker_would_ignore_are_found_before_any_change(fleet: Fleet, first: Loud) -> None:
    """If a host joins, such an address is an error. A member keeps its former address, and the run prints a warning."""
    addresses = {"x1": {"swarm_member_advertise_addr": "eth9"}, "g1": {"swarm_member_advertise_addr": "192.0.2.99"}}
    run = fleet.playbook(fleet.inventory(addresses, swarm_managers=["m1"], gpu_nodes=["g1", "x1"]), "--check")
    assert (run.rc, run.failed()) == (2, ["x1"]), run.output
    assert "swarm_member_advertise_addr is eth9, but this machine has no interface eth9 with an address" in run.failures("x1")[-1]
    assert f"This machine has {fleet['x1'].address} (eth0)" in run.failures("x1")[-1]
    shown = " ".join(run.output.split())
    assert f"g1 advertises {fleet['g1'].address}, and swarm_member_advertise_addr is 192.0.2.99. A member keeps the address" in shown


@pytest.mark.rare
def test_a_check_run_finds_a_missing_version_on_nodes_without_a_repository(fleet: Fleet) -> None:
    """Nodes whose version exists get no message.

    The disk of each node stays unchanged, even if apt is configured to run a command after it has read a list.
    """
    wanted = {"x1": "9.9.9", "x2": "1.19.1", "x3": "1.19.1", "x4": "1.19"}
    hosts = {name: {"nvidia_container_toolkit_version": version} for name, version in wanted.items()}
    fleet["x2"].write(HOOK, b'APT::Update::Post-Invoke-Success {"touch /var/lib/hook";};\n')
    for name in wanted:
        assert b"lab-repo/libnvidia" not in (fleet[name].read("/etc/apt/sources.list.d/nvidia-container-toolkit.list") or b"")
        fleet[name].touch()
    try:
        run = fleet.playbook(fleet.inventory(hosts, swarm_managers=["m1"], gpu_nodes=list(wanted)), "--check")
        touched = {name: fleet[name].touched() for name in wanted}
    finally:
        fleet["x2"].run("rm", HOOK)
    assert (run.rc, run.failed()) == (2, ["x1", "x4"]), run.output
    (text,) = run.failures("x1")[-1:]
    assert "x1: apt cannot get version 9.9.9-1 of the NVIDIA Container Toolkit: " in text
    assert "All packages are available in version 1.20.0-1, 1.19.1-1" in text
    assert text.endswith("Set nvidia_container_toolkit_version to an available version.")
    assert "nvidia_container_toolkit_version is 1.19" in run.failures("x4")[-1]
    assert touched == {name: [] for name in wanted}
    assert {name: fleet[name].run("find", "/tmp", "-name", "gpu-swarm-packages-*") for name in wanted} == dict.fromkeys(wanted, "")


SOURCES = "/etc/apt/sources.list.d"
# The role's definition of the repository, written in another form.
ANOTHER = b"Types: deb\nURIs: http://lab-repo/libnvidia-container\nSuites: stable/deb/amd64/\nTrusted: yes\n"


def sources(node: Node) -> dict[str, bytes | None]:
    """Return the package sources that apt reads."""
    return {name: node.read(f"{SOURCES}/{name}") for name in node.run("ls", SOURCES).splitlines() if not name.endswith("~")}


def test_another_definition_of_the_repository(fleet: Fleet) -> None:
    """If two definitions conflict, the role fails and changes nothing. Otherwise it removes the other definition and keeps a copy of its file."""
    node, playbook = fleet["x5"], str(Path(__file__).with_name("toolkit.yml"))
    hosts = fleet.inventory(swarm_workers=["x5"])
    node.write(f"{SOURCES}/company.list", b"# its own\ndeb [trusted=yes] http://lab-repo/libnvidia-container/stable/deb/amd64 /\n")
    node.write(f"{SOURCES}/another.sources", ANOTHER)
    try:
        before = sources(node)
        refused = fleet.playbook(hosts, playbook=playbook)
        after = sources(node)
        node.run("rm", f"{SOURCES}/another.sources")
        shown = fleet.playbook(hosts, "--check", "--diff", playbook=playbook)
        done = fleet.playbook(hosts, playbook=playbook)
        company, copies = node.read(f"{SOURCES}/company.list"), node.run("sh", "-c", f"cat {SOURCES}/company.list.*~").splitlines()
        node.run("apt-get", "check")
    finally:
        node.run("sh", "-c", f"rm -f {SOURCES}/company.list* {SOURCES}/another.sources {SOURCES}/nvidia-container-toolkit.list")
        node.run("apt-get", "purge", "--yes", "*nvidia-container*")
    assert (refused.rc, shown.rc, done.rc) == (2, 0, 0), refused.output + shown.output + done.output
    (text,) = refused.failures("x5")[-1:]
    assert text.startswith("apt refuses its package sources, and the definition of the repository was left as it was: E: Conflicting values")
    assert f"Remove the other definition of the repository ({SOURCES}/another.sources), or" in text
    assert after == before
    assert "-deb [trusted=yes] http://lab-repo/libnvidia-container/stable/deb/amd64 /" in shown.output
    assert (company, copies[-1][:20]) == (b"# its own\n", "deb [trusted=yes] ht")


def test_a_run_without_become_is_refused(fleet: Fleet, first: Loud) -> None:
    run = fleet.module("g1", "fleet.gpu_swarm.gpu_node", {}, "--extra-vars", "ansible_user=nobody")
    assert run.rc != 0
    assert "become: true" in run.failures("g1")[-1]


def test_a_node_without_sudo_is_refused(fleet: Fleet) -> None:
    run = fleet.module("g1", "fleet.gpu_swarm.gpu_node", {}, "--extra-vars", "ansible_user=nobody ansible_become=true")
    assert run.rc != 0
    assert run.failures("g1")[-1].startswith("g1: the task cannot become root: sudo is not installed there. Install it")


def test_a_gpu_that_is_lost_during_the_read_is_named_and_the_others_are_read(fleet: Fleet) -> None:
    before = State.of(fleet["x1"])
    fleet.swap_gpus("x1", "h100x8-lost-half-way")
    try:
        run = fleet.module("x1", "fleet.gpu_swarm.gpu_node", {}, "--check")
    finally:
        fleet.swap_gpus("x1", MACHINE)
    (result,) = run.results("x1")
    assert len(result["resources"]) == 7
    assert [(gpu["index"], gpu["reason"]) for gpu in result["left_out"]] == [(5, "GPU is lost")]
    assert "[WARNING]: x1: GPU 5 (NVIDIA-H100-80GB-HBM3, " in run.output
    assert State.of(fleet["x1"]) == before
    assert fleet["x1"].read(f"{STATE_DIR}/record.json") is None
