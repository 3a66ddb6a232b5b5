# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard as the program of the runtime nvidia: in daemon.json, in its record, and in the running daemon (pure).

Each call on a node loads this file, so it is small. The other files about guards are loaded only if the node has, had or gets a guard.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from .._config.daemon_json import RUNTIME_PATH
from .guard_state import FRONT
from .journal import INSERTED

# Key in the record of daemon.json: the program of the runtime nvidia before the guard replaced it.
FORMER_PROGRAM = "runtime_before"


def former_on_record(entry: Mapping[str, Any] | None) -> str | None:
    """Return the program that the guard replaced, from the record of daemon.json. None if no guard is on record."""
    inserted = (entry or {}).get(INSERTED, {})
    return former_program(inserted) if inserted.get(FORMER_PROGRAM) is not None else None


def former_program(inserted: Mapping[str, Any]) -> str:
    """Return the program that the guard calls. If daemon.json was copied from another node, it may name the guard itself; in this case, return
    NVIDIA's program."""
    program = str(inserted.get(FORMER_PROGRAM) or RUNTIME_PATH)
    return RUNTIME_PATH if os.path.basename(program) == FRONT else program


def names_guard(content: bytes | None) -> bool:
    """Return whether this daemon.json may name a guard."""
    return FRONT.encode("ascii") in (content or b"")


def without_guard(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bytes | None:
    """Return daemon.json with the former program of the runtime nvidia. ``inserted`` comes from the file's record."""
    if not names_guard(content):
        return content
    from .._config import runtime_path

    return runtime_path.with_former_path(content, path, FRONT, former_program(inserted))


def runs_program(engine: Mapping[str, Any] | None, program: str) -> bool:
    """Return whether the running daemon uses this program for one of its runtimes."""
    runtimes = (engine or {}).get("runtimes") or {} if engine and engine["running"] else {}
    return any(isinstance(runtime, dict) and runtime.get("path") == program for runtime in runtimes.values())
