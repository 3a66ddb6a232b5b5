# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fills the cache of node images, so that fleets later boot at once: python -m tests.runner.images [--moving]."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab import images, rootfs
from tests.lab.lab import CHECKOUT, LabError

BOOTED = "booted"  # a file in the folder of an image with which a node has booted


def main(*, moving: bool) -> int:
    wanted = rootfs.releases(moving=moving)
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(rootfs.build, wanted))
        for release in wanted if moving else ():
            try_out(release)
    except LabError as error:
        print(error)
        return 1
    return 0


def try_out(release: str) -> None:
    """Boot a node with each image of a moving suite. Its systemd or dockerd may not start, and then all tests of a fleet would fail."""
    mark = rootfs.cached(release) / BOOTED
    if mark.exists():
        return
    try:
        boot(release)
    except LabError as error:
        images.unusable(release, str(error))
        raise
    mark.touch()


def boot(release: str) -> None:
    """Boot a fleet of one node with a GPU, because the driver's programs need libraries of the image. Remove the fleet afterwards."""
    name = f"boot-{release}"
    with tempfile.TemporaryDirectory() as folder:
        description = Path(folder) / "fleet.yml"
        description.write_text(f"nodes: {{n1: {{gpus: t4x4, toolkit: 1.20.0, image: {release}}}}}", encoding="utf-8")
        done = lab("up", str(description), "--name", name)
    if done.returncode:
        raise LabError(f"{release} was built, and no node of it boots: {done.stderr.strip()}")
    lab("down", name)


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tests.lab", *words], cwd=CHECKOUT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main(moving="--moving" in sys.argv[1:]))
