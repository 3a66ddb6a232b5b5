# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make check` selects the unit tests that a change concerns. An extra test costs a second. A missing test fails only later, in `make test`."""

from __future__ import annotations

import subprocess

import pytest

from tests.runner import changed

ABOVE = "ansible_collections.fleet.gpu_swarm.plugins"
FILES = {
    "plugins/module_utils/_room/low.py": "",
    "plugins/module_utils/_room/high.py": "from .low import x\n",
    "plugins/module_utils/_other/top.py": "from .._room import high\n",
    "plugins/modules/door.py": "from ..module_utils._other.top import main\n",
    "roles/one/vars/main.yml": "",
    "tests/unit/conftest.py": "import sys\n",
    "tests/unit/room/conftest.py": "",
    "tests/unit/support/lab.py": f"from {ABOVE}.module_utils._room import high\n",
    "tests/unit/room/test_low.py": f"from {ABOVE}.module_utils._room.low import x\n",
    "tests/unit/room/test_lab.py": "from lab import node\n",
    "tests/unit/test_door.py": f"import support.lab\nfrom {ABOVE}.modules import door\n",
    "tests/unit/test_roles.py": "VARS = ROOT / 'roles' / 'one'\n",
    "tests/unit/test_imports.py": "'''It reads the roles.'''\nfor path in ROOT.glob('plugins/**/*.py'):\n    pass\n",
    "tests/unit/test_tasks.py": "for task in swarm['tasks']:\n    pass\n",
    "tests/unit/test_module.py": "run('fleet.gpu_swarm.door', 'door of the roles')\n",
}


@pytest.fixture
def tree(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return changed.Tree(tmp_path, FILES)


EVERY = ["room/test_lab", "room/test_low", "test_door", "test_imports", "test_module", "test_roles", "test_tasks"]


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("plugins/module_utils/_room/low.py", ["room/test_lab", "room/test_low", "test_door", "test_imports"]),
        ("plugins/module_utils/_other/top.py", ["test_door", "test_imports"]),
        ("plugins/modules/door.py", ["test_door", "test_imports", "test_module"]),
        ("roles/one/vars/main.yml", ["test_roles"]),
        ("roles/one/tasks/main.yml", ["test_roles"]),
        ("tests/unit/support/lab.py", ["room/test_lab", "test_door"]),
        ("tests/unit/conftest.py", EVERY),
        ("tests/unit/room/conftest.py", ["room/test_lab", "room/test_low"]),
        ("tests/unit/test_roles.py", ["test_roles"]),
        ("tests/unit/test_gone.py", []),
        ("README.md", []),
    ],
)
def test_a_change_concerns_files_that_import_or_name_it(tree, path, tests):
    assert tree.concerned({path}) == [f"tests/unit/{name}.py" for name in tests]


def test_changes_are_read_since_the_branch_began_or_the_last_commit(tmp_path, monkeypatch):
    def git(*words):
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(name):
        (tmp_path / name).write_text(name)
        git("add", "--all")
        git("commit", "-m", name)

    monkeypatch.setattr(changed, "ROOT", tmp_path)
    git("init", "--initial-branch", "main")
    for name in ("first", "second"):
        commit(name)
    assert changed.changed() == ("HEAD^", {"second"})
    (tmp_path / "new").write_text("")
    assert changed.changed() == ("HEAD", {"new"})
    git("checkout", "--track", "-b", "branch")
    commit("third")
    (tmp_path / "fourth").write_text("")
    assert changed.changed()[1] == {"new", "third", "fourth"}
