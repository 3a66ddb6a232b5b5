# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether dockerd has loaded daemon.json as it is now. If not, a reload would put other changes in force as well.

It compares digests of the file, each noted with the process that loaded it. Times of files and processes are no help after someone set the clock.
Each restart and reload by this collection is noted in the file's record. The watcher notes restarts by others. If a run writes the file without
either, dockerd already has these settings, and the run adds no settings of others.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

from .._files import Snapshot, digest
from .._health.pace import BOOT_ID
from .watcher_state import HOME

NOTED = "loaded"  # in the file's record
# A file of the watcher, below the state directory: which dockerd runs, and the digest of what it has loaded, if known.
STARTS = os.path.join(HOME, "dockerd.json")


def noted(entry: Mapping[str, Any], content: bytes | None, engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the file's record, with ``content`` noted as what the running dockerd has loaded."""
    return {**entry, NOTED: {"sha256": digest(content), "process": _process(engine)}}


def unknown(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a file that was just written: nobody knows yet whether dockerd has loaded it."""
    return {**entry, NOTED: None}


def notes(entry: Mapping[str, Any] | None, state_dir: str) -> list[Mapping[str, Any]]:
    """Return what was loaded by which process: the note in the file's record, then the watcher's note."""
    found = [_of_record(entry or {})]
    try:
        with open(os.path.join(state_dir, STARTS), encoding="utf-8") as stream:
            found.append(json.load(stream))
    except (OSError, ValueError):
        pass
    return [one for one in found if isinstance(one, dict) and one.get("sha256")]


def _of_record(entry: Mapping[str, Any]) -> Any:
    """Return the note in a file's record. Release 0.2.0 wrote none, but restarted dockerd after each change: dockerd has loaded what was written."""
    return entry.get(NOTED, {"sha256": entry.get("written")})


def is_loaded(known: Sequence[Mapping[str, Any]], current: Snapshot, engine: Mapping[str, Any] | None) -> bool:
    """Return whether dockerd has loaded the file as it is now.

    The notes of the running process decide; this collection's own note is the newer one. If there is none, the file must have the bytes that
    were loaded last: then any start since has read the same.
    """
    if not engine or not engine["running"] or not current.existed:
        return False
    process = _process(engine)
    its = [one["sha256"] for one in known if process is None or one.get("process") == process]
    return current.sha256 == its[0] if its else {one["sha256"] for one in known} == {current.sha256}


def identity(pid: int) -> dict[str, Any] | None:
    """Return what identifies a process: the boot and the kernel's tick of its start. None if it does not run."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stream:
            tick = int(stream.read().rpartition(")")[2].split()[19])
        with open(BOOT_ID, encoding="ascii") as stream:
            return {"boot": stream.read().strip(), "tick": tick}
    except OSError:
        return None


def _process(engine: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return identity((engine or {}).get("pid") or 0)
