# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages of Debian that some nodes have and a node's image has not: downloaded when they are first needed, then cached."""

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

DEBIAN = "http://deb.debian.org/debian"  # where this machine's apt knows none


def key(release: str, *parts: object) -> str:
    """Changes with the parts, and with the tree that the packages are for."""
    return digest(json.dumps([rootfs.key(release), *parts], sort_keys=True), content(Path(__file__)))


def provided(release: str, what: str, key_: str, wanted: list[str], aside: list[str]) -> Path:
    """A folder with the .deb files of ``wanted`` and all that they need in debs/, and those of ``aside`` alone in aside/."""
    target = places.cache() / f"{release}-{what}-{key_}"
    with open(target.parent / f"{release}-{what}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the cache serves every lab of the user
        if not target.exists():
            need(rootfs.NEEDED)
            _download(release, target, wanted, aside)
    os.utime(target)  # else what has not been used for a month is removed
    return target


def _download(release: str, target: Path, wanted: list[str], aside: list[str]) -> None:
    """With the apt of that release, in a copy of its tree: what the tree has is not downloaded again."""
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        tree, ready = work / "tree", work / "ready"
        tree.mkdir()
        _run("tar", "--extract", "--numeric-owner", "-C", str(tree), "-f", str(rootfs.cached(release) / "rootfs.tar"))
        shutil.copy2("/etc/resolv.conf", tree / "etc/resolv.conf")
        suite = rootfs.recipe()["releases"][release]["suite"]
        (tree / "etc/apt/sources.list").write_text(f"deb {(rootfs.mirror(suite) or [DEBIAN])[0]} {suite} main\n")
        # The list of a suite that moves is valid for a week, and a mirror may lag behind. debootstrap, by which the tree came, takes it all the same.
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
