# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/reference/platforms.md and the README's table name the real versions of nodes and controller."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.lab import rootfs, versions
from tests.pages import platforms

from .fleet import LIMIT_S

ROWS = platforms.rows(platforms.page())


def test_the_versions_of_nodes_are_those_of_the_pages() -> None:
    """While a moving image cannot be built, no fleet has such a node, and there is nothing to compare."""
    releases = [*rootfs.releases(moving=False), *(name for name in rootfs.releases(moving=True) if rootfs.cached(name).exists())]
    nodes = {release: versions.of_release(release) for release in releases}
    for row in ROWS:
        for path in sorted(path for path in row.paths if path.startswith("tests/e2e/")):
            nodes |= {node.family: versions.of_family(node.image, node.family) for node in platforms.fleet_of(path) if node.family}
    assert platforms.wrong_on_nodes(ROWS, nodes) == []


def test_the_versions_of_the_controller_are_those_of_the_pages() -> None:
    python = ".".join(map(str, sys.version_info[:3]))
    assert platforms.wrong_on_the_controller(ROWS, version("ansible-core"), python) == []


@pytest.mark.rare
def test_pip_can_install_the_newest_ansible_core(tmp_path: Path) -> None:
    """A newer release may exist by now. `tests/e2e/test_controllers.py` prints the release that it used."""
    (row,) = (row for row in ROWS if row.what.startswith("the newest that pip installs"))
    (core,) = platforms.VERSION.findall(row.what)
    only = ["--no-deps", "--only-binary=:all:", "--python-version=3.13", f"--dest={tmp_path}", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *only, f"ansible-core=={core}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
