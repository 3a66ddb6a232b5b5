# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the root file system of nodes: a debootstrap tree per Debian release, cached as a tarball until its recipe changes."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import tempfile
import time
from functools import cache as once
from pathlib import Path

import yaml

from . import lab as places
from .daemon import need
from .digest import content, digest
from .lab import HERE, LabError

ROOTFS = HERE / "rootfs"
NEEDED = {"debootstrap": "debootstrap", "tar": "tar"}
TRY_AGAIN_S = 6 * 3600


@once
def recipe() -> dict:
    return yaml.safe_load((HERE / "images.yml").read_text())


def releases(*, moving: bool | None = None) -> list[str]:
    """Return all releases, only the moving releases, or only the fixed releases."""
    return [name for name in recipe()["releases"] if moving is None or moving is (replacement(name) is not None)]


def replacement(release: str) -> str | None:
    """Return the release that nodes get if this moving release cannot be built, or None if it does not move."""
    return recipe()["releases"][release].get("instead")


def key(release: str) -> str:
    """Return a digest of everything in the image."""
    files = sorted(path for path in ROOTFS.rglob("*") if path.is_file())
    own = {**recipe(), "releases": recipe()["releases"][release]}
    parts = [json.dumps([release, own], sort_keys=True), content(Path(__file__))]
    parts += [f"{path.relative_to(ROOTFS)} {path.stat().st_mode:o} {content(path)}" for path in files]
    return digest(*parts)


def cached(release: str) -> Path:
    return places.cache() / f"{release}-{key(release)}"


def mirror(suite: str) -> list[str]:
    """Return the Debian mirror that this machine uses, or nothing: debootstrap then uses its default."""
    lines = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    ).stdout.splitlines()  # fmt: skip
    found = [line.split()[2] for line in lines if line.startswith("Debian Debian ")]
    return found[:1]


def _in_namespace(command: list[str], log: Path) -> None:
    """Run the command in a mount and a process namespace, so that a failed build leaves neither mounts nor processes behind."""
    wrapped = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *command]
    with open(log, "ab") as out:
        done = subprocess.run(wrapped, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False)
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        raise LabError(f"{command[0]} failed with {done.returncode}; the end of its log:\n{tail}")


def build(release: str) -> None:
    """Make the cached tarball and the .deb files for the lab's mirror, unless they exist."""
    target = cached(release)
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{release}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the cache serves every lab of the user
        if target.exists():
            return
        need(NEEDED)
        if replacement(release) is None:
            _make(release, target)
        else:
            _make_moving_release(release, target)


def _make_moving_release(release: str, target: Path) -> None:
    """Build a moving release. After a recent failure, do not try again for each fleet, because each attempt takes minutes."""
    failed = target.with_name(f"{target.name}.failed")
    if failed.exists() and time.time() - failed.stat().st_mtime < TRY_AGAIN_S:
        raise LabError(f"{failed.read_text()}\n(recorded by a recent build; remove {failed} to try again now)")
    try:
        _make(release, target)
    except LabError as error:
        failed.write_text(str(error))
        raise
    failed.unlink(missing_ok=True)


def _make(release: str, target: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{release}-", dir=target.parent))
    try:
        tree, log, ready = work / "tree", work / "log", work / "ready"
        ready.mkdir()
        suite = recipe()["releases"][release]["suite"]
        packages = ",".join(recipe()["packages"] + recipe()["releases"][release]["packages"])
        _in_namespace(["debootstrap", "--variant=minbase", f"--include={packages}", suite, str(tree), *mirror(suite)], log)
        _keep_packages(tree, ready / "mirror", log)
        _finish(tree)
        _in_namespace(["tar", "--create", "--numeric-owner", "-C", str(tree), "-f", str(ready / "rootfs.tar"), "."], log)
        ready.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _keep_packages(tree: Path, destination: Path, log: Path) -> None:
    archives = tree / "var/cache/apt/archives"
    for package in archives.glob("*.deb"):
        package.unlink()
    install = ["apt-get", "install", "--download-only", "--reinstall", "--yes", "--no-install-recommends"]
    _in_namespace(["chroot", str(tree), *install, *recipe()["mirror"]], log)
    destination.mkdir()
    for package in archives.glob("*.deb"):
        shutil.move(package, destination)


def _finish(tree: Path) -> None:
    """Add the lab's files, mask units, and remove leftovers of the build."""
    for name in recipe()["removed"]:
        shutil.rmtree(tree / name.lstrip("/"))
    for name in ("var/log", "var/cache/apt/archives/partial", "var/lib/apt/lists/partial"):
        (tree / name).mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOTFS, tree, dirs_exist_ok=True, symlinks=True)
    units = tree / "etc/systemd/system"
    for unit in recipe()["masked"]:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    wants = units / "multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "lab-images.service").symlink_to("/etc/systemd/system/lab-images.service")
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/apt/sources.list"):
        (tree / name).write_text("")
