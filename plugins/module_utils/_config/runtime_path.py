# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads and replaces the program of the runtime nvidia in daemon.json. Every other byte stays unchanged (pure).

dockerd rereads ``runtimes`` at a reload. If the key is missing, dockerd keeps the old value (moby daemon/reload.go).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os

from .daemon_json import RUNTIME, RUNTIMES, decode_file, set_at_path


def read_path(content: bytes | None, path: str) -> str | None:
    """Return the path of the runtime's program; None if the file has no path."""
    runtimes = decode_file(content, path).doc.get(RUNTIMES)
    entry = runtimes.get(RUNTIME) if isinstance(runtimes, dict) else None
    program = entry.get("path") if isinstance(entry, dict) else None
    return program if isinstance(program, str) else None


def set_path(content: bytes | None, path: str, program: str) -> bytes | None:
    """Return the file with this program instead of the present program. If the file names no program, return it unchanged."""
    current = read_path(content, path)
    if current is None or current == program:
        return content
    file = decode_file(content, path)
    return file.encode(set_at_path(file.text, [RUNTIMES, RUNTIME, "path"], program))


def with_former_path(content: bytes | None, path: str, name: str, former: str) -> bytes | None:
    """Return the file with the former program, if the present program is called ``name``."""
    current = read_path(content, path)
    return set_path(content, path, former) if current is not None and os.path.basename(current) == name else content
