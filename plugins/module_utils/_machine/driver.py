# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the versions of NVIDIA's driver from files. NVML cannot report a newly installed library, because a process keeps using the library that it
has loaded.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Sequence

MODULE_VERSION = "/sys/module/nvidia/version"
LIBRARY = "libnvidia-ml.so.1"
_FOLDERS = ("/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/run/nvidia/driver/usr/lib/*-linux-gnu")
_VERSION = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")


def read_signature(nvml_path: str | None) -> tuple[object, ...]:
    """Return a value that changes when another driver is installed or loaded."""
    signature: list[object] = [read_module_version()]
    for path in find_libraries(nvml_path):
        try:
            status = os.stat(path)
        except OSError:  # a dangling link: a driver is partly removed, or is being replaced
            signature.append(path)
            continue
        signature.append((os.path.realpath(path), status.st_ino, status.st_size, int(status.st_mtime)))
    return tuple(signature)


def find_mismatch(nvml_path: str | None) -> str | None:
    """Return a text with both versions if library and kernel module differ, or else None."""
    loaded = read_module_version()
    versions = [_VERSION.search(os.path.realpath(path)) for path in find_libraries(nvml_path)]
    releases = [match.group(1) for match in versions if match]
    if not loaded or not releases or loaded in releases:
        return None
    return "the kernel module has version %s, the library has %s" % (loaded, releases[0])


def read_module_version() -> str | None:
    try:
        with open(MODULE_VERSION, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return None


def find_libraries(nvml_path: str | None) -> Sequence[str]:
    """Return the paths of NVML's library: the configured path, or the places where the loader may find it."""
    if nvml_path:
        path = os.path.join(nvml_path, LIBRARY) if os.path.isdir(nvml_path) else nvml_path
        return [path] if os.path.exists(path) else []
    return sorted(path for folder in _FOLDERS for path in glob.glob(os.path.join(folder, LIBRARY)))
