# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imports from Ansible's archive are compiled once. If the node has the compiled files already, nothing is compiled.

Every module sets this up before it imports anything else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest

from ansible_collections.fleet.gpu_swarm.plugins.module_utils import _zip_import
from tests.pages import paths

RUN = """\
import sys
sys.path.insert(0, sys.argv[1])
compiled = []
sys.addaudithook(lambda event, args: compiled.append(str(args[1])) if event == "compile" and sys.argv[1] in str(args[1]) else None)
import json
import our
if sys.argv[2] == "faster":
    import our._zip_import
    our._zip_import.HOME = sys.argv[3]
compiled.clear()
import our.room.deep
from our import other
if len(sys.argv) > 4:
    our._zip_import.save_compiled(sys.argv[4])
print(json.dumps([[one[len(sys.argv[1]) + 1 :] for one in compiled], our.room.deep.__file__, our.room.__file__, our.room.__path__]))
"""
FILES = ("our/room/__init__.py", "our/room/deep.py", "our/other.py")
FIRST = "from ..module_utils import _zip_import"


@pytest.fixture
def archive(tmp_path):
    """Create an archive like Ansible's, with a package ``our``."""
    path = tmp_path / "sent.zip"
    with zipfile.ZipFile(path, "w") as opened:
        for name in ("our/__init__.py", *FILES):
            opened.writestr(name, "x = 1\n")
        opened.write(_zip_import.__file__, "our/_zip_import.py")
    return path


def compiled_by(archive, how, home="/none", *more):
    """Return the files that a process with all imports has compiled. Also check that the process knows the location of the files."""
    done = subprocess.run([sys.executable, "-I", "-c", RUN, *map(str, (archive, how, home, *more))], capture_output=True, text=True, check=True)
    compiled, deep, room, path = json.loads(done.stdout)
    assert (deep, room, path) == (f"{archive}/our/room/deep.py", f"{archive}/our/room/__init__.py", [f"{archive}/our/room"])
    return sorted(compiled)


GARBAGE = """\
import atexit, gc, sys
sys.path.insert(0, sys.argv[1])
atexit.register(lambda: print(gc.get_threshold()[0], gc.get_freeze_count() > 1000))
import our._zip_import
"""


def garbage_of(folder):
    """Import _zip_import from this path in a process. Return its threshold, and whether its last collection skips the existing objects."""
    done = subprocess.run([sys.executable, "-I", "-c", GARBAGE, str(folder)], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_module_collects_garbage_less_often_and_not_at_its_end(archive, tmp_path):
    assert garbage_of(archive) == [str(_zip_import.MANY_OBJECTS), "True"]
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "kept")
    threshold, frozen = garbage_of(tmp_path / "kept")  # for example the watcher, which runs for months
    assert threshold != str(_zip_import.MANY_OBJECTS)
    assert frozen == "False"


@pytest.mark.parametrize(("how", "times"), [("faster", 1), ("as-it-is", 2)])
def test_each_file_is_compiled_once(archive, how, times):
    assert compiled_by(archive, how) == sorted(FILES * times)


def test_files_that_the_node_keeps_compiled_are_not_compiled_again(archive, tmp_path):
    home = tmp_path / "kept"
    (home / "room").mkdir(parents=True)
    for name in ("room/deep.py", "other.py"):
        (home / name).write_text("x = 1\n")
    assert compiled_by(archive, "faster", "/none", home) == sorted(FILES)
    before = sorted(home.rglob("*"))
    assert sum(path.suffix == ".pyc" for path in before) == 2
    assert compiled_by(archive, "faster", home) == ["our/room/__init__.py"]
    # Damaged compiled files are not used.
    compiled = next(path for path in before if path.name.startswith("deep.") and path.suffix == ".pyc")
    whole = compiled.read_bytes()
    compiled.write_bytes(whole[:-8])
    assert compiled_by(archive, "faster", home) == ["our/room/__init__.py", "our/room/deep.py"]
    compiled.write_bytes(whole)
    # Another version is not used, and nothing is written.
    (home / "other.py").write_text("x = 2\n")
    assert compiled_by(archive, "faster", home) == ["our/other.py", "our/room/__init__.py"]
    assert sorted(home.rglob("*")) == before


def test_every_module_imports_it_before_the_rest():
    modules = [path for path in sorted((paths.ROOT / "plugins/modules").glob("*.py")) if "\nfrom ..module_utils" in path.read_text()]
    assert len(modules) > 10
    for path in modules:
        first = next(line for line in path.read_text().splitlines() if line.startswith("from ..module_utils"))
        assert first.startswith(FIRST), path.name
