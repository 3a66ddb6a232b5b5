# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Downloads Debian packages that only some nodes need, when a fleet first needs them, and caches them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import lab as places
from . import rootfs
from .daemon import need
from .digest import content, digest
from .lab import LabError

DEBIAN = "http://deb.debian.org/debian"  # used if this machine's apt has no mirror


def key(release: str, *parts: object) -> str:
    """Return a digest that changes with these parts, and with the file system that the packages are for."""
    return digest(json.dumps([rootfs.key(release), *parts], sort_keys=True), content(Path(__file__)))


def provide(release: str, what: str, key_: str, wanted: list[str], aside: list[str]) -> Path:
    """Return a folder. debs/ has the .deb files of ``wanted`` and their dependencies. aside/ has only the .deb files of ``aside``."""
    target = places.cache() / f"{release}-{what}-{key_}"
    with open(target.parent / f"{release}-{what}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the cache serves every lab of the user
        if not target.exists():
            need(rootfs.NEEDED)
            _download(release, target, wanted, aside)
    os.utime(target)  # folders that were not used for a month are removed
    return target


def _download(release: str, target: Path, wanted: list[str], aside: list[str]) -> None:
    """Download with the apt of that release, in a copy of its file system. Do not download packages that the file system already has."""
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        tree, ready = work / "tree", work / "ready"
        tree.mkdir()
        _run("tar", "--extract", "--numeric-owner", "-C", str(tree), "-f", str(rootfs.cached(release) / "rootfs.tar"))
        shutil.copy2("/etc/resolv.conf", tree / "etc/resolv.conf")
        suite = rootfs.recipe()["releases"][release]["suite"]
        (tree / "etc/apt/sources.list").write_text(f"deb {(rootfs.mirror(suite) or [DEBIAN])[0]} {suite} main\n")
        # The list of a moving suite is valid for a week, and a mirror may be older. debootstrap made this tree, and ignores the date too.
        _run("chroot", str(tree), "apt-get", "--option", "Acquire::Check-Valid-Until=false", "update")
        (ready / "debs").mkdir(parents=True)
        (ready / "aside").mkdir()
        _run("chroot", str(tree), "apt-get", "install", "--download-only", "--yes", "--no-install-recommends", *wanted)
        _take(tree, ready / "debs")
        if aside:
            _run("chroot", str(tree), "sh", "-c", 'cd /var/cache/apt/archives && exec apt-get download "$@"', "-", *aside)
        _take(tree, ready / "aside")
        ready.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _take(tree: Path, folder: Path) -> None:
    for package in (tree / "var/cache/apt/archives").glob("*.deb"):
        shutil.move(package, folder)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
