# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watcher's code on a node: what Ansible sent with this module, kept under the state directory.

A set of files has a directory named by its content.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
import zlib

from .. import _zip_import
from .._program.unit import CURRENT, keep_code

_PACKAGE = "gpu_swarm"
_MAIN = """\
from %s._watch.commands import main

main()
""" % _PACKAGE
# Of the rooms, those that the watcher needs; the files beside them all.
_ROOMS = ("_watch", "_node", "_guard", "_health", "_dockerd", "_config", "_compat", "_policy", "_gpu", "_machine", "_program")


def is_current(home: str) -> bool:
    """Whether what is kept there is what this module would keep."""
    link = os.path.join(home, CURRENT)
    return os.path.islink(link) and os.readlink(link) == _name() and os.path.isfile(os.path.join(link, "__main__.py"))


def install(home: str) -> None:
    """Keeps the code, and nothing of an earlier version, with what this process has compiled of it."""
    keep_code(home, _name(), {**_sources(), "__main__.py": _MAIN.encode("ascii")})
    _zip_import.keep(os.path.join(home, CURRENT, _PACKAGE))


def _name() -> str:
    """By the checksums in the archive that Ansible sent: reading all of the code at every assessment would take longer than the rest."""
    found = hashlib.sha256(_MAIN.encode("ascii"))
    for name, checksum in sorted(_checksums().items()):
        found.update(("%s %d\n" % (name, checksum)).encode("utf-8"))
    return "code-" + found.hexdigest()[:16]


def _archive() -> str | None:
    return getattr(getattr(sys.modules[__name__], "__loader__", None), "archive", None)


def _inside() -> str:
    """Where module_utils is in the archive."""
    return "/".join(__name__.split(".")[:-2]) + "/"


def _checksums() -> dict[str, int]:
    archive = _archive()
    if archive is None:
        return {name: zlib.crc32(data) for name, data in _sources().items()}
    with zipfile.ZipFile(archive) as opened:
        return {_target(item.filename[len(_inside()) :]): item.CRC for item in opened.infolist() if _belongs(item.filename)}


def _sources() -> dict[str, bytes]:
    archive = _archive()
    if archive is not None:
        with zipfile.ZipFile(archive) as opened:
            return {_target(name[len(_inside()) :]): opened.read(name) for name in opened.namelist() if _belongs(name)}
    found = {}
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder, dummy, names in os.walk(top):
        for path in [os.path.join(folder, name) for name in names]:
            if _is_code(os.path.relpath(path, top)):
                with open(path, "rb") as stream:
                    found[_target(os.path.relpath(path, top))] = stream.read()
    return found


def _belongs(name: str) -> bool:
    return name.startswith(_inside()) and _is_code(name[len(_inside()) :])


def _is_code(name: str) -> bool:
    room, slash, dummy = name.partition("/")
    # Empty ones are made by some releases of ansible-core and not by others.
    return name.endswith(".py") and not name.endswith("__init__.py") and (room in _ROOMS if slash else True)


def _target(name: str) -> str:
    return "%s/%s" % (_PACKAGE, name)
