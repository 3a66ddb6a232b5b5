# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the processes that NVML shows, with the lab's library and with drivers that support fewer functions."""

from __future__ import annotations

import os
from pathlib import Path

import nvml_lab
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import processes

READ = """
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import processes
held = reader.open_nvml(sys.argv[1])
print(json.dumps(processes.read_processes(held)))
"""


def read(conf, tmp_path, *lines):
    path = tmp_path / "nvml.conf"
    path.write_text(Path(nvml_lab.fleet(conf)).read_text())
    (tmp_path / "nvml.conf.processes").write_text("".join(f"{line}\n" for line in lines))
    return nvml_lab.python(READ, nvml_lab.library(), GPU_LAB_NVML=str(path))


def test_all_kinds_of_processes_of_a_card(tmp_path):
    me, parent = os.getpid(), os.getppid()
    cards = [one["uuid"] for one in read("t4x4", tmp_path)]
    assert len(cards) == 4
    lines = [f"{cards[0]} compute {me}", f"{cards[0]} graphics {me}", f"{cards[1]} mps {parent}", f"{cards[1]} compute {me}"]
    lines += [f"{cards[2]} compute 4194305"]  # the process has ended
    found = read("t4x4", tmp_path, *lines)
    assert {one["uuid"]: one["pids"] for one in found} == {cards[0]: [me], cards[1]: sorted([me, parent]), cards[2]: [], cards[3]: []}


def test_each_mig_device_has_its_own(tmp_path):
    units = [one["uuid"] for one in read("a100-mig", tmp_path)]
    assert [one[:4] for one in units] == ["MIG-", "MIG-", "MIG-", "GPU-"]
    found = read("a100-mig", tmp_path, f"{units[1]} compute {os.getpid()}", f"{units[3]} compute 1")
    assert [one["pids"] for one in found] == [[], [os.getpid()], [], [1]]


@pytest.mark.parametrize("conf", ["h100x8-one-lost", "gb10", "nogpu"])
def test_a_card_that_does_not_answer_hides_no_other(conf, tmp_path):
    assert all(one["pids"] == [] for one in read(conf, tmp_path))


class Failure(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


class Driver:
    """A binding of NVML with one card. It has only the given functions, named by the end of their names."""

    NVMLError = Failure

    def __init__(self, **calls):
        for name, answer in calls.items():
            setattr(self, f"nvmlDeviceGet{name}", lambda _handle, answer=answer: self._answer(answer))

    @staticmethod
    def _answer(answer):
        if isinstance(answer, int):
            raise Failure(answer)
        return [type("Info", (), {"pid": pid}) for pid in answer]

    nvmlDeviceGetCount = staticmethod(lambda: 1)
    nvmlDeviceGetHandleByIndex = staticmethod(lambda index: index)
    nvmlDeviceGetUUID = staticmethod(lambda _handle: b"GPU-1")


@pytest.mark.parametrize(
    ("calls", "pids"),
    [
        ({"ComputeRunningProcesses_v3": [7], "GraphicsRunningProcesses_v3": [9]}, [7, 9]),
        ({"ComputeRunningProcesses_v3": 13, "ComputeRunningProcesses_v2": [7]}, [7]),  # a driver older than CUDA 11.5
        ({"ComputeRunningProcesses": [7], "MPSComputeRunningProcesses": 3}, [7]),  # a binding of a driver of the same age
        ({"ComputeRunningProcesses_v3": 3, "GraphicsRunningProcesses_v3": [9]}, None),  # not supported
        ({"ComputeRunningProcesses_v3": 4}, None),  # no permission
        ({}, None),
    ],
)
def test_an_older_driver_shows_fewer_processes(calls, pids):
    assert processes.read_processes(Driver(**calls)) == [{"index": 0, "uuid": "GPU-1", "pids": pids}]
