# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's NVML library for tests, and Python processes that load this library. The library is built once."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "tests" / "lab" / "nvml"
FLEET = SOURCE / "fleet"

_MAIN = """
import json, sys
sys.path.insert(0, {here!r})
import checkout
from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _libraries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import binding, nvml as reader
"""


@functools.cache
def library():
    """Return the path of libnvidia-ml.so.1. nvidia-smi is in the same folder."""
    built = tempfile.mkdtemp(prefix="gpu-swarm-nvml-")
    atexit.register(shutil.rmtree, built)
    subprocess.run(["make", "-s", "-C", SOURCE, f"OUT={built}"], check=True)
    return os.path.join(built, "libnvidia-ml.so.1")


def fleet(name):
    return str(FLEET / f"{name}.conf")


def bare_python(code, *arguments, **environment):
    """Run ``code`` in a Python with only the standard library. Return the JSON that ``code`` prints."""
    return python(code, *arguments, flags=("-I", "-S"), **environment)


def python(code, *arguments, flags=(), **environment):
    program = _MAIN.format(here=str(Path(__file__).parent)) + code
    done = subprocess.run(
        [sys.executable, *flags, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=dict(os.environ, **environment),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bare_interpreter(folder):
    """Write a program that starts a Python with only the standard library, for ansible_python_interpreter of a host."""
    program = folder / "bare-python3"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)
