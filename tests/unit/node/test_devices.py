# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""CUDA's devices. The change of a node installs and removes the service that creates the devices at boot.

A node without these devices is not ready.
"""

from __future__ import annotations

import os
import re

import pytest
from node_lab import NULL, node

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._dockerd import engine
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import cuda

RESTART = "systemctl restart gpu-swarm-devices.service"
MISSING = "the service that creates CUDA's devices at boot (gpu-swarm-devices.service) is not installed"
OTHER = "the service that creates CUDA's devices at boot (gpu-swarm-devices.service) is of another version"
NO_NODE = "the device /dev/nvidia-uvm does not exist"
FAULT = "fault reason=uvm"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)


def unit(it):
    return it.home / "etc/systemd/system/gpu-swarm-devices.service"


def restarts(it):
    return it.commands.count(RESTART)


def test_the_service_is_installed_with_the_node_and_removed_without_a_trace(tmp_path):
    it = node(tmp_path)
    before = it.everything()
    assessed = it.assess()
    assert (assessed["changed"], MISSING in assessed["drift"], unit(it).exists()) == (True, True, False)
    assert it.converge()["changed"] is True
    assert os.path.islink(it.home / "etc/systemd/system/multi-user.target.wants/gpu-swarm-devices.service")
    again = it.converge()
    assert (again["changed"], again["drift"], again["fault"], restarts(it)) == (False, [], None, 1)
    assert it.option(state="absent").assess()["changed"] is True
    assert it.converge()["changed"] is True
    assert it.everything() == before
    assert it.converge()["changed"] is False


def test_its_unit_is_best_effort_and_has_a_time_limit(tmp_path):
    it = node(tmp_path, docker_unit="snap.docker.dockerd.service")
    it.converge()
    text = unit(it).read_text()
    assert "\nAfter=dkms.service systemd-modules-load.service\nBefore=snap.docker.dockerd.service\n" in text
    assert not re.search("^(Requires|BindsTo|Wants)=", text, re.MULTILINE)
    commands = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    assert all(command.startswith("-/bin/sh -c '") for command in commands)
    ctk = "nvidia-ctk system create-device-nodes --control-devices"
    assert commands[0] == f"-/bin/sh -c '{ctk} --load-kernel-modules || {ctk}'"
    # If the driver lacks nvidia-modprobe, a toolkit creates the device for each container. The toolkit can also create the device at boot.
    assert commands[1] == "-/bin/sh -c 'nvidia-modprobe -u -c 0 || nvidia-container-cli --load-kmods info >/dev/null'"
    assert "\nTimeoutStartSec=60\n" in text
    assert {"ConditionPathExists=!/dev/dxg", "ConditionPathExists=!/sys/module/nvgpu"} <= set(text.splitlines())


@pytest.mark.parametrize("option", [{"advertise": []}, {"restart": "never"}])
def test_a_node_without_gpus_or_with_files_only_gets_no_service(tmp_path, option):
    it = node(tmp_path, **option)
    it.uvm(None)
    result = it.converge()
    assert (unit(it).exists(), restarts(it), [one for one in result["drift"] if "CUDA" in one]) == (False, 0, [])


def test_a_node_that_stops_advertising_gpus_loses_the_service(tmp_path):
    it = node(tmp_path)
    it.converge()
    it.option(advertise=[], allow_shrink=True)
    assert it.assess()["changed"] is True
    it.converge()
    assert (unit(it).exists(), it.converge()["changed"]) == (False, False)


def test_another_version_of_the_service_is_replaced(tmp_path):
    it = node(tmp_path)
    it.converge()
    unit(it).write_text("[Unit]\n")
    assert it.assess()["drift"] == [OTHER]
    assert (it.converge()["changed"], it.converge()["changed"]) == (True, False)


@pytest.mark.parametrize(
    ("target", "loaded", "words"),
    [
        (None, 1, NO_NODE),
        (None, None, "the kernel module nvidia-uvm is not loaded (/proc/devices)"),
        (NULL, 511, "the device /dev/nvidia-uvm has major number 1, and the kernel module has 511 (/proc/devices)"),
    ],
)
def test_a_reboot_after_which_only_nvml_works_is_drift_and_repaired(tmp_path, target, loaded, words):
    it = node(tmp_path)
    it.converge()
    it.uvm(target, loaded)
    assessed = it.assess()
    # The assessment reports no fault yet. With a fault, a node that a manager had paused would not return with the run that repairs the node.
    assert (assessed["changed"], assessed["drift"], assessed["fault"]) == (True, [f"{words}: CUDA does not start, though NVML works"], None)
    assert restarts(it) == 1
    done = it.converge()
    assert (done["changed"], done["fault"], done["restarted"], restarts(it)) == (True, None, False, 2)
    assert (it.converge()["changed"], it.engine.calls()) == (False, ["restart"])


def test_a_node_that_gets_its_first_service_is_no_fault_yet(tmp_path):
    it = node(tmp_path)
    it.uvm(None)
    assessed = it.assess()
    assert (assessed["drift"][-2:], assessed["fault"]) == ([MISSING, f"{NO_NODE}: CUDA does not start, though NVML works"], None)
    assert it.converge()["fault"] is None


def test_a_device_that_cannot_be_made_pauses_the_node(tmp_path):
    it = node(tmp_path)
    it.makes_devices = False
    it.uvm(None)
    with pytest.raises(GpuSwarmError, match="/dev/nvidia-uvm does not exist. The GPUs are advertised, but CUDA does not start") as caught:
        it.converge()
    assert caught.value.details["fault"] == FAULT
    assert "journalctl -u gpu-swarm-devices.service" in caught.value.message
    assert f"{NO_NODE}: CUDA does not start, though NVML works" in it.assess()["drift"]


def test_cuda_is_tried_only_for_verify_and_only_with_its_device(tmp_path, monkeypatch):
    """libcuda creates a missing device. Nobody would notice that the device was missing."""
    calls = []
    monkeypatch.setattr(cuda, "cuda_problem", lambda limit_s: calls.append(limit_s) or "it does not start")
    it = node(tmp_path, nvml_timeout=60)
    it.converge()
    assert ("cuda" in it.assess(), calls) == (False, [])
    it.option(try_cuda=True)
    assert (it.assess()["cuda"], calls) == ("it does not start", [60])
    it.uvm(None)
    assert ("cuda" in it.assess(), calls) == (False, [60])
