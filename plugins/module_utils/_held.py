# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which of the toolkit's packages the package manager keeps at their version, read from its own files: no process is started.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re

PACKAGES = ("libnvidia-container1", "libnvidia-container-tools", "nvidia-container-toolkit-base", "nvidia-container-toolkit")

# Where it stands, and how: dpkg(1) --set-selections, dnf-versionlock(8) of dnf 4 and of dnf 5, zypper(8) addlock.
PLACES = (
    ("/var/lib/dpkg/status", r"^Package: (%s)\nStatus: hold "),
    ("/etc/dnf/plugins/versionlock.list", r"^(%s)-\d+:"),
    ("/etc/dnf/versionlock.toml", r'^name *= *"(%s)"'),
    ("/etc/zypp/locks", r"^solvable_name: (%s)$"),
)


def held(places=PLACES):
    """The names of the packages that are held, in the order of PACKAGES. A file that is not there holds nothing."""
    found = set()
    for path, line in places:
        try:
            with open(path, encoding="utf-8", errors="replace") as told:
                found.update(re.findall(line % "|".join(map(re.escape, PACKAGES)), told.read(), re.MULTILINE))
        except OSError:
            continue
    return [name for name in PACKAGES if name in found]
