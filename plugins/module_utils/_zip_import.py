# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Makes a module start and end faster. A module imports this file first.

With this importer, Python compiles each file in Ansible's archive only once. If the node has the compiled code of an earlier run, Python does not
compile the file. Python's ``zipimporter`` compiles a file to find its name (``get_filename``) and compiles the file again to run it (``get_code``;
CPython, Lib/zipimport.py). ``zipimporter`` does not save the result. Without this importer, a run without changes needed 1.4 times as much CPU on the
nodes. A node with the watcher also has the compiled code of all files that the watcher imports. This importer does not affect Ansible's own files,
because Ansible imports them before a module begins.

A module's process creates many objects and needs most of them until it ends. So this code makes Python search for garbage less often, and not at the
end of the process (``gc.freeze``; CPython, Python/pylifecycle.c). This saves a tenth of the CPU on the nodes.
Private to this collection; it may change without notice.
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
# How many new objects Python creates before it searches for garbage. Python's default is 700.
MANY_OBJECTS = 50_000
_compiled: dict[str, CodeType] = {}


class Importer(zipimport.zipimporter):
    """A zipimporter that finds the name of a file without compiling it, and uses compiled code that the node has saved."""

    def get_filename(self, fullname: str) -> str:
        ending = "/__init__.py" if self.is_package(fullname) else ".py"
        return "%s/%s%s%s" % (self.archive, self.prefix, fullname.rpartition(".")[2], ending)

    def get_code(self, fullname: str) -> CodeType:
        path = _saved_path(fullname)
        code = _saved_code(fullname, path) if path and _has_content(path, self.get_data(self.get_filename(fullname))) else None
        code = code or super().get_code(fullname)
        _compiled[fullname] = code  # save the compiled code even if the node has it, because the same file may belong to a new version of the program
        return code

    # Before Python 3.10, zipimporter has neither of these methods and does not call get_code.
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)


class _SavedLoader(importlib.machinery.SourceFileLoader):
    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        """Write nothing, because a run with --check must not write files."""


def _saved_code(fullname: str, path: str) -> CodeType | None:
    try:
        return _SavedLoader(fullname, path).get_code(fullname)
    except (EOFError, OSError, TypeError, ValueError, ImportError):  # the compiled file is damaged; the archive has the source
        return None


def _saved_path(fullname: str, home: str | None = None) -> str | None:
    """Return the path of this file in the code that the node has saved, or None for a module of another collection."""
    return os.path.join(home or HOME, *fullname[len(_PREFIX) :].split(".")) + ".py" if fullname.startswith(_PREFIX) else None


def _has_content(path: str, source: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read() == source
    except OSError:
        return False


def save_compiled(home: str) -> None:
    """Write the code that this process has compiled next to the same files in ``home``. Python does the same when it imports a file (PEP 552)."""
    for fullname, code in _compiled.items():
        path = _saved_path(fullname, home)
        if path is None or not os.path.isfile(path):
            continue
        target = importlib.util.cache_from_source(path)
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        status = os.stat(path)
        header = b"".join(number.to_bytes(4, "little") for number in (0, int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF))
        # Python fails if a compiled file is cut short, so write a new file and replace the old file.
        new = "%s.%d" % (target, os.getpid())
        with open(new, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as stream:
            stream.write(importlib.util.MAGIC_NUMBER + header + marshal.dumps(code))
        os.replace(new, target)


def _install() -> None:
    gc.set_threshold(MANY_OBJECTS)
    atexit.register(gc.freeze)
    sys.path_hooks[:] = [Importer if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if isinstance(__spec__.loader, zipimport.zipimporter):
    _install()
