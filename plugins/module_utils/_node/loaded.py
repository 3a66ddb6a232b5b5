# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether dockerd has loaded daemon.json as it is now: what a reload would put in force besides.

Each restart and each reload of this collection's is noted with the file's record. What it writes without either, dockerd shows already: it adds
nothing of anybody else's to a file that was loaded. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import os
import time
from typing import Any, Mapping

from .._dockerd.unit import process_started
from .._files import Snapshot, digest

NOTED = "loaded"  # in the file's record
# A file's time and the start of a process are kept in ticks of the kernel. A run renames the file right before it restarts dockerd, which
# takes longer than this.
_TICKS_S = 0.1
# The clock may have been set a little since the note was made; a dockerd that was started anew within that has loaded the same.
_CLOCK_S = 2


def noted(entry: Mapping[str, Any], content: bytes | None) -> dict[str, Any]:
    """The file's record, with this as what dockerd has loaded by now."""
    return {**entry, NOTED: {"sha256": digest(content), "at": time.time()}}


def is_loaded(entry: Mapping[str, Any] | None, current: Snapshot, engine: Mapping[str, Any] | None) -> bool:
    """By the file's record, or by its time and that of dockerd's start."""
    if not engine or not engine["running"] or not current.existed:
        return False
    known, started = (entry or {}).get(NOTED) or {}, process_started(engine.get("pid") or 0)
    if known.get("sha256") == current.sha256 and (started is None or known["at"] + _CLOCK_S > started):
        return True
    return started is not None and _changed_at(current.path) + _TICKS_S < started


def _changed_at(path: str) -> float:
    """When a file last changed, or its name; a copy keeps the time of its content, and not this one."""
    return os.stat(path).st_ctime if os.path.exists(path) else time.time()
