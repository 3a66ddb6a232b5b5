# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the versions of a node's packages without booting it. docs/reference/platforms.md shows some of these versions."""

from __future__ import annotations

import re
import subprocess

from . import families, rootfs

STATUS = "./var/lib/dpkg/status"


def of_release(release: str) -> dict[str, str]:
    """Build the image, and return the upstream version of each package."""
    archive = rootfs.cached(release) / "rootfs.tar"
    status = subprocess.run(["tar", "-xOf", str(archive), "--occurrence=1", STATUS], capture_output=True, text=True, check=True).stdout
    entries = [dict(re.findall(r"^(Package|Version): (.*)$", entry, re.MULTILINE)) for entry in status.split("\n\n")]
    return {entry["Package"]: upstream(entry["Version"]) for entry in entries if len(entry) == 2}


def of_family(release: str, family: str) -> dict[str, str]:
    """Return the upstream version of each package that a node of another family adds."""
    names = [path.name.split("_") for path in families.debs(release, family)]
    return {package: upstream(version.replace("%3a", ":")) for package, version, _architecture in names}


def upstream(version: str) -> str:
    """Return the version without the epoch, Debian's revision, and suffixes of repacked sources."""
    return re.sub(r"(\+dfsg\d*|\+ds\d*)?(-[^-]*)?$", "", version.rpartition(":")[2], count=1)
