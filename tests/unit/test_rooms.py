# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rooms of plugins/ (docs/ARCHITECTURE.md): the imports between rooms, and the files that import external libraries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.pages import rooms

ORDER = [*rooms.DOORS, *(room.folder for room in rooms.ROOMS)]
# A library -> the only file or room that imports it.
ALONE = {"pynvml": "module_utils/_gpu/binding.py", "http": "module_utils/_docker_api/"}


def short(path: Path) -> str:
    return path.relative_to(rooms.PLUGINS).as_posix()


def test_every_file_is_in_a_declared_room():
    assert [short(path) for path in rooms.sources() if rooms.folder_of(path) not in ORDER] == []
    assert [room.folder for room in rooms.ROOMS if not rooms.files(room)] == []


def test_no_room_imports_a_higher_room():
    up = [
        f"{short(path)} imports {short(other)}"
        for path, others in rooms.imports().items()
        for other in others
        if ORDER.index(rooms.folder_of(path)) > ORDER.index(rooms.folder_of(other))
    ]
    assert up == []


def test_no_two_rooms_have_a_file_of_the_same_name():
    names = Counter(path.name for path in rooms.sources() if rooms.folder_of(path) in rooms.BY_FOLDER)
    assert [name for name, files in names.items() if files > 1] == []


def test_no_files_import_each_other_in_a_circle():
    assert [" -> ".join(circle) for circle in rooms.circles()] == []


def test_code_on_nodes_imports_nothing_of_the_controller():
    found = [
        f"{short(path)} imports {name}"
        for path in rooms.sources()
        if short(path).startswith(("module_utils/", "modules/"))
        for name in rooms.imported(path)
        if "plugin_utils" in name or (name.startswith("ansible.") and not name.startswith("ansible.module_utils."))
    ]
    assert found == []


@pytest.mark.parametrize("library", ALONE)
def test_a_library_is_imported_in_one_place(library):
    users = [short(path) for path in rooms.sources() if any(name.split(".")[0] == library for name in rooms.imported(path))]
    assert users
    assert [user for user in users if not user.startswith(ALONE[library])] == []


def test_nothing_imports_the_docker_sdk():
    """Managers and nodes need only Python's standard library."""
    assert [short(path) for path in rooms.sources() if any(name.split(".")[0] in ("docker", "requests") for name in rooms.imported(path))] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from .._policy import rules", "module_utils/_policy/rules.py"),
        ("from .._policy.rules import check_rules", "module_utils/_policy/rules.py"),
        ("from ..._errors import GpuSwarmError", None),  # with one level too many, the import leaves module_utils
        ("from .._errors import GpuSwarmError", "module_utils/_errors.py"),
        ("from . import journal", "module_utils/_node/journal.py"),
        ("def late():\n    from .journal import State", "module_utils/_node/journal.py"),
        ("from ansible_collections.fleet.gpu_swarm.plugins.module_utils._gpu import nvml", "module_utils/_gpu/nvml.py"),
        ("import os.path", None),
    ],
)
def test_every_import_leads_to_a_file(text, found, tmp_path, monkeypatch):
    for name in ("_policy/rules", "_node/journal", "_gpu/nvml", "_errors"):
        path = tmp_path / "module_utils" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    user = tmp_path / "module_utils" / "_node" / "user.py"
    user.write_text(text)
    monkeypatch.setattr(rooms, "PLUGINS", tmp_path)
    assert {short(path) for path in rooms.imports()[user]} == ({found} if found else set())


def test_users_reach_only_what_plugins_import(tmp_path, monkeypatch):
    texts = {"modules/a": "def f():\n    from ..module_utils._node import b", "module_utils/_node/b": "", "module_utils/_node/c": "from . import b"}
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(rooms, "PLUGINS", tmp_path)
    assert {short(path) for path in rooms.reached()} == {"modules/a.py", "module_utils/_node/b.py"}


def test_a_circle_is_found(tmp_path, monkeypatch):
    for name, text in (("a", "from . import b"), ("b", "from .c import x"), ("c", "def late():\n    from . import a")):
        path = tmp_path / "module_utils" / "_node" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(rooms, "PLUGINS", tmp_path)
    assert rooms.circles() == [["module_utils/_node/a.py", "module_utils/_node/b.py", "module_utils/_node/c.py"]]
