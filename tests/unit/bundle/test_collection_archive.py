# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Installed collections become archives that ansible-galaxy installs. tests/e2e/test_air_gap.py installs everything that the collection needs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError
from ansible_collections.fleet.gpu_swarm.plugins.plugin_utils._bundle import collection_archive as archive

GALAXY = Path(sys.executable).with_name("ansible-galaxy")


def source(folder: Path, name: str, dependencies: dict[str, str] | None = None) -> Path:
    """Make a checkout of ``acme.name``."""
    path = folder / "source" / name
    (path / "plugins/modules").mkdir(parents=True)
    (path / "plugins/modules/one.py").write_text("# one\n")
    (path / "README.md").write_text("# It\n")
    (path / ".hidden").write_text("of no use\n")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    about = {"namespace": "acme", "name": name, "version": "1.2.3", "readme": "README.md", "authors": ["me"], "dependencies": dependencies or {}}
    (path / "galaxy.yml").write_text(json.dumps(about))
    return path


def install(made: Path, folder: Path) -> Path:
    """Extract the archive to the folder where ansible-galaxy would install it."""
    command = [GALAXY, "collection", "install", "--offline", "--no-deps", "-p", folder, made]
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(folder), "HOME": str(folder), "NO_COLOR": "1"}
    done = subprocess.run(list(map(str, command)), env=env, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "ansible_collections/acme"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))  # ansible-playbook is not in PATH if the user called it by its full path
    archive.build(source(tmp_path, "fleet"), tmp_path)
    (tmp_path / "first").mkdir()
    return install(tmp_path / "acme-fleet-1.2.3.tar.gz", tmp_path / "first") / "fleet"


def test_an_installed_collection_is_packed_and_installed_again(installed, tmp_path):
    (installed / "plugins/modules/__pycache__").mkdir()
    (installed / ".hidden").unlink()  # the package ansible omits this file
    (installed / "plugins/modules/__pycache__/one.pyc").write_text("no part of it")
    found = archive.read_collection(installed)
    assert (found.name, found.version, found.archive, found.is_source) == ("acme.fleet", "1.2.3", "acme-fleet-1.2.3.tar.gz", False)
    (tmp_path / "packed").mkdir()
    (tmp_path / "second").mkdir()
    assert archive.put(found, tmp_path / "packed")
    again = install(tmp_path / "packed" / found.archive, tmp_path / "second") / "fleet"
    assert (again / "plugins/modules/one.py").read_text() == "# one\n"
    assert os.access(again / "run.sh", os.X_OK)
    assert not (again / "plugins/modules/__pycache__").exists()
    os.utime(installed / "README.md", (0, 0))
    assert not archive.put(found, tmp_path / "packed")


def test_a_file_that_was_changed_after_the_installation_is_named(installed):
    (installed / "README.md").write_text("# Mine\n")
    with pytest.raises(GpuSwarmError, match=r"README\.md is not the file of acme\.fleet 1\.2\.3.*ansible-galaxy collection install --force"):
        archive.pack(archive.read_collection(installed))


def test_a_checkout_is_packed_too(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{GALAXY.parent}{os.pathsep}{os.environ['PATH']}")
    found = archive.read_collection(source(tmp_path, "fleet"))
    assert found.is_source
    assert archive.put(found, tmp_path)
    assert (tmp_path / found.archive).exists()
    assert not archive.put(found, tmp_path)
    (found.path / "README.md").write_text("# Another\n")
    assert archive.put(found, tmp_path)


def test_dependencies_are_packed_too(tmp_path):
    needs = {"fleet": {"acme.docker": ">=1"}, "docker": {"acme.library": ">=1", "acme.fleet": "*"}, "library": {}}
    paths = {f"acme.{name}": source(tmp_path, name, dependencies) for name, dependencies in needs.items()}
    assert [one.name for one in archive.with_dependencies("acme.fleet", paths.get)] == ["acme.docker", "acme.fleet", "acme.library"]
    del paths["acme.library"]
    with pytest.raises(GpuSwarmError, match=r"acme\.library is not installed here.*ansible-galaxy collection install acme\.library"):
        archive.with_dependencies("acme.fleet", paths.get)


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_a_folder_without_a_collection_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "MANIFEST.json").write_text(content)
    with pytest.raises(GpuSwarmError, match="is not a collection that can be packed"):
        archive.read_collection(tmp_path)


def test_checksums_equal_those_of_sha256sum(tmp_path):
    (tmp_path / "b").mkdir()
    for name, text in {"b/two": "2", "a": "1", "SUMS": "old"}.items():
        (tmp_path / name).write_text(text)
    lines = archive.checksums(tmp_path, "SUMS")
    assert lines == f"{hashlib.sha256(b'1').hexdigest()}  a\n{hashlib.sha256(b'2').hexdigest()}  b/two\n"
    (tmp_path / "SUMS").write_text(lines)
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SUMS"], cwd=tmp_path, check=False).returncode == 0
