# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code of an installed program: its first file, and every file that the first file imports directly or indirectly.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import py_compile
import re
import shutil
import sys
import tempfile
import zipfile
from functools import lru_cache
from importlib.util import cache_from_source
from typing import Callable, Iterator, NamedTuple

from .. import _files

PACKAGE = "gpu_swarm"
PREFIX, NEW = "code-", ".new."
# In the directory of a program: the link to the current version of its code.
CURRENT = "current"
# Imports are found by a pattern. Python's parser would take fifty times as long, and a node needs the imports at each assessment.
_IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
_IMPORTED = re.compile(rb"(\w+)(?: as \w+)?")
_COMMENT = re.compile(rb"#[^\n]*")
# Start this file, not its directory. To start a directory, Python imports runpy, which would take an eighth of the guard's run time.
START = """\
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from %s.%s import main

sys.exit(main())
"""
_TOP = __name__.rpartition(".")[0].rpartition(".")[0]


class Code(NamedTuple):
    """One program. ``entry`` is the file with its ``main``, below module_utils. ``compiled`` says whether the installation compiles the program's
    files. Compiled files help a program that starts often.

    Ansible sends every file that some function imports. So an installer has a function that imports the entry, and calls this function first. If this
    machine's Python cannot run the program, the call fails."""

    entry: str
    compiled: bool = False

    def files(self) -> dict[str, bytes]:
        """Return the files to install, {path: bytes}."""
        start = START % (PACKAGE, self.entry[: -len(".py")].replace("/", "."))
        return {**{"%s/%s" % (PACKAGE, path): data for path, data in _imported(self.entry).items()}, "__main__.py": start.encode("ascii")}

    def name(self) -> str:
        """Return the name of the directory for exactly these files. Compiled files belong to one version of Python."""
        digest = hashlib.sha256(sys.version.encode("utf-8") if self.compiled else b"")
        for path, data in sorted(self.files().items()):
            digest.update(("%s %d\n" % (path, len(data))).encode("ascii") + data)
        return PREFIX + digest.hexdigest()[:16]

    def is_installed(self, home: str) -> bool:
        """Return whether all files are installed with the right content."""
        folder = os.path.join(home, self.name())
        return all(_files.Snapshot.take(os.path.join(folder, path)).data == data for path, data in self.files().items())

    def is_current(self, home: str) -> bool:
        """Return whether the link points to this version. Does not read the files."""
        link = os.path.join(home, CURRENT)
        return os.path.islink(link) and os.readlink(link) == self.name() and os.path.isfile(os.path.join(link, "__main__.py"))

    def install(self, home: str) -> None:
        """Install the files beside other versions, with one rename."""
        target = os.path.join(home, self.name())
        new = tempfile.mkdtemp(prefix=NEW, dir=home)
        try:
            for path, data in self.files().items():
                _files.write_new_file(os.path.join(new, path), data)
            if self.compiled:
                self._compile(new, target)
            _sync(new)
            shutil.rmtree(target, ignore_errors=True)
            os.rename(new, target)
            _files.sync_directory(home)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _compile(self, new: str, folder: str) -> None:
        for path in self.files():
            target = os.path.join(new, path)
            _files.make_directory(os.path.dirname(cache_from_source(target)))
            py_compile.compile(target, dfile=os.path.join(folder, path), doraise=True)

    def make_current(self, home: str) -> None:
        """Install the files, point the link to them, and remove other versions and leftovers of a killed run."""
        self.install(home)
        link = os.path.join(home, CURRENT)
        _files.replace_link(link, self.name())
        for name in os.listdir(home):
            path = os.path.join(home, name)
            if name != self.name() and os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
        for leftover in _files.unfinished_links(link):
            os.unlink(leftover)


@lru_cache(maxsize=None)  # without this cache, each call would open the archive and read its table of contents
def _imported(entry: str) -> dict[str, bytes]:
    """Return {path: bytes} of a file and of every file of this collection that it imports. Imports inside functions are included."""
    files: dict[str, bytes] = {}
    with _source_files() as (exists, read):
        pending = [entry]
        while pending:
            path = pending.pop()
            if path not in files:
                files[path] = read(path)
                pending += [candidate for candidate in imported_paths(path, files[path]) if exists(candidate)]
    return dict(sorted(files.items()))


def imported_paths(path: str, data: bytes) -> list[str]:
    """Return the paths that the relative imports of a file may mean (pure)."""
    paths, folder = [], path.split("/")
    for dots, module, names in _IMPORT.findall(data):
        base = [*folder[: -len(dots)], *filter(None, module.decode("ascii").split("."))]
        paths.append("/".join(base) + ".py")
        paths += ["/".join([*base, name.decode("ascii")]) + ".py" for name in _IMPORTED.findall(_COMMENT.sub(b"", names))]
    return paths


@contextlib.contextmanager
def _source_files() -> Iterator[tuple[Callable[[str], bool], Callable[[str], bytes]]]:
    """Yield two functions: one checks whether a file exists below module_utils, the other reads a file. Both use Ansible's archive, or a
    directory."""
    archive = getattr(getattr(sys.modules[__name__], "__loader__", None), "archive", None)
    if archive is None:
        top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        yield lambda path: os.path.isfile(os.path.join(top, path)), lambda path: _read(os.path.join(top, path))
        return
    inside = _TOP.replace(".", "/") + "/"
    with zipfile.ZipFile(archive) as opened:
        names = set(opened.namelist())
        yield lambda path: inside + path in names, lambda path: opened.read(inside + path)


def _read(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _sync(folder: str) -> None:
    """Flush all files to the disk, so that they are complete even if the power fails after the rename."""
    for root, dummy_folders, names in os.walk(folder):
        for path in [*(os.path.join(root, name) for name in names), root]:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def versions(home: str, first: str) -> list[str]:
    """Return the directories of installed code: first the directory named ``first``, then the others from new to old."""
    folders = [os.path.join(home, name) for name in os.listdir(home) if name.startswith(PREFIX)]
    return sorted(folders, key=lambda path: (os.path.basename(path) == first, os.lstat(path).st_mtime), reverse=True)


def unfinished_versions(home: str) -> list[str]:
    """Return unfinished directories of code that a killed run left."""
    return [os.path.join(home, name) for name in os.listdir(home) if name.startswith(NEW)]
