# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the nodes of a test fleet: caches the code that Python compiles from an archive, for all nodes and all calls.

Each task of Ansible sends an archive of source code. Python compiles the same fifty files each time, and this takes a third of the
task's CPU time on a node. The key of a cached file is its path in the archive and a hash of its source, as in Python's own hash-based pyc (PEP 552).
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport

CACHE = "/var/cache/lab-compiled"

_compile = zipimport._compile_source  # type: ignore[attr-defined]


def _load_or_compile(pathname: str, source: bytes) -> object:
    inside = pathname.rpartition(".zip" + os.sep)[2].replace(os.sep, ".")
    path = os.path.join(CACHE, "%s.%s.%s" % (inside, _imp.source_hash(0, source).hex(), sys.implementation.cache_tag))
    try:
        with open(path, "rb") as stream:
            return marshal.load(stream)
    except OSError:
        code = _compile(pathname, source)
        _save(path, marshal.dumps(code))
        return code


def _save(path: str, content: bytes) -> None:
    try:
        with open("%s.%d.%s" % (path, os.getpid(), os.uname().nodename), "wb") as stream:  # two nodes may have processes with the same number
            stream.write(content)
        os.replace(stream.name, path)
    except OSError:
        pass  # this user may not write to the cache; root fills it


if os.path.isdir(CACHE):
    zipimport._compile_source = _load_or_compile  # type: ignore[attr-defined]
