# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether dockerd has loaded daemon.json as it is now. If not, a reload would apply other changes too.

It compares digests of the file. Each is noted with the process that loaded it, because times mean nothing after someone has set the clock.
Each restart and reload by this collection is noted in the file's record. The watcher notes restarts by others. If a run writes the file without
restart and reload, dockerd already has these settings, and the run adds no other settings.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

from .._files import Snapshot, digest
from .._health.pace import BOOT_ID
from .watcher_state import HOME

LOADED = "loaded"  # in the file's record
# A file of the watcher, below the state directory: which dockerd runs, and the digest of what it has loaded, if known.
STARTS = os.path.join(HOME, "dockerd.json")


def with_loaded_note(entry: Mapping[str, Any], content: bytes | None, engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the file's record, with ``content`` noted as what the running dockerd has loaded."""
    return {**entry, LOADED: {"sha256": digest(content), "process": _process(engine)}}


def without_loaded_note(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a file that was just written, without a note that dockerd has loaded it."""
    return {**entry, LOADED: None}


def loaded_notes(entry: Mapping[str, Any] | None, state_dir: str) -> list[Mapping[str, Any]]:
    """Return notes of what a process of dockerd loaded: first the one in the file's record, then the watcher's."""
    candidates = [_note_in_record(entry or {})]
    try:
        with open(os.path.join(state_dir, STARTS), encoding="utf-8") as stream:
            candidates.append(json.load(stream))
    except (OSError, ValueError):
        pass
    return [note for note in candidates if isinstance(note, dict) and note.get("sha256")]


def _note_in_record(entry: Mapping[str, Any]) -> Any:
    """Return the note in a file's record. Release 0.2.0 wrote no notes, but restarted dockerd after each change, so dockerd has loaded what
    was written."""
    return entry.get(LOADED, {"sha256": entry.get("written")})


def is_loaded(notes: Sequence[Mapping[str, Any]], current: Snapshot, engine: Mapping[str, Any] | None) -> bool:
    """Return whether dockerd has loaded the file as it is now.

    The notes of the running process decide; the first note is the newer one. If the running process has no note, all notes must have the
    file's digest: then any start since has read the same bytes.
    """
    if not engine or not engine["running"] or not current.existed:
        return False
    process = _process(engine)
    digests = [note["sha256"] for note in notes if process is None or note.get("process") == process]
    return current.sha256 == digests[0] if digests else {note["sha256"] for note in notes} == {current.sha256}


def process_identity(pid: int) -> dict[str, Any] | None:
    """Return what identifies a process: the boot and the kernel's tick of its start. None if it does not run."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stream:
            tick = int(stream.read().rpartition(")")[2].split()[19])
        with open(BOOT_ID, encoding="ascii") as stream:
            return {"boot": stream.read().strip(), "tick": tick}
    except OSError:
        return None


def _process(engine: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return process_identity((engine or {}).get("pid") or 0)
