# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies the tree like a fresh clone: the tracked files, and new files that git does not ignore."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

import yaml

from .model import BUILD, ROOT

SANITY = BUILD / "sanity"
# ansible-test builds virtual environments with a script that it downloads from a server of its project. If this file exists, it downloads nothing.
# This script copies the pip of the Python that runs ansible-test, if the release is the same. For each of ten environments, this saves the seconds
# that ensurepip takes.
GET_PIP = """\
import importlib.util
import shutil
import subprocess
import sys
import sysconfig

if {release!r} == "%d.%d" % sys.version_info[:2]:
    shutil.copytree({folder!r}, sysconfig.get_path("purelib") + "/pip")
elif importlib.util.find_spec("ensurepip"):
    sys.exit(subprocess.call([sys.executable, "-m", "ensurepip", "--default-pip"]))
else:
    sys.exit(subprocess.call([{python!r}, "-m", "pip", "--python", sys.executable, "install", "--quiet", {pip!r}]))
"""


def files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and ((ROOT / name).exists() or (ROOT / name).is_symlink())]


def shipped() -> list[Path]:
    """Return the files of the collection's tarball, by the patterns of galaxy.yml as ansible-galaxy reads them."""
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
    """Copy the tree for ansible-test, which needs ansible_collections/ in the path, no symlink, and a git repository."""
    copy_to(sanity(base), names)
    for command in (["git", "init", "-q"], ["git", "add", "--all", "--force"]):
        subprocess.run(command, cwd=sanity(base), check=True)
    prepare_sanity_home(base, python)


def prepare_sanity_home(base: Path, python: Sequence[str]) -> None:
    """Make a separate home for ansible-test, so that ansible-test writes nothing to the user's home. pip still uses the user's settings."""
    home = sanity_home(base)
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    pip = describe_pip(python)
    script = GET_PIP.format(release=pip["release"], folder=pip["folder"], python=python[-1], pip=f"pip=={pip['wanted']}")
    (cache / f"get_pip_{str(pip['wanted']).replace('.', '_')}.py").write_text(script)
    for name in (".config/pip", ".pip"):
        theirs, own = Path.home() / name, home / name
        if theirs.exists() and not own.is_symlink():
            own.parent.mkdir(parents=True, exist_ok=True)
            own.symlink_to(theirs)


def describe_pip(python: Sequence[str]) -> dict[str, str | None]:
    """Return the values for GET_PIP, and the version of pip that ansible-test would fetch. The script's name contains this version."""
    code = (
        "import importlib.util, json, os, sys, types; from ansible_test._internal.python_requirements import get_venv_packages;"
        "release, found = '%d.%d' % sys.version_info[:2], importlib.util.find_spec('pip');"
        "wanted = get_venv_packages(types.SimpleNamespace(version=release))['pip'];"
        "print(json.dumps({'wanted': wanted, 'release': found and release, 'folder': found and os.path.dirname(found.origin)}))"
    )
    found = subprocess.run([*python, "-c", code], capture_output=True, text=True, check=True).stdout
    return json.loads(found)
