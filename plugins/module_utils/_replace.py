# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a file of state as a whole. Imports little, because the guard loads it before each container starts.

Such a file may be lost in a power cut. For files that must survive one, see _files. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import json
import os

TYPE_CHECKING = False  # loading typing would cost the guard too much time
if TYPE_CHECKING:
    from typing import Any

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def new_path(path: str) -> str:
    """Return the name under which a new file is written before it replaces the one at ``path``. Readers of the folder skip hidden files."""
    folder, name = os.path.split(path)
    return os.path.join(folder, ".%s.new" % name)


def replace_json(path: str, document: Any, mode: int = 0o666) -> None:
    """Write a document so that a reader sees the old file or the new one, never a part. Raises OSError; the old file then stays.

    A link at ``path`` is replaced, not followed. The umask limits ``mode``.
    """
    new = new_path(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # left by a process that was killed
    try:
        with open(os.open(new, _FLAGS, mode), "w", encoding="utf-8") as stream:
            json.dump(document, stream)
        os.replace(new, path)
    except Exception:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
