# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Has a module start and end faster, which imports this before the rest. What it imports from the archive in which Ansible sends it is compiled
once, and not at all where the node has it compiled.

Python's ``zipimporter`` compiles a file to find out under which name it is there (``get_filename``), and again to run it (``get_code``; CPython,
Lib/zipimport.py), and keeps nothing of it. For ``gpu_node`` each of both took a fifth of a call. A node with the watcher keeps the same files, and
what Python makes of them. Ansible's own files are imported before a module begins, and stay as they are.

Its process makes many objects, and needs most of them to its end. So Python searches them for garbage less often, and not once more when the process
ends (``gc.freeze``), which took a tenth of a second of a call (CPython, Python/pylifecycle.c).
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

# Where the watcher's code is, which only root can write.
HOME = "/var/lib/gpu-swarm/health/current/gpu_swarm"
_PREFIX = __name__.rpartition(".")[0] + "."
# Objects made before Python searches for garbage; 700 by default.
MANY = 50_000
_compiled: dict[str, CodeType] = {}


class Importer(zipimport.zipimporter):
    """As its base, but that it finds the name of a file without compiling it, and takes what is compiled on the node."""

    def get_filename(self, fullname: str) -> str:
        ending = "/__init__.py" if self.is_package(fullname) else ".py"
        return "%s/%s%s%s" % (self.archive, self.prefix, fullname.rpartition(".")[2], ending)

    def get_code(self, fullname: str) -> CodeType:
        path = _kept_as(fullname)
        code = _kept(fullname, path) if path and _has(path, self.get_data(self.get_filename(fullname))) else None
        code = code or super().get_code(fullname)
        _compiled[fullname] = code  # also where it was kept: of another version of the code this file may be the same
        return code

    # Before Python 3.10, its base has neither, and runs what it compiles past get_code.
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)


class _Kept(importlib.machinery.SourceFileLoader):
    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        """Writes nothing: a check run leaves no trace."""


def _kept(fullname: str, path: str) -> CodeType | None:
    try:
        return _Kept(fullname, path).get_code(fullname)
    except (EOFError, OSError, TypeError, ValueError, ImportError):  # what is compiled is damaged: the archive has it whole
        return None


def _kept_as(fullname: str, home: str | None = None) -> str | None:
    """Where the node keeps the file of this module, if it does."""
    return os.path.join(home or HOME, *fullname[len(_PREFIX) :].split(".")) + ".py" if fullname.startswith(_PREFIX) else None


def _has(path: str, source: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read() == source
    except OSError:
        return False


def keep(home: str) -> None:
    """Writes what this process has compiled beside the same files in ``home``, as Python does when it imports them (PEP 552)."""
    for fullname, code in _compiled.items():
        path = _kept_as(fullname, home)
        if path is None or not os.path.isfile(path):
            continue
        target = importlib.util.cache_from_source(path)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        found = os.stat(path)
        header = b"".join(number.to_bytes(4, "little") for number in (0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF))
        # Python fails over one that is cut short, so it is there whole or not at all.
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
