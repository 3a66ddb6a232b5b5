# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver of this machine as files show it, without NVML: a client that has it loaded keeps the old library mapped.

Private to this collection: no stability is promised to others.
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


def signature(nvml_path: str | None) -> tuple[object, ...]:
    """What differs once another driver is installed or loaded."""
    found: list[object] = [module_version()]
    for path in libraries(nvml_path):
        try:
            status = os.stat(path)
        except OSError:  # a link whose file is gone: a driver is half removed, or being replaced
            found.append(path)
            continue
        found.append((os.path.realpath(path), status.st_ino, status.st_size, int(status.st_mtime)))
    return tuple(found)


def mismatch(nvml_path: str | None) -> str | None:
    """Where library and kernel module are of different versions, both, in words."""
    loaded = module_version()
    versions = [_VERSION.search(os.path.realpath(path)) for path in libraries(nvml_path)]
    known = [found.group(1) for found in versions if found]
    if not loaded or not known or loaded in known:
        return None
    return "the kernel module is of version %s, the library of %s" % (loaded, known[0])


def module_version() -> str | None:
    try:
        with open(MODULE_VERSION, encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return None


def libraries(nvml_path: str | None) -> Sequence[str]:
    """Where NVML's library is: the setting's file, or where the loader may find it."""
    if nvml_path:
        path = os.path.join(nvml_path, LIBRARY) if os.path.isdir(nvml_path) else nvml_path
        return [path] if os.path.exists(path) else []
    return sorted(path for folder in _FOLDERS for path in glob.glob(os.path.join(folder, LIBRARY)))
