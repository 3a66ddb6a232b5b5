# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a test fleet cache compiled code. They still run only the code that Ansible sent."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.lab.nodes import HERE

# Loads the module like the .pth file on a node, but with the folder of this test.
RUN = """
import os, sys
kept, archive = sys.argv[1:]
whether = os.path.isdir
os.path.isdir = lambda path: True
sys.path.insert(0, {home!r})
import lab_compiled
os.path.isdir = whether
lab_compiled.CACHE = kept
sys.path.insert(0, archive)
import sent
print(sent.SAID, sent.__file__)
"""


def imported(kept: Path, archive: Path, source: str) -> str:
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("sent.py", source)
    program = RUN.format(home=str(HERE / "compiled"))
    done = subprocess.run([sys.executable, "-c", program, str(kept), str(archive)], capture_output=True, text=True, check=True)
    said, where = done.stdout.split()
    assert where == f"{archive}/sent.py"
    return said


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    return folder


def test_the_second_call_compiles_nothing_and_other_code_is_compiled_anew(kept: Path, tmp_path: Path) -> None:
    assert imported(kept, tmp_path / "a.zip", "SAID = 'first'") == "first"
    (first,) = kept.iterdir()
    was = first.stat().st_mtime_ns
    assert imported(kept, tmp_path / "b.zip", "SAID = 'first'") == "first"
    assert [path.stat().st_mtime_ns for path in kept.iterdir()] == [was]  # the code is read from the cache, and the cache is not written again
    assert imported(kept, tmp_path / "c.zip", "SAID = 'other'") == "other"
    assert len(list(kept.iterdir())) == 2


def test_without_a_writable_folder_everything_is_compiled(kept: Path, tmp_path: Path) -> None:
    assert imported(kept / "missing", tmp_path / "a.zip", "SAID = 'first'") == "first"
