# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images in the lab's dockerd: images of nodes, which `docker import` loads, and images of tasks."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import docker

from . import families, rootfs
from . import lab as places
from .daemon import client, need
from .fleet import Fleet
from .lab import HERE, Lab, LabError

# Docker copies the files of an image below a volume's path into the volume, so each node starts with an empty store.
CHANGES = ["VOLUME /var/lib/docker", 'CMD ["/usr/local/sbin/lab-init"]', "ENV container=docker"]
UNUSED = 30 * 24 * 3600  # seconds
# "debian13=debian-testing": nodes of the first release get the second release instead.
REPLACE = "GPU_SWARM_LAB_REPLACE"


def tag(release: str) -> str:
    return f"lab/node:{release}-{rootfs.key(release)}"


def built(fleet: Fleet, say: Callable[[str], None]) -> Fleet:
    """Return the fleet with available images. If a moving release cannot be built, its nodes get another release.

    If a node's family exists only on the moving release, the node keeps that release, because no other release has the family's packages.
    """
    fleet = replaced(fleet)
    wanted = sorted({node.image for node in fleet.nodes})
    only = {families.release(node.family) for node in fleet.nodes}
    with ThreadPoolExecutor() as pool:
        had = dict(zip(wanted, pool.map(lambda release: _build(release, say, spare=release not in only), wanted), strict=True))
    return replace(fleet, nodes=tuple(replace(node, image=had[node.image]) for node in fleet.nodes))


def replaced(fleet: Fleet) -> Fleet:
    """Replace releases according to the environment variable."""
    given = os.environ.get(REPLACE, "")
    if not given:
        return fleet
    one, _sign, other = given.partition("=")
    if not {one, other} <= set(rootfs.releases()):
        raise LabError(f"{REPLACE}: {given!r} is not of the form A=B, with two of {', '.join(rootfs.releases())}")
    return replace(fleet, nodes=tuple(replace(node, image=other) if node.image == one else node for node in fleet.nodes))


def unusable(release: str, why: str) -> None:
    """Record that the image of a moving release does not boot. Until the next attempt, its nodes get another release."""
    mark = rootfs.cached(release).with_name(f"{rootfs.cached(release).name}.failed")
    mark.write_text(why, encoding="utf-8")
    shutil.rmtree(rootfs.cached(release))


def _build(release: str, say: Callable[[str], None], *, spare: bool) -> str:
    other = rootfs.replacement(release) if spare else None
    try:
        rootfs.build(release)
    except LabError as error:
        # The environment already replaces this release, and the user does not want a second replacement.
        if other is None or os.environ.get(REPLACE):
            raise
        say(f"{release} cannot be built; its nodes are of {other}: {error}")
        rootfs.build(other)
        return other
    return release


def provide(lab: Lab, wanted: set[str]) -> None:
    """Load the built images of these releases and the images of tasks into the lab's dockerd."""
    need({"busybox": "busybox-static"})
    with ThreadPoolExecutor() as pool:
        engine = client(lab, timeout=600)
        list(pool.map(lambda release: _import(engine, release), sorted(wanted)))
    task_images(lab, engine)
    _prune_cache(wanted)


def _prune_cache(used: set[str]) -> None:
    """Remove file systems of former recipes that nothing has used for a month."""
    for release in used:
        os.utime(rootfs.cached(release))
    for folder in places.cache().glob("debian*-*"):
        if folder.is_dir() and time.time() - folder.stat().st_mtime > UNUSED:
            shutil.rmtree(folder)


def _present(engine: docker.DockerClient, name: str) -> bool:
    return bool(engine.images.list(name=name))


def _import(engine: docker.DockerClient, release: str) -> None:
    repository, tag_ = tag(release).split(":")
    if not _present(engine, tag(release)):
        engine.api.import_image_from_file(str(rootfs.cached(release) / "rootfs.tar"), repository=repository, tag=tag_, changes=CHANGES)


def task_images(lab: Lab, engine: docker.DockerClient) -> Path:
    """Build an image of one file (busybox) and a script. `lab/cuda` also has the variables of every CUDA image. Both are saved for the nodes."""
    saved = lab.root / "images.tar"
    if saved.exists():
        return saved
    with tempfile.TemporaryDirectory(dir=lab.root) as folder:
        tree = Path(folder)
        (tree / "bin").mkdir()
        shutil.copy2(shutil.which("busybox") or "busybox", tree / "bin/busybox")
        for applet in ("sh", "ls", "cat", "tr", "grep", "sed", "sleep", "env", "true", "false", "hostname", "wc"):
            (tree / "bin" / applet).symlink_to("busybox")
        for name in ("tmp", "proc", "sys", "dev", "etc"):
            (tree / name).mkdir()
        shutil.copy2(HERE / "task", tree / "bin/task")
        archive = subprocess.run(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    command = ["ENV PATH=/usr/bin:/bin", 'CMD ["/bin/task"]']
    for name, changes in (("lab/task", command), ("lab/cuda", [*command, "ENV NVIDIA_VISIBLE_DEVICES=all"])):
        engine.api.import_image_from_data(archive, repository=name, tag="latest", changes=changes)
    partial = saved.with_suffix(".partial")
    # Both images in one archive. The SDK can only save one image at a time.
    subprocess.run(
        ["docker", "save", "--output", str(partial), "lab/task:latest", "lab/cuda:latest"],
        env={**os.environ, "DOCKER_HOST": lab.docker_host}, check=True, capture_output=True,
    )  # fmt: skip
    partial.rename(saved)
    return saved
