# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which version of the NVIDIA Container Toolkit a host gets (pure).

``wanted`` is nvidia_container_toolkit_version of the host. With None, the host keeps an installed version. A host without the toolkit gets DEFAULT.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The default of the role nvidia_container_toolkit (a test compares them).
DEFAULT = "1.20.0"
VERSION_PATTERN = re.compile(r"\d+\.\d+\.\d+(-\d+)?")


def version_of(package: str | None) -> str | None:
    """Return the toolkit's version from a package's version, such as ``1.20.0`` from ``1.20.0-1``."""
    return package.split("-")[0] if package else None


def version_after(wanted: str | None, assessed: Mapping[str, Any]) -> str:
    """Return the version that the host has after this run."""
    return wanted or assessed["toolkit_version"] or DEFAULT


def needs_packages(wanted: str | None, assessed: Mapping[str, Any]) -> bool:
    """Return whether packages must be installed."""
    is_incomplete = "toolkit_packages" in assessed["missing"]  # a run was killed while it installed them
    return is_incomplete or version_of(version_after(wanted, assessed)) != assessed["toolkit_version"]


def version_error(wanted: str | None, hold: bool | None, assessed: Mapping[str, Any]) -> str | None:
    """Return why this version cannot be installed on the host, or None."""
    if wanted and not VERSION_PATTERN.fullmatch(wanted):
        return (
            f"nvidia_container_toolkit_version is {wanted}. It must be one version of the packages, such as {DEFAULT} or {DEFAULT}-1. "
            f"Remove the setting to keep the installed version, or to install {DEFAULT} where there is none."
        )
    held, installed = assessed.get("toolkit_held"), assessed.get("toolkit_version")
    if hold is not None or not held or not installed or version_of(wanted) in (None, installed):
        return None
    return (
        f"Version {version_of(wanted)} of the NVIDIA Container Toolkit is wanted, but {installed} is installed, "
        f"and the package manager holds {', '.join(held)} at that version. Set nvidia_container_toolkit_hold: true to hold the new version, "
        "or false to hold no version."
    )


def mixture_warnings(versions: Mapping[str, str]) -> list[str]:
    """Return a warning if the hosts have several versions. ``versions`` are by host, as they will be after the run."""
    hosts: dict[str, list[str]] = {}
    for host, version in versions.items():
        hosts.setdefault(version, []).append(host)
    if len(hosts) < 2:
        return []
    newest_first = sorted(hosts, key=lambda version: tuple(map(int, version.split("."))), reverse=True)
    named = "; ".join(f"{version} on {', '.join(hosts[version])}" for version in newest_first)
    return [f"The NVIDIA Container Toolkit has several versions in this fleet: {named}. Set nvidia_container_toolkit_version to have one version."]
