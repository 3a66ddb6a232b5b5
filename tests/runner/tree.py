# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of the tree as a fresh clone would be: what git tracks, and what it would if it were added."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

import yaml

from .model import BUILD, ROOT

SANITY = BUILD / "sanity"
# ansible-test builds virtual environments with a script that it downloads from a server of its project. Python's own
# ensurepip does the same offline; where this file lies, nothing is downloaded.
GET_PIP = """\
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("ensurepip"):
    sys.exit(subprocess.call([sys.executable, "-m", "ensurepip", "--default-pip"]))
sys.exit(subprocess.call([{python!r}, "-m", "pip", "--python", sys.executable, "install", "--quiet", {pip!r}]))
"""


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and ((ROOT / name).exists() or (ROOT / name).is_symlink())]


def shipped() -> list[Path]:
    """Those of them that are in the collection's tarball, by the patterns in galaxy.yml as ansible-galaxy reads them."""
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    return [name for name in files() if not any(fnmatch(str(part), pattern) for part in (name, *name.parents) for pattern in ignored)]


def copy_to(target: Path, names: Iterable[Path] | None = None) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for name in files() if names is None else names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def sanity(base: Path = SANITY) -> Path:
    return base / "ansible_collections" / "fleet" / "gpu_swarm"


def sanity_home(base: Path = SANITY) -> Path:
    return base / "home"


def prepare_sanity(names: Iterable[Path], base: Path = SANITY, python: Sequence[str] = (sys.executable,)) -> None:
    """ansible-test wants its content under ansible_collections/, no symlink, and lists files with git."""
    copy_to(sanity(base), names)
    for command in (["git", "init", "-q"], ["git", "add", "--all", "--force"]):
        subprocess.run(command, cwd=sanity(base), check=True)
    prepare_sanity_home(base, python)


def prepare_sanity_home(base: Path, python: Sequence[str]) -> None:
    """A home of its own, so that nothing is written to the user's; where pip finds its packages stays the user's choice."""
    home = sanity_home(base)
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    version = get_pip_version(python)
    (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(GET_PIP.format(python=python[-1], pip=f"pip=={version}"))
    for name in (".config/pip", ".pip"):
        theirs, own = Path.home() / name, home / name
        if theirs.exists() and not own.is_symlink():
            own.parent.mkdir(parents=True, exist_ok=True)
            own.symlink_to(theirs)


def get_pip_version(python: Sequence[str]) -> str:
    """The pip that the ansible-test of this Python fetches; it names the script after it."""
    code = (
        "import sys, types; from ansible_test._internal.python_requirements import get_venv_packages;"
        "print(get_venv_packages(types.SimpleNamespace(version='%d.%d' % sys.version_info[:2]))['pip'])"
    )
    return subprocess.run([*python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
