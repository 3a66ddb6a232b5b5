# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard as the program of the runtime nvidia: in daemon.json, on record, and in the running daemon (pure).

Most nodes have none, and a node's code is compiled at each call: the rest is loaded where there is or was one.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

from .._config.daemon_json import RUNTIME_PATH
from .guard_seen import FRONT
from .journal import INSERTED

# In the record of daemon.json: the program that was the runtime nvidia before.
BEFORE = "runtime_before"


def before(entry: Mapping[str, Any] | None) -> str | None:
    """The program in whose place the guard is on record; None where it is not."""
    inserted = (entry or {}).get(INSERTED, {})
    return former(inserted) if inserted.get(BEFORE) is not None else None


def former(inserted: Mapping[str, Any]) -> str:
    """The program that the guard stands before: never the guard itself, which a copied daemon.json may name without a record."""
    found = str(inserted.get(BEFORE) or RUNTIME_PATH)
    return RUNTIME_PATH if os.path.basename(found) == FRONT else found


def is_named(content: bytes | None) -> bool:
    """Whether this daemon.json may name a guard."""
    return FRONT.encode("ascii") in (content or b"")


def unguarded(content: bytes | None, path: str, inserted: Mapping[str, Any]) -> bytes | None:
    """daemon.json with the program that was the runtime nvidia before the guard was. ``inserted`` is of the file's record."""
    if not is_named(content):
        return content
    from .._config import runtime_path

    return runtime_path.with_former_path(content, path, FRONT, former(inserted))


def is_run(engine: Mapping[str, Any] | None, program: str) -> bool:
    """Whether the running daemon has this program as one of its runtimes."""
    runtimes = (engine or {}).get("runtimes") or {} if engine and engine["running"] else {}
    return any(isinstance(one, dict) and one.get("path") == program for one in runtimes.values())
