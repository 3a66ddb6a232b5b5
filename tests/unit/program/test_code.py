# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stored files of a program are exactly its imports, and Python can run them alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils._manager import parts
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._node import guard, watcher
from ansible_collections.fleet.gpu_swarm.plugins.module_utils._program import code
from tests.pages import rooms

PROGRAMS = [guard.CODE, watcher.CODE, parts.CODE]
# Runs every import in every file of a folder, also the imports inside functions, and prints the loaded modules.
IMPORTS = """
import ast, importlib, json, os, sys
home = sys.argv[1]
sys.path.insert(0, home)
for folder, dummy, names in os.walk(os.path.join(home, "gpu_swarm")):
    for name in [one for one in names if one.endswith(".py")]:
        path = os.path.join(folder, name)
        module = os.path.relpath(path, home)[:-len(".py")].replace(os.sep, ".")
        importlib.import_module(module)
        with open(path, encoding="utf-8") as stream:
            tree = ast.parse(stream.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                statement = ast.Module(body=[node], type_ignores=[])
                exec(compile(statement, path, "exec"), {"__name__": module, "__package__": module.rpartition(".")[0]})
loaded = [getattr(one, "__file__", None) for name, one in sys.modules.items() if name.startswith("gpu_swarm.")]
json.dump([sorted(os.path.relpath(one, home) for one in loaded if one), [one for one in sys.modules if one.startswith("ansible")]], sys.stdout)
"""


def ids(one):
    return one.entry.partition("/")[0]


def pythons():
    """Return this Python, and the oldest supported Python of a node if this machine has it."""
    found = shutil.which("python3.8")
    works = found and subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0
    return [sys.executable, *([found] if works else [])]


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_every_import_finds_its_file_and_no_other_file_is_stored(program, tmp_path):
    program.install(str(tmp_path))
    home = tmp_path / program.name()
    kept = sorted(path.relative_to(home).as_posix() for path in (home / "gpu_swarm").rglob("*.py"))
    for python in pythons():
        done = subprocess.run([python, "-I", "-B", "-c", IMPORTS, str(home)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [kept, []]


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_the_files_are_those_that_python_s_own_parser_finds(program):
    graph, found = rooms.imports(), set()
    left = [rooms.PLUGINS / "module_utils" / program.entry]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += graph[path]
    wanted = ["gpu_swarm/" + path.relative_to(rooms.PLUGINS / "module_utils").as_posix() for path in found]
    assert sorted(program.files()) == sorted([*wanted, "__main__.py"])


@pytest.mark.parametrize("program", PROGRAMS, ids=ids)
def test_an_archive_gives_the_same_version_as_the_files(program, tmp_path):
    """Ansible sends the code as an archive, but the controller compares versions of files."""
    inside, top = "ansible_collections/fleet/gpu_swarm/plugins/module_utils", rooms.PLUGINS / "module_utils"
    with zipfile.ZipFile(tmp_path / "sent.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in top.rglob("*.py"):
            archive.write(path, f"{inside}/{path.relative_to(top).as_posix()}")
        rooms_inside = [f"{inside}/{path.name}" for path in top.glob("_*") if path.is_dir()]
        for folder in [*("/".join(inside.split("/")[:parts]) for parts in range(1, 6)), *rooms_inside]:
            archive.writestr(folder + "/__init__.py", "")
    script = f"from {inside.replace('/', '.')}._program.code import Code; print(Code({program.entry!r}, {program.compiled}).name())"
    done = subprocess.run([sys.executable, "-c", script], env={"PYTHONPATH": str(tmp_path / "sent.zip")}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == program.name()


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (b"from . import a, b as c\n", ["_x.py", "_x/a.py", "_x/b.py"]),
        (b"    from .a import b\n", ["_x/a.py", "_x/a/b.py"]),
        (b"from .. import _a  # why, and what\n", [".py", "_a.py"]),
        (b"from .._y.z import (\n    one,  # with words\n    two as three,\n)\n", ["_y/z.py", "_y/z/one.py", "_y/z/two.py"]),
        (b"from ansible.module_utils import basic\nimport os\n", []),
        (b'TEXT = "from %s.a import b"\n', []),
    ],
)
def test_imports_are_resolved(text, files):
    assert code.imported_paths("_x/file.py", text) == files


def test_a_new_version_is_current_at_once_and_others_are_removed(tmp_path, monkeypatch):
    program, home = watcher.CODE, str(tmp_path)
    assert not program.is_current(home)
    program.make_current(home)
    assert program.is_current(home)
    first = program.name()
    monkeypatch.setattr(code, "START", code.START + "# newer\n")
    assert not program.is_current(home)
    (tmp_path / ".new.killed").mkdir()
    program.make_current(home)
    assert program.is_current(home)
    assert program.name() != first
    assert sorted(os.listdir(home)) == [program.name(), "current"]
