# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""deprovision: a small separate fleet is provisioned and deprovisioned in steps. Each test continues with the state after the previous test."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .fleet import CONFIG_TOML, DAEMON_JSON, STATE_DIR, Fleet, Node, Run, of_its_own

NAME = "e2e-deprovision"
PLAYBOOK = "fleet.gpu_swarm.deprovision"
FLEET = """
vars:
  nvidia_container_toolkit_repository: http://lab-repo/libnvidia-container
nodes:
  d1: {groups: [swarm_managers, gpu_nodes], gpus: t4x4, image: debian12}
  d2: {groups: [swarm_managers]}
  d3: {gpus: rtx4090x2, daemon_json: '{ "log-opts": {"max-size": "10m"},   "debug":false}'}
"""
NODES = ["d1", "d2", "d3"]
GPU_NODES = ["d1", "d3"]
DEFINITION = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
KEY = "/usr/share/keyrings/nvidia-container-toolkit-keyring.asc"
# Files that exist only because packages were installed.
OF_PACKAGES = {CONFIG_TOML}
OF_REPOSITORY = {DEFINITION, KEY}
RECORD = f"{STATE_DIR}/toolkit-files.json"
LINK = "/etc/systemd/system/multi-user.target.wants/nvidia-cdi-refresh.path"
# Files that a user may have under the name of the definition.
MINE = b"# deb https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /\n"
FAILING = """
- hosts: gpu_nodes
  roles: [{role: fleet.gpu_swarm.nvidia_container_toolkit, vars: {nvidia_container_toolkit_version: 9.9.9}}]
"""
WATCHER, MANAGER, DEVICES = (f"/etc/systemd/system/gpu-swarm-{name}.service" for name in ("health", "manager", "devices"))


def digests(node: Node) -> dict[str, str]:
    """Return the hash of every file under /etc, and of every key of a package source."""
    lines = node.run("find", "/etc", "/usr/share/keyrings", "-type", "f", "-exec", "sha256sum", "{}", "+").splitlines()
    return {path: digest for digest, path in (line.split(maxsplit=1) for line in lines)}


def differing(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def listed(manager: Node) -> dict[str, dict[str, Any]]:
    """Return the manager's list of nodes by host name."""
    found = manager.docker_json("node", "inspect", *manager.docker("node", "ls", "--quiet").split())
    return {node["Description"]["Hostname"]: node for node in found}


def offered(node: Node) -> tuple[str, Any]:
    """Return the default runtime and the generic resources of the node's dockerd."""
    info = node.docker_json("info", "--format", "{{json .}}")
    return info["DefaultRuntime"], info.get("GenericResources")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    yield from of_its_own(NAME, FLEET, tmp_path_factory.mktemp("deprovision"))


@pytest.fixture(scope="module")
def inventory(fleet: Fleet) -> Path:
    """Provision with d1 first, which creates and leads the swarm."""
    return fleet.inventory(swarm_managers=["d1", "d2"], gpu_nodes=GPU_NODES)


@pytest.fixture(scope="module")
def before(fleet: Fleet, inventory: Path) -> dict[str, dict[str, str]]:
    """Return the files of each node from before the provisioning, then provision the nodes."""
    found = {name: digests(fleet[name]) for name in NODES}
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    units = {"d1": {WATCHER, MANAGER, DEVICES}, "d2": {MANAGER}, "d3": {WATCHER, DEVICES}}
    assert {name: differing(found[name], digests(fleet[name])) & {WATCHER, MANAGER, DEVICES} for name in NODES} == units
    for name in GPU_NODES:
        assert offered(fleet[name])[0] == "nvidia"
        assert differing(found[name], digests(fleet[name])) == {DAEMON_JSON, *OF_PACKAGES, *OF_REPOSITORY, *units[name]}
    return found


def deprovision(fleet: Fleet, inventory: Path, *arguments: str) -> Run:
    return fleet.playbook(inventory, *arguments, playbook=PLAYBOOK)


def test_check_reports_the_plan_and_changes_nothing(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    started = {name: fleet[name].started() for name in NODES}
    for name in NODES:
        fleet[name].touch()
    run = deprovision(fleet, inventory, "--check", "--diff")
    assert run.rc == 0, run.output
    for words in (
        "d3    removes node labels; restores its files; restarts dockerd;", "d1    removes", "ends the swarm",
        "d2    removes node labels; clears /var/lib/gpu-swarm; leaves the swarm",
    ):  # fmt: skip
        assert words in run.output, run.output
    assert {name: fleet[name].touched() for name in NODES} == {name: [] for name in NODES}
    assert {name: fleet[name].started() for name in NODES} == started


def test_a_member_may_stay(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    """The node keeps the availability that its operator set, and the label of another owner."""
    manager, node = fleet["d1"], fleet["d3"]
    manager.docker("node", "update", "--availability", "drain", "--label-add", "rack=r1", node.swarm()["NodeID"])
    node.run("sh", "-c", 'mkdir --parents "${1%/*}" && ln --symbolic /lib/systemd/system/nvidia-cdi-refresh.path "$1"', "-", LINK)  # like packages do
    run = deprovision(fleet, inventory, "--limit", "d3", "--extra-vars", json.dumps({"deprovision_leave": False, "deprovision_packages": True}))
    assert run.rc == 0, run.output
    assert list(run.recap) == ["d3"]
    spec = listed(manager)["d3"]["Spec"]
    assert (spec["Labels"], spec["Availability"]) == ({"rack": "r1"}, "drain")
    assert offered(node) == ("runc", None)
    assert differing(before["d3"], digests(node)) == set()
    assert node.start("test", "-L", LINK, check=False).returncode != 0
    assert node.run("sh", "-c", "command -v nvidia-ctk", check=False) == ""
    assert node.read(f"{STATE_DIR}/lock") is None
    assert offered(manager)[0] == "nvidia"


def test_work_is_waited_for_and_the_other_nodes_leave(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    """d2 is demoted first.

    d3 has nothing of this collection any more, but leaves too, because the inventory names it. Its container would only lose the swarm's network.
    Containers on d2's own network stay on that network.
    """
    busy, free, attached = fleet["d1"], fleet["d2"], fleet["d3"]
    busy.docker("node", "update", "--availability", "active", attached.swarm()["NodeID"])
    busy.docker("network", "create", "--driver", "overlay", "--attachable", "ranks")
    free.docker("network", "create", "alone")
    try:
        for node, name, network in ((busy, "notebook", "bridge"), (attached, "trainer", "ranks"), (free, "editor", "alone")):
            node.docker("run", "--detach", "--name", name, "--network", network, "lab/task")
        was = (busy.files(), busy.started())
        run = deprovision(fleet, inventory, "--extra-vars", json.dumps({"provision_wait": 4}))
        assert run.rc == os.EX_TEMPFAIL, run.output
        assert run.failed() == []
        assert "waiting for container notebook (for " in run.row("d1")
        assert "waiting for container trainer on the swarm's network ranks (for " in run.row("d3")
        assert [run.row(name).endswith("; paused") for name in GPU_NODES] == [True, True]
        assert (busy.files(), busy.started(), sorted(listed(busy))) == (*was, ["d1", "d3"])
        spec = listed(busy)["d1"]["Spec"]
        assert (spec["Availability"], spec["Labels"]["gpu-swarm.former-availability"]) == ("pause", "active")
        assert {name: fleet[name].swarm()["LocalNodeState"] for name in ("d2", "d3")} == {"d2": "inactive", "d3": "active"}
        assert busy.docker("ps", "--format", "{{.Names}}") == "notebook"
        assert [networks(attached, "trainer"), networks(free, "editor")] == [["ranks"], ["alone"]]
    finally:
        for node, name in ((busy, "notebook"), (attached, "trainer"), (free, "editor")):
            node.run("docker", "rm", "--force", name, check=False)
        free.docker("network", "rm", "alone")


def networks(node: Node, container: str) -> list[str]:
    """Return the networks of a running container."""
    found = node.docker_json("inspect", container)[0]
    assert found["State"]["Running"]
    return list(found["NetworkSettings"]["Networks"])


def test_the_last_manager_stays_while_its_swarm_has_contents(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    """A run was killed after d3 had left the swarm, but before d3 was removed from the list. The next run removes the entry."""
    last, left = fleet["d1"], fleet["d3"]
    last.docker("node", "update", "--label-add", "gpu-swarm-leaving=d3", left.swarm()["NodeID"])
    left.leave()
    last.docker("service", "create", "--detach", "--quiet", "--no-resolve-image", "--replicas", "0", "--name", "shop", "lab/task")

    run = deprovision(fleet, inventory)
    assert run.rc != 0
    assert "service shop would be lost with the swarm" in run.failures("d1")[-1]
    assert not run.failures("d3")
    assert list(listed(last)) == ["d1"]
    spec = listed(last)["d1"]["Spec"]
    assert (spec["Labels"], spec["Availability"]) == ({}, "active")
    assert offered(last) == ("runc", None)


def test_the_swarm_ends_with_its_last_manager(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    fleet["d1"].docker("service", "rm", "shop")
    run = deprovision(fleet, inventory)
    assert run.rc == 0, run.output
    for name in NODES:
        assert fleet[name].swarm()["LocalNodeState"] == "inactive"
        assert offered(fleet[name]) == ("runc", None)
        kept = [RECORD] if name == "d1" else []
        assert fleet[name].run("find", "/var/lib", "-path", "/var/lib/gpu-swarm*", "-type", "f").split() == kept
    changed = {name: differing(before[name], digests(fleet[name])) for name in NODES}
    assert changed == {"d1": OF_PACKAGES | OF_REPOSITORY, "d2": set(), "d3": set()}
    stays = f"d1: the NVIDIA Container Toolkit and its files ({', '.join(sorted(OF_PACKAGES | OF_REPOSITORY))}) are not removed. To remove them, set"
    assert stays in " ".join(run.output.split())


def test_another_run_changes_nothing(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    for name in NODES:
        fleet[name].touch()
    run = deprovision(fleet, inventory)
    assert run.rc == 0, run.output
    assert run.changed() == dict.fromkeys(NODES, 0)
    assert {name: fleet[name].touched() for name in NODES} == {name: [] for name in NODES}


@pytest.mark.parametrize("mine", [None, MINE], ids=["none there", "one there"])
def test_leftovers_of_a_failed_run_are_removed(mine: bytes | None, fleet: Fleet, before: dict[str, dict[str, str]], tmp_path: Path) -> None:
    node, inventory, playbook = fleet["d3"], fleet.inventory(gpu_nodes=["d3"]), tmp_path / "failing.yml"
    if mine:
        node.write(DEFINITION, mine)
    was = digests(node)
    playbook.write_text(FAILING)
    failed = fleet.playbook(inventory, playbook=str(playbook))
    assert "cannot get version 9.9.9-1 of the NVIDIA Container Toolkit" in failed.failures("d3")[-1]
    assert {DEFINITION, KEY} <= differing(was, digests(node))
    run = deprovision(fleet, inventory)
    assert run.rc == 0, run.output
    assert differing(was, digests(node)) == set()
    assert node.run("find", "/var/lib", "-maxdepth", "1", "-name", "gpu-swarm*") == ""
    assert deprovision(fleet, inventory).changed() == {"d3": 0}
    node.run("rm", "--force", DEFINITION)


def test_the_toolkit_is_removed_later_with_its_files(fleet: Fleet, inventory: Path, before: dict[str, dict[str, str]]) -> None:
    run = deprovision(fleet, inventory, "--extra-vars", "deprovision_packages=true")
    assert run.rc == 0, run.output
    assert differing(before["d1"], digests(fleet["d1"])) == set()
    assert fleet["d1"].run("find", "/var/lib", "-maxdepth", "1", "-name", "gpu-swarm*") == ""
