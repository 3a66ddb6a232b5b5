# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of another family of distributions: the .deb files of its package manager, cached, and what else makes a node one of it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from functools import cache as once
from pathlib import Path

import yaml

from . import lab as places
from . import rootfs
from .archive import Files
from .daemon import need
from .lab import HERE, LabError

DEBIAN = "http://deb.debian.org/debian"  # where this machine's apt knows none
# Debian's rpm has its database in the home directory of whoever runs it.
MACROS = {"etc/rpm/macros.dbpath": "%_dbpath /var/lib/rpm\n"}


@once
def table() -> dict[str, dict]:
    return yaml.safe_load((HERE / "families.yml").read_text())


def key(release: str, family: str) -> str:
    """Changes with anything of the family that goes into a node's image."""
    parts = [json.dumps([rootfs.key(release), table()[family]], sort_keys=True), Path(__file__).read_text()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def cached(release: str, family: str) -> Path:
    return places.cache() / f"{release}-{family}-{key(release, family)}"


def debs(release: str, family: str) -> list[Path]:
    """Of the family's package manager, with all that it needs. They are downloaded when they are first needed."""
    return sorted((_provided(release, family) / "debs").glob("*.deb"))


def aside(release: str, family: str) -> list[Path]:
    """Packages of which the family's distribution has parts."""
    return sorted((_provided(release, family) / "aside").glob("*.deb"))


def _provided(release: str, family: str) -> Path:
    target = cached(release, family)
    with open(target.parent / f"{release}-{family}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the cache serves every lab of the user
        if not target.exists():
            need(rootfs.NEEDED)
            _download(release, family, target)
    os.utime(target)  # else what has not been used for a month is removed
    return target


def _download(release: str, family: str, target: Path) -> None:
    """With the apt of that release, in a copy of its tree: what the tree has is not downloaded again."""
    work = Path(tempfile.mkdtemp(prefix=f".{release}-{family}-", dir=target.parent))
    try:
        tree, ready = work / "tree", work / "ready"
        tree.mkdir()
        _run("tar", "--extract", "--numeric-owner", "-C", str(tree), "-f", str(rootfs.cached(release) / "rootfs.tar"))
        shutil.copy2("/etc/resolv.conf", tree / "etc/resolv.conf")
        suite = rootfs.recipe()["releases"][release]["suite"]
        (tree / "etc/apt/sources.list").write_text(f"deb {(rootfs.mirror(suite) or [DEBIAN])[0]} {suite} main\n")
        _run("chroot", str(tree), "apt-get", "update")
        for folder, wanted in (("debs", table()[family]["packages"]), ("aside", table()[family]["aside"])):
            (ready / folder).mkdir(parents=True)
            if folder == "debs":
                _run("chroot", str(tree), "apt-get", "install", "--download-only", "--yes", "--no-install-recommends", *wanted)
            elif wanted:
                _run("chroot", str(tree), "sh", "-c", 'cd /var/cache/apt/archives && exec apt-get download "$@"', "-", *wanted)
            for package in (tree / "var/cache/apt/archives").glob("*.deb"):
                shutil.move(package, ready / folder)
        ready.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)} failed:\n{done.stderr.strip()}")


def files(family: str) -> Files:
    """What such a distribution has, and Debian has not."""
    return {path: (text.encode(), 0o644) for path, text in {**MACROS, **table()[family]["files"]}.items()}


def commands(base: str) -> list[str]:
    """By which a node becomes one of the family, with the packages in /root. In two steps, since dpkg brings only the second into an order."""
    return [
        "dpkg --unpack /root/*.deb >/dev/null",
        "dpkg --configure --pending >/dev/null",
        "rm -r /root/*.deb /usr/share/keyrings /etc/apt/sources.list.d",  # Debian's, which such a distribution has not
        "rpm --initdb",
        f"rpm --install /root/{base}",
    ]
