# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib
import os
import sys
import zipfile

import nvml_lab
import pynvml
import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _libraries
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._errors import GpuSwarmError


def packed(path, **files):
    """Write a zip file with a file ``name.py`` for each name. For ``deep_name``, the file is in a folder."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("deep_", "deep/") + ".py", text)
    return str(path)


def tree(state):
    """Return the stored files as {name: text}."""
    current = state / "lib" / "current"
    return {str(file.relative_to(current)): file.read_text() for file in sorted(current.rglob("*.py"))}


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_install_keeps_compiles_and_changes_nothing_twice(tmp_path, state):
    bundle = packed(tmp_path / "b.zip", one="A = 1\n", deep_two="B = 2\n")
    assert _libraries.install(bundle, str(state)) is True
    assert tree(state) == {"one.py": "A = 1\n", "deep/two.py": "B = 2\n"}
    assert list((state / "lib" / "current" / "__pycache__").glob("one.*.pyc"))
    before = os.readlink(state / "lib" / "current")
    assert _libraries.install(bundle, str(state)) is False
    assert os.readlink(state / "lib" / "current") == before


def test_install_adds_libraries_and_replaces_older_ones(tmp_path, state):
    _libraries.install(packed(tmp_path / "1.zip", one="A = 1\n", two="B = 1\n"), str(state))
    assert _libraries.install(packed(tmp_path / "2.zip", two="B = 2\n", three="C = 3\n"), str(state)) is True
    assert tree(state) == {"one.py": "A = 1\n", "two.py": "B = 2\n", "three.py": "C = 3\n"}
    assert sorted(path.name for path in (state / "lib").iterdir()) == sorted(["current", os.readlink(state / "lib" / "current")])


def test_install_repairs_damaged_libraries(tmp_path, state):
    bundle = packed(tmp_path / "b.zip", one="A = 1\n", two="B = 2\n")
    _libraries.install(bundle, str(state))
    (state / "lib" / "current" / "two.py").unlink()
    (state / "lib" / "current" / "one.py").write_text("A = 7\n")
    assert _libraries.install(bundle, str(state)) is True
    assert tree(state) == {"one.py": "A = 1\n", "two.py": "B = 2\n"}


def test_a_broken_run_leaves_the_old_set(tmp_path, state, monkeypatch):
    _libraries.install(packed(tmp_path / "1.zip", one="A = 1\n"), str(state))

    def full(*dummy, **more):
        raise OSError("no space left on device")

    monkeypatch.setattr(_libraries.os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        _libraries.install(packed(tmp_path / "2.zip", one="A = 2\n"), str(state))
    assert tree(state) == {"one.py": "A = 1\n"}
    monkeypatch.undo()
    assert _libraries.install(packed(tmp_path / "2.zip", one="A = 2\n"), str(state)) is True
    assert tree(state) == {"one.py": "A = 2\n"}
    assert len(list((state / "lib").iterdir())) == 2


@pytest.mark.parametrize("name", ["../outside.py", "deep/../../outside.py", "/outside.py"])
def test_nothing_is_written_outside(tmp_path, state, name):
    bundle = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(GpuSwarmError, match="outside"):
        _libraries.install(str(bundle), str(state))
    assert list((state / "lib").iterdir()) == []


@pytest.mark.parametrize("content", [None, b"not a zip"])
def test_an_unreadable_bundle_is_an_error(tmp_path, state, content):
    bundle = tmp_path / "b.zip"
    if content:
        bundle.write_bytes(content)
    with pytest.raises(GpuSwarmError, match=r"b\.zip"):
        _libraries.install(str(bundle), str(state))
    assert not state.exists()


def test_libraries_are_sent_until_they_are_stored(tmp_path, state):
    bundle = packed(tmp_path / "b.zip", gpu_swarm_probe="A = 1\n")
    _libraries.add_to_path(bundle, str(state))
    assert _libraries.is_from_controller("gpu_swarm_probe", bundle)
    assert not _libraries.is_from_controller("gpu_swarm_nothing", bundle)
    assert not _libraries.is_from_controller("json", bundle)
    _libraries.install(bundle, str(state))
    sys.path.remove(bundle)
    _libraries.add_to_path(bundle, str(state))
    assert not _libraries.is_from_controller("gpu_swarm_probe", bundle)
    assert importlib.util.find_spec("gpu_swarm_probe").origin.startswith(str(state))


def test_a_directory_of_the_user_comes_before_stored_libraries(tmp_path, state):
    _libraries.install(packed(tmp_path / "b.zip", gpu_swarm_probe="A = 1\n"), str(state))
    own = tmp_path / "own"
    own.mkdir()
    (own / "gpu_swarm_probe.py").write_text("A = 2\n")
    _libraries.add_to_path(str(own), str(state))
    assert importlib.util.find_spec("gpu_swarm_probe").origin.startswith(str(own))
    assert not _libraries.is_from_controller("gpu_swarm_probe", str(own))


def test_libraries_of_this_collection_come_first(tmp_path, state, monkeypatch):
    for folder, text in (("theirs", "A = 1\n"), ("own", "A = 2\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "gpu_swarm_probe.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "theirs"))
    for first, found in ((False, "theirs"), (True, "own"), (False, "own")):
        _libraries.add_to_path(str(tmp_path / "own"), str(state), first=first)
        assert importlib.util.find_spec("gpu_swarm_probe").origin.startswith(str(tmp_path / found))
        assert sys.path.count(str(tmp_path / "own")) == 1


def test_using_nothing_changes_nothing(state):
    before = list(sys.path)
    _libraries.add_to_path(None, str(state))
    assert sys.path == before


LOAD = """
library, state = sys.argv[1], sys.argv[2]
_libraries.add_to_path(library, state)
answer = reader.read_all(sys.argv[3], library)
print(json.dumps([len(answer["gpus"]), sys.modules["pynvml"].__file__]))
"""


def test_a_bare_python_reads_nvml_from_the_zip_and_then_from_the_stored_libraries(tmp_path, state):
    bundle = tmp_path / "b.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.write(pynvml.__file__, "pynvml.py")
    given = [str(bundle), str(state), nvml_lab.library()]
    fleet = {"GPU_LAB_NVML": nvml_lab.fleet("t4x4")}
    assert nvml_lab.bare_python(LOAD, *given, **fleet) == [4, str(bundle / "pynvml.py")]
    _libraries.install(str(bundle), str(state))
    assert nvml_lab.bare_python(LOAD, *given, **fleet) == [4, str(state / "lib" / "current" / "pynvml.py")]
