# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes a state file as a whole. This file imports little, because the guard loads it before each start of a container.

A power cut may lose such a file. For files that must survive a power cut, see _files. Private to this collection; it may change without notice.
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
    """Return the name of the new file that later replaces the file at ``path``.

    The name is hidden, because readers of the folder skip hidden files.
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, ".%s.new" % name)


def replace_json(path: str, document: Any, mode: int = 0o666) -> None:
    """Write a document as JSON, like ``replace_text``."""
    replace_text(path, json.dumps(document), mode)


def replace_text(path: str, text: str, mode: int = 0o666) -> None:
    """Write a file so that a reader sees the old file or the new file, never a part. Raises OSError. After an error the old file still exists.

    A link at ``path`` is replaced, not followed. The umask limits ``mode``.
    """
    new = new_path(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # a killed process left this file behind
    try:
        with open(os.open(new, _FLAGS, mode), "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(new, path)
    except Exception:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
