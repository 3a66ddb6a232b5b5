# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles what a module imports from the archive in which Ansible sends it once, and not at all where the node has it compiled: a module
imports this before the rest.

Python's ``zipimporter`` compiles a file to find out under which name it is there (``get_filename``), and again to run it (``get_code``; CPython,
Lib/zipimport.py), and keeps nothing of it. For ``gpu_node`` each of both took a fifth of a call. A node with the watcher keeps the same files, and
what Python makes of them.

Ansible's own files are imported before a module begins, and compiling them is two fifths of a ping. A node keeps these too, and a Python that is
started with ``STARTUP`` on its PYTHONPATH, as the action of gpu_node has it, uses this from its very start (:func:`begin`).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import marshal
import os
import sys
import zipimport
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

# Where the watcher's code is, which only root can write.
HOME = "/var/lib/gpu-swarm/health/current"
# Below it: what Python runs when it starts (SITE), and Ansible's own files, where no import finds them.
STARTUP = "python"
SITE = """\
import os
import sys

home, here = os.path.split(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, home)
from gpu_swarm import _zip_import

sys.path.remove(home)
_zip_import.begin(os.path.join(home, here))
"""
# By the folder in the archive, where its files are kept below HOME.
KEPT = {"ansible_collections/fleet/gpu_swarm/plugins/module_utils/": "gpu_swarm", "ansible/": "sent/ansible"}
_compiled: dict[str, CodeType] = {}


class Importer(zipimport.zipimporter):
    """As its base, but that it finds the name of a file without compiling it, and takes what is compiled on the node."""

    def get_filename(self, fullname: str) -> str:
        return _filename(self, fullname)

    def get_code(self, fullname: str) -> CodeType:
        path = _kept_as(self, fullname)
        code = _kept(fullname, path) if path and _has(path, self.get_data(self.get_filename(fullname))) else None
        code = code or super().get_code(fullname)
        _compiled[fullname] = code  # also where it was kept: of another version of the code this file may be the same
        return code

    # Before Python 3.10, its base has neither, and runs what it compiles past get_code.
    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.get_code(module.__name__), module.__dict__)


def _filename(loader: zipimport.zipimporter, fullname: str) -> str:
    ending = "/__init__.py" if loader.is_package(fullname) else ".py"
    return "%s/%s%s%s" % (loader.archive, loader.prefix, fullname.rpartition(".")[2], ending)


class _Kept(importlib.machinery.SourceFileLoader):
    def set_data(self, path: str, data: object, *, _mode: int = 0) -> None:
        """Writes nothing: a check run leaves no trace."""


def _kept(fullname: str, path: str) -> CodeType | None:
    try:
        return _Kept(fullname, path).get_code(fullname)
    except (EOFError, OSError, TypeError, ValueError, ImportError):  # what is compiled is damaged: the archive has it whole
        return None


def _kept_as(loader: zipimport.zipimporter, fullname: str, home: str | None = None) -> str | None:
    """Where the node keeps the file of this module, if it does."""
    inside = _filename(loader, fullname)[len(loader.archive) + 1 :]
    found = next(((folder, inside[len(start) :]) for start, folder in KEPT.items() if inside.startswith(start)), None)
    return os.path.join(home or HOME, *found) if found else None


def _has(path: str, source: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read() == source
    except OSError:
        return False


def keep(home: str) -> None:
    """Writes what Ansible has sent of its own into ``home``, and beside that and the files that are there what Python makes of them, as Python
    does when it imports them (PEP 552)."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        if spec and isinstance(spec.loader, zipimport.zipimporter):
            with contextlib.suppress(zipimport.ZipImportError):  # what only looks like a module of it is not kept
                _keep(spec.name, spec.loader, home)


def _keep(fullname: str, loader: zipimport.zipimporter, home: str) -> None:
    path = _kept_as(loader, fullname, home)
    if path and fullname.partition(".")[0] == "ansible":
        _write(path, loader.get_data(_filename(loader, fullname)))
    if path and os.path.isfile(path):
        _write_compiled(path, _compiled.get(fullname) or loader.get_code(fullname))


def _write_compiled(path: str, code: CodeType) -> None:
    found = os.stat(path)
    header = b"".join(number.to_bytes(4, "little") for number in (0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF))
    _write(importlib.util.cache_from_source(path), importlib.util.MAGIC_NUMBER + header + marshal.dumps(code))


def _write(path: str, content: bytes) -> None:
    """Python fails over a file that is cut short, so it is there whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = "%s.%d" % (path, os.getpid())
    with open(new, "wb") as stream:
        stream.write(content)
    os.replace(new, path)


def begin(folder: str) -> None:
    """In a Python that has started with ``folder`` on its PYTHONPATH. Everything else in it is as if it had not."""
    _install()
    sys.path.remove(folder)
    rest = os.environ["PYTHONPATH"].partition(os.pathsep)[2]
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        del os.environ["PYTHONPATH"]
    found = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")  # the machine's own
    except ImportError:
        sys.modules["sitecustomize"] = found  # Python looks for it there


def _install() -> None:
    sys.path_hooks[:] = [Importer if _is_importer(hook) else hook for hook in sys.path_hooks]
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def _is_importer(hook: object) -> bool:
    """Also this class of a Python that has begun with it: what it compiles is to be kept as the code of today."""
    return isinstance(hook, type) and issubclass(hook, zipimport.zipimporter)


if isinstance(__spec__.loader, zipimport.zipimporter):
    _install()
