# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the state of the toolkit's packages from the package manager's files. It starts no process.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

PACKAGES = ("libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit-base", "nvidia-container-toolkit")

# The files that list held packages, and the pattern of a line. See dpkg(1) --set-selections, dnf-versionlock(8) of dnf 4 and dnf 5, zypper(8)
# addlock. Each pattern begins with a line break instead of ^, because re then searches a file of a megabyte many times faster.
HELD_FILES = (
    ("var/lib/dpkg/status", r"\nPackage: (%s)\nStatus: hold "),
    ("etc/dnf/plugins/versionlock.list", r"\n(%s)-\d+:"),
    ("etc/dnf/versionlock.toml", r'\nname *= *"(%s)"'),
    ("etc/zypp/locks", r"\nsolvable_name: (%s)$"),
)

# A package has one of these states if dpkg was killed while it worked on the package.
HALF_INSTALLED_STATES = ("half-installed", "unpacked", "half-configured")
STATE_PATTERN = r"\nPackage: (%s)\nStatus: \S+ \S+ (\S+)$"

# rpm does not record that it was killed. So the role nvidia_container_toolkit creates this file before dnf or zypper changes packages, and removes it
# afterwards.
UNFINISHED = "var/lib/gpu-swarm/packages-unfinished"


def held_packages(root: str = "/") -> list[str]:
    """Return the names of the held packages, in the order of PACKAGES."""
    names = {name for path, pattern in HELD_FILES for name in _find(pattern, os.path.join(root, path))}
    return [name for name in PACKAGES if name in names]


def is_half_installed(root: str = "/") -> bool:
    """Return whether the package manager was killed while it worked on the packages. apt refuses all work until someone repairs the packages."""
    if os.path.exists(os.path.join(root, UNFINISHED)):
        return True
    dpkg = os.path.join(root, "var/lib/dpkg")
    # dpkg writes newer changes to numbered files and merges them into its status later.
    files = [os.path.join(dpkg, "status"), *sorted(glob.glob(os.path.join(glob.escape(dpkg), "updates", "[0-9]*")))]
    states = dict(pair for path in files for pair in _find(STATE_PATTERN, path))
    return any(state in HALF_INSTALLED_STATES for state in states.values())


def _find(pattern: str, path: str) -> list[Any]:
    """Return all matches of the pattern in a file; [] if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return re.findall(pattern % "|".join(map(re.escape, PACKAGES)), "\n" + stream.read(), re.MULTILINE)
    except OSError:
        return []
