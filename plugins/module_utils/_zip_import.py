# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compiles what a module imports from the archive in which Ansible sends it once, and not twice: a module imports this before the rest.

Python's ``zipimporter`` compiles a file to find out under which name it is there (``get_filename``), and again to run it (``get_code``; CPython,
Lib/zipimport.py). For ``gpu_node`` the second time took a fifth of a call. Ansible's
own files are imported before a module begins, and stay as they are.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import sys
import zipimport


class Importer(zipimport.zipimporter):
    """As its base, but that it finds the name of a file without compiling it."""

    def get_filename(self, fullname: str) -> str:
        ending = "/__init__.py" if self.is_package(fullname) else ".py"
        return "%s/%s%s%s" % (self.archive, self.prefix, fullname.rpartition(".")[2], ending)


def _install() -> None:
    sys.path_hooks[:] = [Importer if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


if isinstance(__spec__.loader, zipimport.zipimporter):
    _install()
