# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures ``make check`` after a change of one file, the most common step of a contributor.

The measurement uses a clone of the last commit, this checkout's environment, and filled caches of mypy and other tools. It does not call ``make``,
because ``make`` would check whether the environment is up to date.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from tests.lab.lab import CHECKOUT

from .fleets import BenchError
from .table import Row, row

LIMIT_S = 90
# A file that half of the collection imports, a file of a single command, and one that Ansible reads.
FILES = ("plugins/module_utils/_policy/rules.py", "plugins/module_utils/_view/status.py", "playbooks/tasks/finish.yml")


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "checkout"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(clone)], check=True)
        collections = clone / "build" / "collections" / "ansible_collections" / "fleet"
        collections.mkdir(parents=True)
        (collections / "gpu_swarm").symlink_to(clone)
        (clone / "build" / "venv").symlink_to((CHECKOUT / "build" / "venv").resolve())
        _after_a_change_of(clone, FILES[0])
        taken = [(path, _after_a_change_of(clone, path)) for path in FILES]
    return [row(f"make check, after a change of {Path(path).name} / {LIMIT_S} s (s)", seconds, LIMIT_S, 1.0) for path, seconds in taken]


def _after_a_change_of(clone: Path, path: str) -> float:
    file = clone / path
    before = file.read_bytes()
    file.write_bytes(before + b"# changed\n")
    since = time.monotonic()
    command = [str(clone / "build/venv/bin/python"), "-m", "tests.run", "--changed"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - since
    file.write_bytes(before)
    if done.returncode:
        raise BenchError(f"make check fails after a change of {path}:\n{done.stdout[-2000:]}")
    return seconds
