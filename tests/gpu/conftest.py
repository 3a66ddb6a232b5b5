# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For machines with a real NVIDIA GPU and its driver (``make gpu``): tests facts that the lab's stand-in for NVML cannot prove.

The tests read, and run small CUDA programs. They change no setting of a GPU. Without a GPU they fail.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench import collection

CUDA = Path(__file__).with_name("cuda.py")


@pytest.fixture(scope="session")
def found():
    """Return the result of the module gpu_info on this machine."""
    return collection.module("module_utils._gpu.nvml").read_within(60)


@pytest.fixture(scope="session")
def smi():
    """Return nvidia-smi's data about this machine."""
    done = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True)
    return ElementTree.fromstring(done.stdout)


@pytest.fixture
def cuda():
    """Start a program of cuda.py. Return the process once it has a context on the first GPU."""
    started = []

    def start(what):
        program = subprocess.Popen([sys.executable, str(CUDA), what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(program)
        assert program.stdout.readline() == "ready\n"
        return program

    yield start
    for program in started:
        program.stdin.close()
        program.wait(60)
        program.stdout.close()
