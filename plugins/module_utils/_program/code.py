# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The code of a program that stays on a machine: the file that it starts with, and every file that this one imports.

Private to this collection: no stability is promised to others.
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
# In the directory of a program: the link to the version of its code that runs.
CURRENT = "current"
# Read by text, not by Python's parser, which takes fifty times as long: a node does this at each assessment.
_IMPORT = re.compile(rb"^[ \t]*from (\.+)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
_IMPORTED = re.compile(rb"(\w+)(?: as \w+)?")
_COMMENT = re.compile(rb"#[^\n]*")
# Python may be given this file or its directory. A directory would need runpy, which takes an eighth of the time that the guard takes.
START = """\
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from %s.%s import main

sys.exit(main())
"""
_TOP = __name__.rpartition(".")[0].rpartition(".")[0]


class Code(NamedTuple):
    """One program. ``entry`` is the file with its ``main``, below module_utils. ``compiled``: whether its files are compiled when they are kept,
    for a program that starts often.

    Ansible sends what a file imports, wherever that is. So who installs a program imports its entry in a function, and calls that first: what this
    machine's Python cannot run is not installed."""

    entry: str
    compiled: bool = False

    def files(self) -> dict[str, bytes]:
        """What a machine keeps, by path."""
        start = START % (PACKAGE, self.entry[: -len(".py")].replace("/", "."))
        return {**{"%s/%s" % (PACKAGE, path): data for path, data in _imported(self.entry).items()}, "__main__.py": start.encode("ascii")}

    def name(self) -> str:
        """Of the directory that has exactly these files; what was compiled is of one version of Python."""
        found = hashlib.sha256(sys.version.encode("utf-8") if self.compiled else b"")
        for path, data in sorted(self.files().items()):
            found.update(("%s %d\n" % (path, len(data))).encode("ascii") + data)
        return PREFIX + found.hexdigest()[:16]

    def is_kept(self, home: str) -> bool:
        """Whether every file is there as it should be."""
        folder = os.path.join(home, self.name())
        return all(_files.Snapshot.take(os.path.join(folder, path)).data == data for path, data in self.files().items())

    def is_current(self, home: str) -> bool:
        """Whether it is the version that runs, as far as names say."""
        link = os.path.join(home, CURRENT)
        return os.path.islink(link) and os.readlink(link) == self.name() and os.path.isfile(os.path.join(link, "__main__.py"))

    def keep(self, home: str) -> None:
        """Put the files beside other versions, with one rename."""
        kept = os.path.join(home, self.name())
        new = tempfile.mkdtemp(prefix=NEW, dir=home)
        try:
            for path, data in self.files().items():
                _files.write_new_file(os.path.join(new, path), data)
            if self.compiled:
                self._compile(new, kept)
            _sync(new)
            shutil.rmtree(kept, ignore_errors=True)
            os.rename(new, kept)
            _files.sync_directory(home)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _compile(self, new: str, kept: str) -> None:
        for path in self.files():
            target = os.path.join(new, path)
            _files.make_directory(os.path.dirname(cache_from_source(target)))
            py_compile.compile(target, dfile=os.path.join(kept, path), doraise=True)

    def make_current(self, home: str) -> None:
        """Keep the files, have the link lead there, and remove every other version, and what a killed run left."""
        self.keep(home)
        link = os.path.join(home, CURRENT)
        _files.replace_link(link, self.name())
        for name in os.listdir(home):
            path = os.path.join(home, name)
            if name != self.name() and os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
        for left in _files.unfinished_links(link):
            os.unlink(left)


@lru_cache(maxsize=None)  # each call opens the archive anew, and reads the list of all that is in it
def _imported(entry: str) -> dict[str, bytes]:
    """A file and all that it imports of this collection, also inside functions, by path."""
    found: dict[str, bytes] = {}
    with _at_hand() as (exists, read):
        left = [entry]
        while left:
            path = left.pop()
            if path not in found:
                found[path] = read(path)
                left += [one for one in named(path, found[path]) if exists(one)]
    return dict(sorted(found.items()))


def named(path: str, data: bytes) -> list[str]:
    """The files that a file may mean by its relative imports (pure)."""
    found, folder = [], path.split("/")
    for dots, module, names in _IMPORT.findall(data):
        base = [*folder[: -len(dots)], *filter(None, module.decode("ascii").split("."))]
        found.append("/".join(base) + ".py")
        found += ["/".join([*base, name.decode("ascii")]) + ".py" for name in _IMPORTED.findall(_COMMENT.sub(b"", names))]
    return found


@contextlib.contextmanager
def _at_hand() -> Iterator[tuple[Callable[[str], bool], Callable[[str], bytes]]]:
    """Whether there is a file below module_utils, and its content: from the archive that Ansible sends with a module, or from a directory."""
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
    """After a loss of power, what is renamed afterwards is whole."""
    for root, dummy_folders, names in os.walk(folder):
        for path in [*(os.path.join(root, one) for one in names), root]:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def versions(home: str, first: str) -> list[str]:
    """The directories of code that are there: the one of that name first, then the others, the newest first."""
    found = [os.path.join(home, one) for one in os.listdir(home) if one.startswith(PREFIX)]
    return sorted(found, key=lambda path: (os.path.basename(path) == first, os.lstat(path).st_mtime), reverse=True)


def unfinished(home: str) -> list[str]:
    """What a killed run left of one."""
    return [os.path.join(home, one) for one in os.listdir(home) if one.startswith(NEW)]
