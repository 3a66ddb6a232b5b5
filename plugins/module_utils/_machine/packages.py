# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the package manager records about the toolkit's packages, read from its own files: no process is started.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

PACKAGES = ("libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit-base", "nvidia-container-toolkit")

# The files that list held packages, and the form of a line: dpkg(1) --set-selections, dnf-versionlock(8) of dnf 4 and of dnf 5, zypper(8) addlock.
# Each begins with the line break before it, since re looks for what is literal many times faster than for ^ in files of a megabyte.
HELD = (
    ("var/lib/dpkg/status", r"\nPackage: (%s)\nStatus: hold "),
    ("etc/dnf/plugins/versionlock.list", r"\n(%s)-\d+:"),
    ("etc/dnf/versionlock.toml", r'\nname *= *"(%s)"'),
    ("etc/zypp/locks", r"\nsolvable_name: (%s)$"),
)

# In which dpkg leaves a package over which it was killed.
HALF = ("half-installed", "unpacked", "half-configured")
STATE = r"\nPackage: (%s)\nStatus: \S+ \S+ (\S+)$"

# rpm records no such state: the role nvidia_container_toolkit leaves this there while it changes them with dnf or zypper.
UNFINISHED = "var/lib/gpu-swarm/packages-unfinished"


def held(root: str = "/") -> list[str]:
    """The names of the packages that are kept at their version, in the order of PACKAGES."""
    found = {name for path, line in HELD for name in _find(line, os.path.join(root, path))}
    return [name for name in PACKAGES if name in found]


def half_installed(root: str = "/") -> bool:
    """Whether the package manager was killed while it worked on the packages. apt refuses any work until that is fixed."""
    if os.path.exists(os.path.join(root, UNFINISHED)):
        return True
    dpkg = os.path.join(root, "var/lib/dpkg")
    # After its status, what dpkg has done since it wrote that, in files with numbers for names.
    files = [os.path.join(dpkg, "status"), *sorted(glob.glob(os.path.join(glob.escape(dpkg), "updates", "[0-9]*")))]
    states = dict(pair for path in files for pair in _find(STATE, path))
    return any(state in HALF for state in states.values())


def _find(line: str, path: str) -> list[Any]:
    """All places of a file at which a package stands like that. A file that is not there, or no longer, has none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return re.findall(line % "|".join(map(re.escape, PACKAGES)), "\n" + stream.read(), re.MULTILINE)
    except OSError:
        return []
