# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether dockerd has loaded the present daemon.json. If not, a reload would apply other changes too.

This code compares digests of the file. Each note has the digest and the process that loaded the file, not a time, because times are wrong after
someone has set the clock. This collection notes each of its restarts and reloads in the file's record. The watcher notes the restarts by others. If a
run writes the file without a restart or reload, dockerd already has these settings, and the run adds no other settings.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

from .._files import Snapshot, digest
from .._health.pace import BOOT_ID
from .watcher_state import HOME

LOADED = "loaded"  # in the file's record
# A file of the watcher, below the state directory: the running dockerd, and the digest of the file that it has loaded, if known.
STARTS = os.path.join(HOME, "dockerd.json")


def with_loaded_note(entry: Mapping[str, Any], content: bytes | None, engine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the file's record, with a note that the running dockerd has loaded ``content``."""
    return {**entry, LOADED: {"sha256": digest(content), "process": _process(engine)}}


def without_loaded_note(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a file that was just written, without a note about what dockerd has loaded."""
    return {**entry, LOADED: None}


def loaded_notes(entry: Mapping[str, Any] | None, state_dir: str) -> list[Mapping[str, Any]]:
    """Return the notes about what dockerd has loaded: first the note in the file's record, then the watcher's note."""
    candidates = [_note_in_record(entry or {})]
    try:
        with open(os.path.join(state_dir, STARTS), encoding="utf-8") as stream:
            candidates.append(json.load(stream))
    except (OSError, ValueError):
        pass
    return [note for note in candidates if isinstance(note, dict) and note.get("sha256")]


def _note_in_record(entry: Mapping[str, Any]) -> Any:
    """Return the note in a file's record. Release 0.2.0 wrote no notes, but restarted dockerd after each change. So dockerd has loaded the written
    content."""
    return entry.get(LOADED, {"sha256": entry.get("written")})


def is_loaded(notes: Sequence[Mapping[str, Any]], current: Snapshot, engine: Mapping[str, Any] | None) -> bool:
    """Return whether dockerd has loaded the present file.

    If notes are about the running process, the first of these notes decides, because it is the newest. If no note is about the running process, all
    notes must have the file's digest. In this case, each later start has read the same bytes.
    """
    if not engine or not engine["running"] or not current.existed:
        return False
    process = _process(engine)
    digests = [note["sha256"] for note in notes if process is None or note.get("process") == process]
    return current.sha256 == digests[0] if digests else {note["sha256"] for note in notes} == {current.sha256}


def process_identity(pid: int) -> dict[str, Any] | None:
    """Return the boot and the kernel's tick of a process's start, which identify the process. None if it does not run."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as stream:
            tick = int(stream.read().rpartition(")")[2].split()[19])
        with open(BOOT_ID, encoding="ascii") as stream:
            return {"boot": stream.read().strip(), "tick": tick}
    except OSError:
        return None


def _process(engine: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return process_identity((engine or {}).get("pid") or 0)
