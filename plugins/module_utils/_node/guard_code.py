# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard's code as Ansible sent it with this module.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import os
import py_compile
import shutil
import sys
import tempfile
from functools import lru_cache
from importlib.util import cache_from_source
from typing import Any

from .. import _files
from .._program import sources as program_sources

# What the guard imports, and nothing else. A test compares.
FILES = (
    "_config/toml_statements.py",
    "_guard/admission.py",
    "_guard/bolt.py",
    "_guard/bundle.py",
    "_guard/call.py",
    "_guard/check_container.py",
    "_guard/engine_record.py",
    "_guard/finding_counts.py",
    "_guard/holds.py",
    "_guard/refusal.py",
    "_guard/reservation.py",
    "_guard/share.py",
    "_guard/task_record.py",
    "_guard/toolkit_config.py",
)
_PACKAGE, _PREFIX = "gpu_swarm", "code-"
_NEW = ".new."
# Started as a file: a directory, as python takes one too, would need runpy, which takes an eighth of the time.
_START = """\
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from %s._guard.check_container import main

sys.exit(main())
""" % _PACKAGE


def load() -> Any:
    """Imports it, as the guard's front will."""
    from .._guard import check_container

    return check_container


@lru_cache(maxsize=None)  # each reading opens the archive anew, and reads the list of all that is in it
def _files_sent() -> dict[str, bytes]:
    return program_sources.read(FILES)


def sources() -> dict[str, bytes]:
    """What is kept on a node, by path."""
    return {**{"%s/%s" % (_PACKAGE, path): data for path, data in _files_sent().items()}, "__main__.py": _START.encode("ascii")}


def name() -> str:
    """Of the directory that has it: named by its content."""
    found = hashlib.sha256(sys.version.encode("utf-8"))
    for path, data in sorted(sources().items()):
        found.update(("%s %d\n" % (path, len(data))).encode("ascii") + data)
    return _PREFIX + found.hexdigest()[:16]


def is_current(home: str) -> bool:
    """Whether what is kept there is what this module would keep."""
    folder = os.path.join(home, name())
    return all(_files.Snapshot.take(os.path.join(folder, path)).data == data for path, data in sources().items())


def keep(home: str) -> None:
    """Puts this version beside those that are there, compiled, so that no start of a container has to do that."""
    new = tempfile.mkdtemp(prefix=_NEW, dir=home)
    try:
        for path, data in sources().items():
            target = os.path.join(new, path)
            _files.put(target, data)
            _files.make_directory(os.path.dirname(cache_from_source(target)))
            py_compile.compile(target, dfile=os.path.join(home, name(), path), doraise=True)
        _sync(new)
        shutil.rmtree(os.path.join(home, name()), ignore_errors=True)
        os.rename(new, os.path.join(home, name()))
        _files.sync_directory(home)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sync(folder: str) -> None:
    """What is renamed afterwards is whole after a loss of power too."""
    for root, dummy_folders, names in os.walk(folder):
        for path in [*(os.path.join(root, one) for one in names), root]:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def versions(home: str) -> list[str]:
    """The directories of code that are there: this version, then the others, the newest first."""
    found = [os.path.join(home, one) for one in os.listdir(home) if one.startswith(_PREFIX)]
    return sorted(found, key=lambda path: (os.path.basename(path) == name(), os.lstat(path).st_mtime), reverse=True)


def unfinished(home: str) -> list[str]:
    """What a run that was killed left of one."""
    return [os.path.join(home, one) for one in os.listdir(home) if one.startswith(_NEW)]
