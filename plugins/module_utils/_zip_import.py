# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a module start and end faster. A module imports this file first.

Files in the archive that Ansible sends are compiled once, or not at all if the node keeps them compiled. Python's ``zipimporter`` compiles a file to
find its name (``get_filename``), compiles it again to run it (``get_code``; CPython, Lib/zipimport.py), and keeps neither. Without this file, a run
without changes took 1.4 times the nodes' CPU. A node with the watcher keeps compiled what the watcher imports too. Ansible imports its own files
before a module begins, so they are not affected.

A module's process makes many objects and needs most of them to its end. So Python searches for garbage less often, and not again when the process
ends (``gc.freeze``; CPython, Python/pylifecycle.c). That saves a tenth of the nodes' CPU.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import atexit
import gc
import importlib.machinery
import importlib.util
import marshal
import os
import sys
import zipimport
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

# The code of the watcher. Only root can write it.
HOME = "/var/lib/gpu-swarm/health/current/gpu_swarm"
_PREFIX = __name__.rpartition(".")[0] + "."
# New objects until Python searches for garbage. Python's default is 700.
MANY = 50_000
_compiled: dict[str, CodeType] = {}


class Importer(zipimport.zipimporter):
    """A zipimporter that finds the name of a file without compiling it, and uses the code that is compiled on the node."""

    def get_filename(self, fullname: str) -> str:
        ending = "/__init__.py" if self.is_package(fullname) else ".py"
        return "%s/%s%s%s" % (self.archive, self.prefix, fullname.rpartition(".")[2], ending)

    def get_code(self, fullname: str) -> CodeType:
        path = _kept_as(fullname)
        code = _kept(fullname, path) if path and _has(path, self.get_data(self.get_filename(fullname))) else None
        code = code or super().get_code(fullname)
        _compiled[fullname] = code  # also if it was kept: the same file may belong to a new version of the code
        return code

    # Before Python 3.10, zipimporter has neither method and does not call get_code.
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)


class _Kept(importlib.machinery.SourceFileLoader):
    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        """Write nothing: a run with --check leaves no trace."""


def _kept(fullname: str, path: str) -> CodeType | None:
    try:
        return _Kept(fullname, path).get_code(fullname)
    except (EOFError, OSError, TypeError, ValueError, ImportError):  # the compiled file is damaged; the archive has the source
        return None


def _kept_as(fullname: str, home: str | None = None) -> str | None:
    """The path under which the node keeps the file of this module, or None for a module of another collection."""
    return os.path.join(home or HOME, *fullname[len(_PREFIX) :].split(".")) + ".py" if fullname.startswith(_PREFIX) else None


def _has(path: str, source: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read() == source
    except OSError:
        return False


def keep(home: str) -> None:
    """Write the code that this process has compiled beside the same files in ``home``, as Python does when it imports them (PEP 552)."""
    for fullname, code in _compiled.items():
        path = _kept_as(fullname, home)
        if path is None or not os.path.isfile(path):
            continue
        target = importlib.util.cache_from_source(path)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        found = os.stat(path)
        header = b"".join(number.to_bytes(4, "little") for number in (0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF))
        # Python fails if such a file is cut short, so it is replaced as a whole.
        new = "%s.%d" % (target, os.getpid())
        with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as stream:
            stream.write(importlib.util.MAGIC_NUMBER + header + marshal.dumps(code))
        os.replace(new, target)


def _install() -> None:
    gc.set_threshold(MANY)
    atexit.register(gc.freeze)
    sys.path_hooks[:] = [Importer if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if isinstance(__spec__.loader, zipimport.zipimporter):
    _install()
