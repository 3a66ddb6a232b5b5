# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the runtime nvidia in daemon.json: read and replaced, every other byte left (pure).

dockerd reads ``runtimes`` anew at a reload; a key that is gone keeps its old value then (moby daemon/reload.go).
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os

from .daemon_json import RUNTIME, RUNTIMES, opened, put_in


def get(content: bytes | None, path: str) -> str | None:
    """None where the file names none."""
    runtimes = opened(content, path).doc.get(RUNTIMES)
    entry = runtimes.get(RUNTIME) if isinstance(runtimes, dict) else None
    found = entry.get("path") if isinstance(entry, dict) else None
    return found if isinstance(found, str) else None


def put(content: bytes | None, path: str, program: str) -> bytes | None:
    """The file with this program in place of the one that it names."""
    now = get(content, path)
    if now is None or now == program:
        return content
    file = opened(content, path)
    return file.encode(put_in(file.text, [RUNTIMES, RUNTIME, "path"], program))


def restored(content: bytes | None, path: str, name: str, former: str) -> bytes | None:
    """The file with the former program where it names one that is called so."""
    now = get(content, path)
    return put(content, path, former) if now is not None and os.path.basename(now) == name else content
