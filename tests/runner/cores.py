# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a program with another ansible-core and another Python than build/venv has: python -m tests.runner.cores oldest python -m pytest …

Makes build/cores/NAME for this release: a virtual environment with the necessary collections. If this machine lacks the Python, the lab's image of a
Debian release provides it.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lab import rootfs
from tests.lab.lab import LabError

from .model import BUILD, OUT, ROOT

# The collection's dependencies on a controller besides ansible-core, Ansible's collections, and the dependencies of its unit tests.
LIBRARIES = ("archspec", "nvidia-ml-py", "tomli")
TESTS = ("ansible-runner", "cryptography", "pytest", "hypothesis", "packaging", "prometheus-client", "PyYAML")
GENERAL = "community/general"
DEPENDENCIES = (GENERAL,)
# Some unit tests read the output of the callback plugin `json`. The lab's inventories need community.docker's connection plugin.
FOR_TESTS = ("ansible/posix", "community/docker")
# This pip runs on all of these Pythons.
PIP = "pip>=24,<25"
DAY_S = 24 * 3600


@dataclass(frozen=True)
class Core:
    """A release of ansible-core, and the release of `ansible` with matching collections. A Python for nodes gets no controller."""

    name: str
    python: str  # "3.13"
    core: str
    bundle: str = ""
    general: str = ""  # the release of `ansible` that has community.general, if another release has it
    # The lab's image release that has this Python, if the Python is newer than Debian 12's.
    release: str = ""

    @property
    def home(self) -> Path:
        return BUILD / "cores" / self.name

    @property
    def interpreter(self) -> Path:
        return self.home / "venv" / "bin" / "python"

    @property
    def packages(self) -> Path:
        return self.home / "venv" / "lib" / f"python{self.python}" / "site-packages"


# The first release has a community.docker that supports this ansible-core. The second release is the first with community.general 8, in version
# 8.0.2.
OLDEST = Core("oldest", "3.11", "ansible-core==2.16.*", "ansible==11.1.0", general="ansible==9.0.1")
NEWEST = Core("newest", "3.13", "ansible-core", "ansible", release="debian13")
# ansible-core sends code of the controller's release to nodes. The controller itself does not run on this Python.
PYTHON38 = Core("python38", "3.8", "ansible-core==2.16.*")
CORES = {core.name: core for core in (OLDEST, NEWEST, PYTHON38)}


class NoPython(Exception):
    pass


def find(version: str) -> str | None:
    """Return a Python that runs. pyenv's command may exist, but only report that another version is selected."""
    name = f"python{version}"
    found = [shutil.which(name), *sorted(glob.glob(str(Path.home() / ".pyenv/versions" / f"{version}.*" / "bin" / name)), reverse=True)]
    return next((path for path in found if path and _runs(path)), None)


def missing(version: str) -> str:
    return (
        f"no Python {version} was found, neither as python{version} on your PATH nor in ~/.pyenv/versions: install one, for example with"
        f" `pyenv install {version}`, or `uv python install {version}` and its directory on your PATH"
    )


def _runs(path: str) -> bool:
    return subprocess.run([path, "-c", "import venv, ssl, ctypes"], capture_output=True, check=False).returncode == 0


def python(core: Core) -> tuple[list[str], str]:
    """Return (the prefix of each command, the path of the Python)."""
    found = find(core.python)
    if found:
        return [], found
    if not core.release:
        raise NoPython(missing(core.python))
    return [*_over(_tree(core.release))], f"/usr/bin/python{core.python}"


def _tree(release: str) -> Path:
    """Return the folder with the unpacked programs and libraries of the lab's image."""
    rootfs.build(release)
    tree = BUILD / "cores" / rootfs.cached(release).name
    if not tree.exists():
        unpacked = tree.with_name(f"{tree.name}.new")
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        archive = str(rootfs.cached(release) / "rootfs.tar")
        subprocess.run(["tar", "--extract", "--no-same-owner", "-C", str(unpacked), "-f", archive, "./usr/bin", "./usr/lib"], check=True)
        unpacked.rename(tree)
    return tree


def _over(tree: Path) -> list[str]:
    """Return a command prefix that mounts the release's programs and libraries over this machine's. Older programs run with the newer libraries."""
    mount = 'mount -t overlay overlay -o "lowerdir=$0/usr:/usr" /usr && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mount, str(tree)]


def provide(core: Core) -> tuple[list[str], dict[str, str]]:
    """Make the environment unless it exists. Return the prefix of each command in it, and the versions of its packages."""
    before, program = python(core)
    core.home.mkdir(parents=True, exist_ok=True)
    ready = core.home / "ready.json"
    wanted = json.dumps([asdict(core), LIBRARIES, TESTS, DEPENDENCIES, FOR_TESTS, before, program])
    with open(core.home / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several stages use it
        # A newer release may appear tomorrow.
        if not ready.exists() or ready.read_text() != wanted or time.time() - ready.stat().st_mtime > DAY_S:
            _make(core, before, program)
            ready.write_text(wanted)
        return before, _noted(core, before)


def _make(core: Core, before: list[str], program: str) -> None:
    venv = core.home / "venv"
    subprocess.run([*before, program, "-m", "venv", "--without-pip", "--clear", str(venv)], check=True)
    for_it = [f"--python-version={core.python}", "--only-binary=:all:", "--quiet", "--disable-pip-version-check"]
    # An older pip does not run on a newer Python, and Debian's Python has none.
    subprocess.run([sys.executable, "-m", "pip", "install", *for_it, f"--target={core.packages}", PIP], check=True)
    pip = [*before, str(core.interpreter), "-m", "pip", "--disable-pip-version-check"]
    if not core.bundle:
        subprocess.run([*pip, "install", "--quiet", *LIBRARIES, *TESTS], check=True)
        for_controller = ["--python-version=3.11", *for_it[1:], "--no-deps", f"--target={core.packages}"]
        subprocess.run([sys.executable, "-m", "pip", "install", *for_controller, core.core], check=True)
        return
    subprocess.run([*pip, "install", "--quiet", core.core, *LIBRARIES, *TESTS], check=True)
    for bundle, names in bundles(core).items():
        subprocess.run([*pip, "download", "--quiet", "--no-deps", f"--dest={core.home}", bundle], check=True)
        unpack(core, names)
    own = core.home / "ansible_collections" / "fleet" / "gpu_swarm"
    if not own.is_symlink():
        own.parent.mkdir(parents=True)
        own.symlink_to(ROOT)


def bundles(core: Core) -> dict[str, tuple[str, ...]]:
    """Return, for each release of `ansible`, the collections to unpack from it."""
    every = (*DEPENDENCIES, *FOR_TESTS)
    if not core.general:
        return {core.bundle: every}
    return {core.bundle: tuple(name for name in every if name != GENERAL), core.general: (GENERAL,)}


def unpack(core: Core, names: tuple[str, ...]) -> None:
    """Unpack the necessary collections from the wheel of `ansible` to its usual place."""
    (wheel,) = core.home.glob("ansible-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        wanted = tuple(f"ansible_collections/{one}/" for one in names)
        archive.extractall(core.packages, [name for name in archive.namelist() if name.startswith(wanted)])
    wheel.unlink()


def collection(core: Core, name: str) -> Path:
    return core.packages / "ansible_collections" / name


def _versions(core: Core, before: list[str]) -> Iterator[tuple[str, str]]:
    code = "import platform; from importlib.metadata import version; print(platform.python_version(), version('ansible-core'))"
    known = subprocess.run([*before, str(core.interpreter), "-c", code], check=True, capture_output=True, text=True).stdout.split()
    yield from zip(("Python", "ansible-core"), known, strict=True)
    for name in DEPENDENCIES if core.bundle else ():
        manifest = json.loads((collection(core, name) / "MANIFEST.json").read_text())
        yield name.replace("/", "."), manifest["collection_info"]["version"]


def _noted(core: Core, before: list[str]) -> dict[str, str]:
    """Print the versions into the log, for the list of tested versions."""
    versions = dict(_versions(core, before))
    print(f"{core.name}: {', '.join(' '.join(one) for one in versions.items())}", flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / "versions.json", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        every = {**json.loads(file.read() or "{}"), core.name: versions}
        file.truncate(0)
        file.write(json.dumps(every, indent=2, sort_keys=True) + "\n")
    return versions


def environment(core: Core) -> dict[str, str]:
    path = f"{core.interpreter.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "PATH": path, "ANSIBLE_COLLECTIONS_PATH": str(core.home)}


def main() -> int:
    core, command = CORES[sys.argv[1]], sys.argv[2:]
    try:
        before, _versions_there = provide(core)
    except (NoPython, LabError) as error:
        sys.exit(f"{core.name}: {error}")
    full = [*before, *command]
    os.execvpe(full[0], full, environment(core))


if __name__ == "__main__":
    sys.exit(main())
