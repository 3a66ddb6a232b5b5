# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""maintain: a user's tasks and a reboot in the node's window, and a check of the node before work returns."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.lab.fleet import MACHINES
from tests.lab.nodes import NVML_CONF

from .conftest import Loud
from .fleet import Fleet, Run, wait_until
from .swarm import GPU_NODES, KIND, availabilities, availability_of, shown
from .work import all_running, service

WHOLE = (MACHINES / "rtx4090x2.conf").read_text()
ROOT = Path(__file__).parents[2]
AS_DRIVER = "python3-jsondiff"  # used instead of the driver's packages, because the lab's mirror has this package and the nodes do not need it


class Maintenance:
    def __init__(self, fleet: Fleet, inventory: Path, work: Path) -> None:
        self.fleet, self.inventory, self.file = fleet, inventory, work / "driver.yml"

    def run(self, *tasks: dict[str, Any], limit: str = "g1", **options: Any) -> Run:
        self.file.write_text(json.dumps(tasks))
        named = {f"provision_{name}" if name == "wait" else f"maintain_{name}": value for name, value in options.items()}
        settings = json.dumps({"maintain_tasks": str(self.file), **named})
        return self.fleet.playbook(self.inventory, "--limit", limit, "--extra-vars", settings, playbook="fleet.gpu_swarm.maintain")

    def example(self, name: str, limit: str, **settings: Any) -> Run:
        settings["maintain_tasks"] = str(ROOT / "docs/examples" / name)
        return self.fleet.playbook(self.inventory, "--limit", limit, "--extra-vars", json.dumps(settings), playbook="fleet.gpu_swarm.maintain")

    def boots(self) -> list[str]:
        return [self.fleet[name].run("cat", "/proc/sys/kernel/random/boot_id") for name in GPU_NODES]


@pytest.fixture
def maintenance(fleet: Fleet, first: Loud, inventory: Path, tmp_path: Path) -> Maintenance:
    return Maintenance(fleet, inventory, tmp_path)


@pytest.mark.rare
def test_a_driver_is_installed_by_the_example_and_the_node_rebooted_in_its_window(fleet: Fleet, maintenance: Maintenance) -> None:
    manager, node = fleet["m1"], fleet["g1"]
    since, before = manager.run("date", "+%s.%N"), maintenance.boots()
    upgrade = {"maintain_reboot": True, "maintain_timeout": 120, "maintain_id": "driver-580", "driver_packages": [AS_DRIVER]}
    with service(fleet, "web", 2, "--constraint", "node.role==worker"):
        run = maintenance.example("driver.yml", "g1", **upgrade)
        assert run.rc == 0, run.output
        assert "runs driver.yml and reboots" in run.output
        wait_until("the tasks of web", lambda: all_running(manager, "web", 2))
    assert node.run("dpkg-query", "--show", "--showformat=${db:Status-Status}", AS_DRIVER) == "installed"
    assert [was == now for was, now in zip(before, maintenance.boots(), strict=True)] == [False, True]
    assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]
    assert availability_of(fleet, "g1") == ("active", None)
    assert shown(fleet, "g1") == {KIND: sorted(node.gpus())}

    booted = maintenance.boots()
    run = maintenance.example("driver.yml", "g1", **upgrade)
    assert (run.rc, maintenance.boots()) == (0, booted), run.output
    assert run.row("g1").endswith("ready, left alone, because maintenance driver-580 was already finished on this node")
    assert availabilities(fleet, "g1", since) == ["pause", "drain", "active"]


@pytest.mark.rare
def test_the_example_installs_a_kernel_and_starts_it_only_with_its_driver(fleet: Fleet, maintenance: Maintenance) -> None:
    """The node's kernel is that of the machine. The test adds the files that a kernel package would install."""
    node, older, newest = fleet["g1"], "9.9.9+deb13-lab", "10.1.0+deb13-lab"
    upgrade = {"maintain_reboot": True, "maintain_timeout": 120, "maintain_id": "kernel-10", "kernel_packages": [AS_DRIVER]}
    for kernel in (older, newest):
        node.write(f"/boot/vmlinuz-{kernel}", b"")
    node.write(f"/lib/modules/{older}/updates/dkms/nvidia.ko", b"")
    node.write(f"/lib/modules/{newest}/kernel/drivers/video/fbdev/nvidia/nvidiafb.ko", b"")
    booted = maintenance.boots()
    try:
        run = maintenance.example("kernel.yml", "g1", **upgrade)
        assert run.rc == 2, run.output
        assert f"there is no NVIDIA driver for vmlinuz-{newest}" in run.row("g1")
        assert (maintenance.boots(), availability_of(fleet, "g1")) == (booted, ("pause", "active"))
        node.write(f"/lib/modules/{newest}/updates/dkms/nvidia-current.ko.xz", b"")
        run = maintenance.example("kernel.yml", "g1", **upgrade)
        assert run.rc == 0, run.output
        assert [was == now for was, now in zip(booted, maintenance.boots(), strict=True)] == [False, True]
        assert availability_of(fleet, "g1") == ("active", None)
    finally:
        node.run("rm", "--recursive", "--force", "/lib/modules", *(f"/boot/vmlinuz-{kernel}" for kernel in (older, newest)))


def returned(fleet: Fleet, inventory: Path) -> None:
    """Restore the cards of g1. A manager may have paused g1 because of the missing cards. The next run then returns g1 to service."""
    run = fleet.playbook(inventory)
    if run.rc:
        assert "paused for a fault" in run.row("g1")
        run = fleet.playbook(inventory)
    assert run.rc == 0, run.output


@pytest.mark.rare
def test_a_node_that_lost_a_gpu_stays_paused(fleet: Fleet, inventory: Path, maintenance: Maintenance) -> None:
    node = fleet["g1"]
    gone = node.gpus()[1]
    less = {"dest": f"/{NVML_CONF}", "content": f"seed = g1\n{WHOLE.replace('[gpu 0-1]', '[gpu 0]')}", "mode": "0644"}
    try:
        run = maintenance.run({"name": "Move a card to another machine", "ansible.builtin.copy": less})
        assert run.rc == 2, run.output
        assert f"{gone} is gone" in run.failures("g1")[-1]
        assert availability_of(fleet, "g1") == ("pause", "active")

        # Only a clean assessment returns a node to service.
        run = fleet.playbook(inventory)
        assert run.rc == 2, run.output
        assert "Still on pause: it returns to service with the first run that finds nothing wrong with it" in run.row("g1")
        assert availability_of(fleet, "g1") == ("pause", "active")
    finally:
        fleet.swap_gpus("g1", "rtx4090x2")
    returned(fleet, inventory)
    assert availability_of(fleet, "g1") == ("active", None)
    assert gone in shown(fleet, "g1")[KIND]


@pytest.mark.rare
def test_a_container_that_was_started_meanwhile_prevents_a_reboot(fleet: Fleet, inventory: Path, maintenance: Maintenance) -> None:
    node, boots = fleet["g1"], maintenance.boots()
    start = {"name": "Somebody starts a notebook", "ansible.builtin.command": "docker run --detach --name notebook lab/task"}
    try:
        run = maintenance.run(start, reboot=True, wait=2)
        assert run.rc == os.EX_TEMPFAIL, run.output
        assert run.row("g1").partition(" waiting for ")[2].startswith("container notebook (for "), run.output
        assert (maintenance.boots(), node.docker("ps", "--format", "{{.Names}}")) == (boots, "notebook")
        assert availability_of(fleet, "g1") == ("pause", "active")
    finally:
        node.docker("rm", "--force", "notebook")


def test_a_node_whose_maintenance_failed_stays_paused(fleet: Fleet, inventory: Path, maintenance: Maintenance) -> None:
    """The node is the canary, although both nodes are idle. The run does not change the other node."""
    since = fleet["m1"].run("date", "+%s.%N")
    run = maintenance.run({"name": "Upgrade the driver", "ansible.builtin.command": {"argv": ["false"]}}, limit="gpu_nodes")
    assert run.rc == 2, run.output
    assert "out: the task Upgrade the driver: non-zero return code" in run.row("g1")
    assert "untouched: the run stopped before this node, because g1 failed" in run.failures("g2")[-1]
    assert availabilities(fleet, "g2", since) == []
    assert availability_of(fleet, "g1") == ("pause", "active")
    run = fleet.playbook(inventory)
    assert run.rc == 0, run.output
    assert availability_of(fleet, "g1") == ("active", None)


def test_playbooks_follow_each_other_in_one_run(fleet: Fleet, inventory: Path, maintenance: Maintenance) -> None:
    """A playbook records results for a node, such as waiting or changed. These results do not affect the next playbook."""
    node, since = fleet["g1"], fleet["m1"].run("date", "+%s.%N")
    maintenance.file.write_text(json.dumps([{"name": "Touch", "ansible.builtin.command": "touch /var/tmp/maintained"}]))
    provision, maintain = ({"ansible.builtin.import_playbook": f"fleet.gpu_swarm.{name}"} for name in ("provision", "maintain"))
    ended = {"name": "The work ends", "ansible.builtin.command": "docker rm --force notebook"}
    site = maintenance.file.with_name("site.yml")
    site.write_text(json.dumps([provision, maintain, {"hosts": "g1", "gather_facts": False, "become": True, "tasks": [ended]}, provision]))
    settings = json.dumps({"maintain_tasks": str(maintenance.file), "provision_wait": 0})
    node.docker("run", "--detach", "--name", "notebook", "lab/task")
    try:
        run = fleet.playbook(inventory, "--limit", "gpu_nodes", "--extra-vars", settings, playbook=str(site))
    finally:
        node.run("docker", "rm", "--force", "notebook", check=False)
    assert run.rc == os.EX_TEMPFAIL, run.output  # the maintenance of g1 still has to run
    assert "g1" in re.findall(r"^waiting: (.*)$", run.output, re.MULTILINE)
    assert [fleet[name].read("/var/tmp/maintained") for name in GPU_NODES] == [None, b""]
    assert run.row("g1").endswith(" ready"), run.output
    assert [availabilities(fleet, name, since) for name in GPU_NODES] == [["pause", "active"]] * len(GPU_NODES)


@pytest.mark.rare
def test_docker_engine_is_upgraded_by_the_example_the_managers_first(fleet: Fleet, maintenance: Maintenance) -> None:
    upgrade = {"docker_packages": ["docker.io"], "maintain_id": "docker-new"}
    started = {name: fleet[name].started() for name in ("m1", "g1")}

    run = maintenance.example("docker.yml", "swarm_managers", **upgrade)
    assert run.rc == 0, run.output
    managers = {name: fleet[name].started() for name in started}
    assert [managers[name] == started[name] for name in started] == [False, True]

    run = maintenance.example("docker.yml", "m1:g1", **upgrade)
    assert run.rc == 0, run.output
    assert run.row("m1").endswith("ready, left alone, because maintenance docker-new was already finished on this node"), run.output
    everywhere = {name: fleet[name].started() for name in started}
    assert [everywhere[name] == managers[name] for name in started] == [True, False]
    assert availability_of(fleet, "g1") == ("active", None)


@pytest.mark.rare
def test_a_card_is_replaced_by_the_example(fleet: Fleet, inventory: Path, maintenance: Maintenance) -> None:
    """The node is drained and stays paused before the card is replaced. Afterwards the same command returns it to service."""
    node, (old, kept) = fleet["g1"], fleet["g1"].gpus()
    run = maintenance.example("replace_card.yml", "g1", old_card=old)
    assert run.rc == 2, run.output
    assert f"{old} is still in the node, which is empty and stays paused" in run.row("g1")
    assert availability_of(fleet, "g1") == ("pause", "active")
    try:
        node.write(f"/{NVML_CONF}", f"seed = another\n{WHOLE}".encode())
        assert not {old, kept} & set(node.gpus())
        run = maintenance.example("replace_card.yml", "g1", old_card=old)
        assert run.rc == 0, run.output
        assert shown(fleet, "g1") == {KIND: sorted(node.gpus())}
        assert availability_of(fleet, "g1") == ("active", None)
    finally:
        fleet.swap_gpus("g1", "rtx4090x2")
    returned(fleet, inventory)
