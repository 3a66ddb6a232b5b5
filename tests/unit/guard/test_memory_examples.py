# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests the filter for a fraction of a card, and the examples that read the fraction in a task. Stand-ins replace the frameworks and record calls."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.fleet.gpu_swarm.plugins.filter.memory_fraction import FilterModule
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.reservation import AMOUNT, Part
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._guard.share import FRACTION, share

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "memory"
CARD, SHARE = 15360, 4000
TASK = {"GPU_MEMORY_FRACTION": "0.240885", "MAX_CONTAINER_MEMORY": str(SHARE)}
memory_fraction = FilterModule().filters()["memory_fraction"]

TORCH = """
class cuda:
    set_per_process_memory_fraction = staticmethod(lambda fraction: print("fraction", fraction))
"""
TENSORFLOW = """
class config:
    list_physical_devices = staticmethod(lambda kind: [kind])
    LogicalDeviceConfiguration = staticmethod(lambda memory_limit: memory_limit)
    set_logical_device_configuration = staticmethod(lambda gpu, limits: print(gpu, limits))
"""
JAX = """
import os
print(sorted((name, value) for name, value in os.environ.items() if name.startswith("XLA")))
"""
PYNVML = """
import pathlib
from types import SimpleNamespace
nvmlInit = lambda: None
nvmlDeviceGetCount = lambda: 2
nvmlDeviceGetHandleByIndex = lambda number: number
def nvmlDeviceGetMemoryInfo(card):
    grown = pathlib.Path("grown")
    used = 5000 if card == 1 and grown.exists() else 400
    if grown.exists():
        pathlib.Path("seen").touch()
    return SimpleNamespace(used=used * 1024 * 1024 + 1)
"""


@pytest.mark.parametrize(("mib", "overhead"), [(SHARE, 300), (8000, 518), (301, 300), (CARD, 0)])
def test_the_filter_gives_the_number_that_a_task_finds(mib, overhead):
    found = share([Part("VRAM", AMOUNT, ("GPU-a",), mib)], [], {"GPU-a": CARD}, overhead).variables[FRACTION]
    assert memory_fraction(mib, CARD, overhead) == float(found) > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((20000, CARD), "the share is 20000 MiB, but the card has only 15360 MiB"),
        ((300, CARD), "nothing is left of a share of 300 MiB, because CUDA takes 300 MiB"),
        ((-1, CARD), "the share is -1. Give a whole number of MiB, at least 1"),
        (("8 GiB", CARD), "the share is '8 GiB'. Give a whole number of MiB"),
        ((4000, 0), "card is 0. Give a whole number of MiB, at least 1"),
        ((4000, None), "card is None. Give a whole number"),
        ((4000, CARD, -1), "overhead is -1. Give a whole number of MiB, at least 0"),
        ((4000.5, CARD), "the share is 4000.5. Give a whole number"),
    ],
)
def test_an_invalid_share_is_an_error(given, words):
    with pytest.raises(AnsibleFilterError, match=words.replace(".", r"\.")):
        memory_fraction(*given)


def run(tmp_path: Path, module: str, stand_in: str, *words: str, **task: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(stand_in))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XLA", *TASK))}
    command = [sys.executable, *words]
    return subprocess.run(command, env={**kept, "PYTHONPATH": str(tmp_path), **task}, cwd=tmp_path, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("name", "module", "stand_in", "shared", "whole"),
    [
        ("pytorch_share", "torch", TORCH, "fraction 0.240885", ""),
        ("tensorflow_share", "tensorflow", TENSORFLOW, "GPU [3700]", ""),
        ("jax_share", "jax", JAX, "[('XLA_CLIENT_MEM_FRACTION', '0.240885'), ('XLA_PYTHON_CLIENT_MEM_FRACTION', '0.240885')]", "[]"),
    ],
)
def test_an_example_sets_the_limit_of_its_framework(tmp_path, name, module, stand_in, shared, whole):
    path = str(EXAMPLES / f"{name}.py")
    assert run(tmp_path, module, stand_in, path, **TASK).stdout.strip() == shared
    assert run(tmp_path, module, stand_in, path).stdout.strip() == whole


def test_the_peak_covers_the_whole_run_and_the_exit_status_is_the_command_s(tmp_path):
    waits = "import pathlib, time\npathlib.Path('grown').touch()\nwhile not pathlib.Path('seen').exists(): time.sleep(0.01)\nraise SystemExit(3)"
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run(tmp_path, "pynvml", PYNVML, str(EXAMPLES / "peak.py"), sys.executable, "-c", waits)
    assert failed.value.returncode == 3
    assert failed.value.stderr.splitlines() == ["GPU 0: 400 MiB at most, 400 MiB before", "GPU 1: 5000 MiB at most, 400 MiB before"]
