# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the device that CUDA needs to start."""

from __future__ import annotations

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._machine import uvm

DEVICES = """\
Character devices:
  1 mem
195 nvidia
195 nvidia-modeset
195 nvidiactl
508 nvidia-caps
510 nvidia-uvm-other
511 nvidia-uvm

Block devices:
259 blkext
"""


@pytest.mark.parametrize(
    ("node", "loaded", "problem"),
    [
        (511, 511, None),
        (None, 511, "the device /dev/nvidia-uvm does not exist"),
        (None, None, "the kernel module nvidia-uvm is not loaded (/proc/devices)"),
        (511, None, "the kernel module nvidia-uvm is not loaded (/proc/devices)"),  # the module was unloaded after the device was created
        (509, 511, "the device /dev/nvidia-uvm has major number 509, and the kernel module has 511 (/proc/devices)"),
    ],
)
def test_cuda_needs_the_device_with_the_number_of_the_module(node, loaded, problem):
    assert uvm.uvm_problem(uvm.UvmState(node, loaded)) == problem
    assert uvm.uvm_problem(uvm.UvmState(node, loaded, needed=False)) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [(DEVICES, 511), (DEVICES.replace("511 nvidia-uvm\n", ""), None), ("", None), ("  9 nvidia-uvm\n", 9)],
)
def test_the_number_of_the_module(text, number):
    assert uvm.parse_major(text) == number


def machine(home, devices=DEVICES):
    (home / "proc").mkdir()
    (home / "proc" / "devices").write_text(devices)
    (home / "dev").mkdir()
    return home


def test_devices_and_modules_of_a_machine_are_read(tmp_path):
    assert uvm.read_uvm(str(tmp_path)) == (None, None, True)
    machine(tmp_path)
    assert uvm.read_uvm(str(tmp_path)) == (None, 511, True)
    (tmp_path / "dev" / "nvidia-uvm").write_text("no device: somebody's redirect made a file of it")
    assert uvm.read_uvm(str(tmp_path)) == (None, 511, True)


def test_the_number_of_a_device(tmp_path):
    machine(tmp_path)
    (tmp_path / "dev" / "nvidia-uvm").symlink_to("/dev/null")
    assert uvm.read_uvm(str(tmp_path)) == (1, 511, True)


@pytest.mark.parametrize("there", uvm.NOT_NEEDED_WITH)
def test_wsl_and_jetson_need_no_such_device(tmp_path, there):
    path = machine(tmp_path) / there
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert uvm.uvm_problem(uvm.read_uvm(str(tmp_path))) is None
