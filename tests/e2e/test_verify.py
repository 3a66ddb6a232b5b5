# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""verify: a working fleet passes, a node that does not isolate fails alone, and nothing is left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Loud
from .fleet import CONFIG_TOML, Fleet, Run, wait_until

PLAYBOOK = "fleet.gpu_swarm.verify"
IMAGE = ("--extra-vars", "verify_image=lab/cuda")


def verify(fleet: Fleet, inventory: Path, *arguments: str, image: tuple[str, ...] = IMAGE, columns: int = 1000) -> Run:
    before = fleet["m1"].docker("service", "ls", "--quiet")
    run = fleet.playbook(inventory, *image, *arguments, playbook=PLAYBOOK, env={"COLUMNS": str(columns)})
    assert fleet["m1"].docker("service", "ls", "--quiet") == before
    return run


def lines(run: Run, name: str) -> list[str]:
    """Return a host's lines in the table."""
    return re.findall(rf"^{name} +(\S.*)$", run.output.partition("verdict")[2].partition("nodes: ")[0], re.MULTILINE)


@pytest.fixture
def leaking(fleet: Fleet, first: Loud) -> Iterator[str]:
    """Prepare a node whose toolkit was never configured with the variable of the kind."""
    node = fleet["g2"]
    original = node.read(CONFIG_TOML) or b""
    broken = re.sub(rb"(?m)^swarm-resource.*\n", b"", original)
    assert broken != original
    node.write(CONFIG_TOML, broken)
    yield node.name
    node.write(CONFIG_TOML, original)


def test_a_working_fleet_passes(fleet: Fleet, inventory: Path, first: Loud) -> None:
    """verify uses an image that the nodes already have, without a registry. The nodes have both releases of Docker."""
    since = {name: fleet[name].run("date", "+%s") for name in ("g1", "g2")}
    run = verify(fleet, inventory, image=())
    assert run.rc == 0, run.output
    assert re.search(r"^image lab/cuda:latest, which the node has: g1, g2$", run.output, re.MULTILINE), run.output
    logs = [fleet[name].run("journalctl", "--unit", "docker", "--since", f"@{since[name]}", "--no-pager") for name in since]
    assert not [line for log in logs for line in log.splitlines() if re.search(r"(?<!push/)\bpull", line)]  # swarm's gossip logs push/pull
    assert {name: lines(run, name)[0].split(maxsplit=3)[:3] for name in ("g1", "g2")} == {
        name: ["1", "NVIDIA-GPU", "1"] for name in ("g1", "g2")
    }
    assert set(run.changed().values()) == {0}


def test_a_fleet_without_a_free_gpu_is_not_tested(fleet: Fleet, inventory: Path, first: Loud) -> None:
    manager, running = fleet["m1"], ("docker", "ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=takes-all")
    own = ("--constraint", "node.hostname==g1", "--generic-resource", "NVIDIA-GPU=2", "lab/task")
    manager.docker("service", "create", "--quiet", "--detach", "--no-resolve-image", "--name", "takes-all", *own)
    try:
        wait_until("its task", lambda: "Running" in manager.docker("service", "ps", "takes-all"))
        run = verify(fleet, inventory, "--limit", "g1")
    finally:
        manager.docker("service", "rm", "takes-all")
        wait_until("its GPUs to be free", lambda: not fleet["g1"].run(*running))
    assert run.rc == 75, run.output
    assert re.search(r"^NOT TESTED, so the exit status is 75: nothing free to test with on g1\.$", run.output, re.MULTILINE), run.output


def test_check_shows_what_would_be_tested(fleet: Fleet, inventory: Path, first: Loud) -> None:
    run = verify(fleet, inventory, "--check", "--extra-vars", "verify_gpus=all", columns=60)
    assert run.rc == 0, run.output
    assert run.too_wide(60) == []
    assert lines(run, "g1") == ["2 NVIDIA-GPU  –     would be tested"]
    assert lines(run, "g2") == ["4 NVIDIA-GPU  –     would be tested"]


@pytest.mark.parametrize(("gpus", "words"), [("1", "NOT ISOLATED: 1 allocated, but the task sees 4"), ("all", "added nothing to the task")])
def test_a_node_that_does_not_isolate_fails_alone(fleet: Fleet, inventory: Path, leaking: str, gpus: str, words: str) -> None:
    """The node fails even if a task holds all GPUs of the node, and so cannot see more than its own."""
    run = verify(fleet, inventory, "--extra-vars", f"verify_gpus={gpus}")
    assert run.rc != 0
    (text,) = run.failures(leaking)
    assert words in text
    assert "does not name DOCKER_RESOURCE_NVIDIA-GPU" in text
    assert "Run fleet.gpu_swarm.provision for this node" in text
    assert "passed" in lines(run, "g1")[0]
    assert not run.failures("g1")


def test_a_failure_of_cuda_is_named_even_if_nvidia_smi_works(fleet: Fleet, inventory: Path, first: Loud) -> None:
    """One node has uninitialised NVSwitches, the other has no libcuda. verify checks the device first, because libcuda would create the device."""
    waits, lacks = fleet["g1"], fleet["g2"]
    waits.unwatched()  # otherwise the managers may pause the node for the missing device, and that may happen during a later test
    waits.run("sed", "-i", "1i cuda-init = system-not-ready", "/etc/gpu-lab/nvml.conf")
    lacks.run("mv", "/usr/lib/libcuda.so.1", "/root/libcuda.so.1")
    run = verify(fleet, inventory)
    waits.run("sed", "-i", "1d", "/etc/gpu-lab/nvml.conf")
    lacks.run("mv", "/root/libcuda.so.1", "/usr/lib/libcuda.so.1")
    assert "cuInit returns 802 (CUDA_ERROR_SYSTEM_NOT_READY). The node's NVSwitches are not initialised." in run.failures("g1")[-1]
    assert "Install libcuda1" in run.failures("g2")[-1]

    waits.run("rm", "/dev/nvidia-uvm")
    run = verify(fleet, inventory, "--limit", "g1")
    assert "the device /dev/nvidia-uvm does not exist: CUDA does not start" in run.failures("g1")[-1]
    assert waits.run("ls", "/dev/nvidia-uvm", check=False) == ""
    waits.run("nvidia-modprobe", "-u", "-c", "0")
    waits.run("systemctl", "start", "gpu-swarm-health.service")
