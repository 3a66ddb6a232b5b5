# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads from a container's config.json what it requests of NVIDIA's runtime, and writes the allowed devices into it (pure).

Nothing but variables is changed: NVIDIA's tools decode the document strictly. Of several variables of one name NVIDIA's runtime takes the
last and getenv the first, so that all of them get the same value.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import posixpath

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Any, Collection, Mapping, Sequence

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
# Values that request nothing.
NOTHING = ("", "void", "none")
_HIDDEN = "void"
# A mount whose target begins so requests a device, and goes before every variable where the toolkit takes it. NVIDIA's runtime compares texts, not
# paths: the target needs no slash after this (NCT internal/config/image/cuda_image.go, 1.13.5 to 1.20.0). It looks below /var/run only.
DEVICE_MOUNTS = ("/var/run/nvidia-container-devices", "/run/nvidia-container-devices")
_OLD_CUDA = "CUDA_VERSION"  # by which NVIDIA's runtime knows images from before NVIDIA_VISIBLE_DEVICES, and gives them all GPUs


# The most digits of a number that is read from text. Python refuses longer ones, and before 3.11 takes very long.
LONGEST = 18


class BundleError(Exception):
    """The document is no valid description of a container."""


def environment(document: Any) -> list[str]:
    """Return the variables of the process as NAME=value; raises BundleError."""
    process = document.get("process") if isinstance(document, dict) else None
    found = process.get("env") if isinstance(process, dict) else None
    if found is None and isinstance(process, dict):
        return []
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return found
    raise BundleError("its process has no list of variables")


def name_of(entry: str) -> str:
    return entry.partition("=")[0]


def is_number(value: str) -> bool:
    """Return whether the text has digits only."""
    return value.isdigit() and value.isascii()


def words(value: str) -> list[str]:
    return [one.strip() for one in value.split(",") if one.strip()]


def requested(entries: Sequence[str], name: str) -> list[str]:
    """Return what all variables of this name request together."""
    found = [word for one in entries if name_of(one) == name for word in words(one.partition("=")[2])]
    return [word for word in dict.fromkeys(found) if word not in NOTHING]


def last(entries: Sequence[str], name: str) -> list[str]:
    """Return what the last variable of this name requests. Only the last one counts."""
    return requested([one for one in entries if name_of(one) == name][-1:], name)


def requests(entries: Sequence[str], listed: Collection[str]) -> bool:
    """Return whether NVIDIA's runtime would take these variables for a request."""
    names = [name for name in listed if any(name_of(one) == name for one in entries)] or [VISIBLE]
    if any(last(entries, name) for name in names):
        return True
    return not any(name_of(one) in names for one in entries) and any(name_of(one) == _OLD_CUDA for one in entries)


def device_mounts(document: Mapping[str, Any]) -> list[str]:
    """Return the targets of mounts that request devices."""
    mounts = document.get("mounts")
    found = [str(one.get("destination", "")) for one in mounts if isinstance(one, dict)] if isinstance(mounts, list) else []
    return [path for path in found if _cleaned(path).startswith(DEVICE_MOUNTS)]


def rewritten(entries: Sequence[str], listed: Collection[str], devices: Sequence[str], without: Collection[str] = ()) -> list[str]:
    """Return the variables that give the container exactly these devices, or no device. The variables in ``without`` are removed."""
    found = []
    for entry in entries:
        name = name_of(entry)
        if name in without and name not in listed:
            continue
        if name == VISIBLE or (name in listed and devices):
            found.append("%s=%s" % (name, ",".join(devices) or _HIDDEN))
        elif name not in listed:
            found.append(entry)
    if not any(name_of(one) == VISIBLE for one in found):
        found.append("%s=%s" % (VISIBLE, ",".join(devices) or _HIDDEN))
    return found


def with_values(entries: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the variables with these values set, also if a name occurs several times."""
    found = ["%s=%s" % (name_of(one), values[name_of(one)]) if name_of(one) in values else one for one in entries]
    there = {name_of(one) for one in entries}
    return found + ["%s=%s" % pair for pair in values.items() if pair[0] not in there]


def with_environment(document: dict[str, Any], entries: list[str]) -> dict[str, Any]:
    return {**document, "process": {**document["process"], "env": entries}}


def _cleaned(path: str) -> str:
    """Return the path as Go's filepath.Clean does. normpath keeps two slashes at the beginning."""
    found = posixpath.normpath(path)
    return found[1:] if found.startswith("//") else found
