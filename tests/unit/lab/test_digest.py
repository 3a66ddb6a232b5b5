# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cached images and packages are built again after a change of code or data, but not after a change of comments or docstrings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.digest import content, digest

CODE = 'PACKAGES = ["sudo"]\n\n\ndef install(names):\n    return ["apt-get", "install", *names]\n'
REWORDED = '''"""Installs packages."""
PACKAGES = [
    "sudo",  # for users
]

def install(names):
    """Return the command."""
    # The usual one.
    return ["apt-get", "install", *names]
'''


def _digest(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return digest(name, content(path))


def test_comments_docstrings_and_layout_of_python_change_no_digest(tmp_path: Path) -> None:
    assert _digest(tmp_path, "a.py", REWORDED) == _digest(tmp_path, "a.py", CODE)


@pytest.mark.parametrize("change", [("sudo", "doas"), ("install", "upgrade"), ("*names", "names")])
def test_a_change_of_code_or_data_changes_the_digest(tmp_path: Path, change: tuple[str, str]) -> None:
    assert _digest(tmp_path, "a.py", CODE.replace(*change)) != _digest(tmp_path, "a.py", CODE)


def test_other_files_count_as_they_are(tmp_path: Path) -> None:
    """In a shell script, ``#!/bin/sh`` looks like a comment."""
    assert _digest(tmp_path, "init", "#!/bin/sh\n") != _digest(tmp_path, "init", "#!/bin/bash\n")


def test_a_function_may_consist_of_its_docstring(tmp_path: Path) -> None:
    assert _digest(tmp_path, "a.py", 'def nothing():\n    """Does nothing."""\n') == _digest(tmp_path, "a.py", "def nothing():\n    pass\n")
