# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""This collection's own code as it is at hand: in the archive that Ansible sends with a module, or in files, as on the controller.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
import sys
import zipfile


def read(path: str) -> bytes:
    """One file, by its path below module_utils."""
    archive = getattr(getattr(sys.modules[__name__], "__loader__", None), "archive", None)
    if archive is None:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), *path.split("/")), "rb") as stream:
            return stream.read()
    with zipfile.ZipFile(archive) as opened:
        return opened.read("/".join(__name__.split(".")[:-1]) + "/" + path)
