# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fills the cache of node images, so that the fleets boot at once when their turn comes: python -m tests.runner.images [--moving]."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.lab import rootfs
from tests.lab.lab import LabError


def main(*, moving: bool) -> int:
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(rootfs.build, rootfs.releases(moving=moving)))
    except LabError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(moving="--moving" in sys.argv[1:]))
