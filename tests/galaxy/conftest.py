# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the tarball of a release from a copy of the tree, and installs the tarball as on a user's machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.release.tarball import released_at, tarball
from tests.runner.tree import copy_to

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Installed:
    root: Path
    tarball: Path
    galaxy: dict
    mtime: int

    @property
    def collection(self) -> Path:
        return self.root / "installed" / "ansible_collections" / self.galaxy["namespace"] / self.galaxy["name"]

    @property
    def fqcn(self) -> str:
        return f"{self.galaxy['namespace']}.{self.galaxy['name']}"

    def run(self, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a tool that sees only the installed collection and the collections of Ansible, in an empty folder."""
        return run(self.root / "empty", *command, ANSIBLE_COLLECTIONS_PATH=str(self.root / "installed"), **env)


def run(cwd: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    cwd.mkdir(exist_ok=True)
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=cwd,
        env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", **env},
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    root = tmp_path_factory.mktemp("galaxy")
    source = root / "source"
    copy_to(source)
    galaxy = yaml.safe_load((source / "galaxy.yml").read_text())
    mtime = released_at(os.environ)
    built = tarball(source, root, mtime)
    assert built.name == f"{galaxy['namespace']}-{galaxy['name']}-{galaxy['version']}.tar.gz"
    # If ANSIBLE_COLLECTIONS_PATH names the checkout, ansible-galaxy installs nothing. So set another path.
    target = str(root / "installed")
    done = run(root, "ansible-galaxy", "collection", "install", str(built), "-p", target, "--no-deps", "--offline", ANSIBLE_COLLECTIONS_PATH=target)
    assert done.returncode == 0, done.stderr
    return Installed(root, built, galaxy, mtime)
