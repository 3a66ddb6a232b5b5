# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads which devices a container's config.json requests from NVIDIA's runtime, and writes the allowed devices into it (pure).

Only variables are changed, because NVIDIA's tools decode the document strictly. If a name occurs several times, NVIDIA's runtime reads the last value
and getenv reads the first value. So all occurrences get the same value.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import posixpath

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Collection, Mapping, Sequence

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
OFFERED = "GPU_SWARM_DEVICES"  # names of the devices that a service asks for, besides GPUs
# Values that request nothing.
NO_DEVICES = ("", "void", "none")
_HIDDEN = "void"
# A mount requests a device if its target begins with this text. If the toolkit reads mounts, mounts override variables. NVIDIA's runtime only
# compares the text, so no slash has to follow (NCT internal/config/image/cuda_image.go, 1.13.5 to 1.20.0). The runtime reads only mounts below
# /var/run.
DEVICE_MOUNTS = ("/var/run/nvidia-container-devices", "/run/nvidia-container-devices")
_OLD_CUDA = "CUDA_VERSION"  # NVIDIA's runtime gives all GPUs to old images that set this variable


# The most digits of a number in text. Python refuses very long numbers, and before 3.11 parses them very slowly.
MAX_DIGITS = 18


class BundleError(Exception):
    """The document is not a valid description of a container."""


def environment(document: Any) -> list[str]:
    """Return the variables of the process as NAME=value; raises BundleError."""
    process = document.get("process") if isinstance(document, dict) else None
    entries = process.get("env") if isinstance(process, dict) else None
    if entries is None and isinstance(process, dict):
        return []
    if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
        return entries
    raise BundleError("the process has no list of variables")


def name_of(entry: str) -> str:
    return entry.partition("=")[0]


def is_number(value: str) -> bool:
    """Return whether the text has digits only."""
    return value.isdigit() and value.isascii()


def split_words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",") if word.strip()]


def requested(entries: Sequence[str], name: str) -> list[str]:
    """Return all devices that the variables of this name request."""
    devices = [word for entry in entries if name_of(entry) == name for word in split_words(entry.partition("=")[2])]
    return [word for word in dict.fromkeys(devices) if word not in NO_DEVICES]


def last_requested(entries: Sequence[str], name: str) -> list[str]:
    """Return the devices that the last variable of this name requests. NVIDIA's runtime ignores all other variables of this name."""
    return requested([entry for entry in entries if name_of(entry) == name][-1:], name)


def requests_gpus(entries: Sequence[str], listed: Collection[str]) -> bool:
    """Return whether these variables make NVIDIA's runtime give the container GPUs."""
    names = [name for name in listed if any(name_of(entry) == name for entry in entries)] or [VISIBLE]
    if any(last_requested(entries, name) for name in names):
        return True
    return not any(name_of(entry) in names for entry in entries) and any(name_of(entry) == _OLD_CUDA for entry in entries)


def device_mounts(document: Mapping[str, Any]) -> list[str]:
    """Return the targets of mounts that request devices."""
    mounts = document.get("mounts")
    targets = [str(mount.get("destination", "")) for mount in mounts if isinstance(mount, dict)] if isinstance(mounts, list) else []
    return [path for path in targets if _clean_path(path).startswith(DEVICE_MOUNTS)]


def with_devices(entries: Sequence[str], listed: Collection[str], devices: Sequence[str], without: Collection[str] = ()) -> list[str]:
    """Return the variables that give the container exactly these devices, or no device. The variables in ``without`` are removed."""
    result = []
    for entry in entries:
        name = name_of(entry)
        if name in without and name not in listed:
            continue
        if name == VISIBLE or (name in listed and devices):
            result.append("%s=%s" % (name, ",".join(devices) or _HIDDEN))
        elif name not in listed:
            result.append(entry)
    if not any(name_of(variable) == VISIBLE for variable in result):
        result.append("%s=%s" % (VISIBLE, ",".join(devices) or _HIDDEN))
    return result


def with_values(entries: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the variables with these values set. If a name occurs several times, all occurrences get the value."""
    replaced = ["%s=%s" % (name_of(entry), values[name_of(entry)]) if name_of(entry) in values else entry for entry in entries]
    present = {name_of(entry) for entry in entries}
    return replaced + ["%s=%s" % pair for pair in values.items() if pair[0] not in present]


def with_environment(document: dict[str, Any], entries: list[str]) -> dict[str, Any]:
    return {**document, "process": {**document["process"], "env": entries}}


def _clean_path(path: str) -> str:
    """Return the path as Go's filepath.Clean does. normpath keeps two slashes at the beginning."""
    normal = posixpath.normpath(path)
    return normal[1:] if normal.startswith("//") else normal
