# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests whether CUDA starts: what cuInit of the lab's libcuda returns, and the message for each result."""

from __future__ import annotations

import json
import os

import nvml_lab
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import cuda

UBUNTU = 'NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("ID=debian\n", "libcuda1"),
        (UBUNTU, "libnvidia-compute-NNN"),
        ("ID=linuxmint\nID_LIKE='ubuntu debian'\n", "libnvidia-compute-NNN"),
        (ROCKY, "nvidia-driver-cuda-libs"),
        ("ID=fedora\n", "xorg-x11-drv-nvidia-cuda-libs"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "nvidia-compute-G06"),
        ("ID=nixos\n", "the part of NVIDIA's driver"),
        ("", "the part of NVIDIA's driver"),
    ],
)
def test_a_missing_library_is_named_with_its_package(release, name):
    found = cuda.describe_problem({"missing": "libcuda.so.1: cannot open shared object file", "code": None}, release)
    assert "libcuda.so.1 cannot be loaded" in found
    assert "cannot open shared object file" in found
    assert name in found


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (802, "cuInit returns 802 (CUDA_ERROR_SYSTEM_NOT_READY). The node's NVSwitches are not initialised. Start NVIDIA's Fabric Manager"),
        (803, "cuInit returns 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)"),
        (999, "cuInit returns 999 (CUDA_ERROR_UNKNOWN). Check 'dmesg | grep -i nvrm', try 'modprobe nvidia-uvm'"),
        (4711, "cuInit returns 4711 (see CUresult"),
    ],
)
def test_the_message_has_the_error_of_cuinit_and_the_remedy(code, words):
    assert words in cuda.describe_problem({"missing": None, "code": code}, "")


def test_there_is_no_message_if_cuda_starts():
    assert cuda.describe_problem({"missing": None, "code": 0}, UBUNTU) is None


CALL = """
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import cuda
print(json.dumps(cuda.cuda_problem(float(sys.argv[1]), "/nonexistent")))
"""


def call(tmp_path, conf, limit=20, **environment):
    """Return the message for a machine with this text file, from a process that finds the lab's libcuda."""
    path = tmp_path / "nvml.conf"
    path.write_text(conf)
    libraries = os.path.dirname(nvml_lab.library())
    return nvml_lab.python(CALL, str(limit), GPU_LAB_NVML=str(path), LD_LIBRARY_PATH=libraries, **environment)


GPU = "[gpu 0]\nname = NVIDIA X\n"


@pytest.mark.parametrize(
    ("conf", "says"),
    [("cuda-init = system-not-ready", "802"), ("cuda-init = unknown", "999"), ("init = driver-not-loaded", "100"), ("cuda-init = ok", "")],
)
def test_the_library_is_called_in_a_child(tmp_path, conf, says):
    (tmp_path / "nvidia-uvm").symlink_to("/dev/null")
    devices = tmp_path / "devices"
    devices.write_text("  1 nvidia-uvm\n")
    found = call(tmp_path, f"{conf}\n{GPU}", GPU_LAB_DEV=str(tmp_path), GPU_LAB_DEVICES=str(devices), CUDA_VISIBLE_DEVICES="")
    assert (found is None) == (not says)
    assert json.dumps(found).count(f"cuInit returns {says}") == bool(says)


def test_a_call_without_an_answer_is_abandoned(tmp_path):
    found = call(tmp_path, "cuda-init = hang\n" + GPU, limit=0.2)
    assert found.startswith("CUDA gave no answer within 0 s (cuInit); the process that called it was abandoned, and it was killed")
