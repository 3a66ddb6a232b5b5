# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""This collection's own code as it is at hand: in the archive that Ansible sends with a module, or in files, as on the controller.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from typing import Iterable, Mapping

PACKAGE = "gpu_swarm"


def program(files: Iterable[str], start: str) -> dict[str, bytes]:
    """What is kept of a program on a machine, by path: these files as a package, and what Python runs of the directory."""
    return {**{"%s/%s" % (PACKAGE, path): data for path, data in read(files).items()}, "__main__.py": start.encode("ascii")}


def version(sources: Mapping[str, bytes]) -> str:
    """A name for exactly this code."""
    found = hashlib.sha256()
    for name, data in sorted(sources.items()):
        found.update(("%s %d\n" % (name, len(data))).encode("ascii") + data)
    return "code-" + found.hexdigest()[:16]


def read(paths: Iterable[str]) -> dict[str, bytes]:
    """These files, by their paths below module_utils."""
    archive = getattr(getattr(sys.modules[__name__], "__loader__", None), "archive", None)
    if archive is None:
        top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return {path: _read(os.path.join(top, *path.split("/"))) for path in paths}
    inside = "/".join(__name__.split(".")[:-2]) + "/"
    with zipfile.ZipFile(archive) as opened:
        return {path: opened.read(inside + path) for path in paths}


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()
