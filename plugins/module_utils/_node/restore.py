# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removes this collection's changes from the files on record (pure).

The kind of each file comes from the record, because the options may name other files now.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple

from .._config import daemon_json, runtime_toml, shm_size
from .._dockerd import flags
from .._files import Snapshot
from .guard_runtime import without_guard
from .journal import INSERTED
from .observation import Observation
from .watcher_state import LABEL_KEY


class Edit(NamedTuple):
    """The change of one file."""

    content: bytes | None  # the new bytes, or None to remove the file
    notes: list[str]  # sentences about this edit for the user
    inserted: dict[str, Any]  # the settings that this collection inserts, for the record


def is_unit(entry: Mapping[str, Any] | None) -> bool:
    """Return whether this entry of the record belongs to a file that decides how dockerd is started."""
    return bool(entry) and "taken" in entry[INSERTED]


def is_daemon(entry: Mapping[str, Any] | None) -> bool:
    """Return whether this entry of the record belongs to a daemon.json."""
    return bool(entry) and "resources" in entry[INSERTED]


def restore_edit(current: Snapshot, entry: Mapping[str, Any]) -> Edit:
    """Return the edit that restores a file: its original bytes, or, if someone has edited it, its bytes without this collection's changes."""
    inserted, original, notes = entry[INSERTED], Snapshot.from_json(entry["original"]).data, []
    if entry["pristine"] and current.sha256 == entry["written"]:
        content = original
        if not inserted.get("in_force", True):
            notes = ["%s: this file is restored, but dockerd runs without it until the next boot." % current.path]
    elif is_unit(entry):
        content, unplaced = flags.restore(current.data, flags.kind_of(current.path), inserted["taken"])
        notes = ["%s: someone has edited this file, so %s could not be put back." % (current.path, ", ".join(unplaced))] if unplaced else []
    elif is_daemon(entry):
        want = daemon_json.Want(inserted["resources"], inserted["kinds"], moved=inserted.get("moved", ()))
        content = _without_label(current, inserted[LABEL_KEY], original) if LABEL_KEY in inserted else current.data
        content = without_guard(content, current.path, inserted)
        content = shm_size.undo_size(content, current.path, inserted)
        content = daemon_json.undo_edit(content, current.path, original, want)
    else:
        line = runtime_toml.Want(inserted["swarm_resource"], inserted.get("mode"))
        content = runtime_toml.undo_edit(current.data, current.path, original, line)
    # If the record was lost once, even the recorded original may name the guard.
    return Edit(without_guard(content, current.path, inserted) if is_daemon(entry) else content, notes, inserted)


def _without_label(current: Snapshot, key: str, original: bytes | None) -> bytes | None:
    from .._config import engine_labels

    return engine_labels.undo_label(current.data, current.path, key, original)


def restore_former_files(observed: Observation) -> dict[str, Edit]:
    """Return {path: edit} for files that daemon_config and runtime_config named in an earlier run, but not now."""
    edits = {}
    for current in observed.former_files:
        if current.path in observed.record:
            edit = restore_edit(current, observed.record[current.path])
            notes = ["%s is restored, because daemon_config and runtime_config no longer name it." % current.path] + edit.notes
            edits[current.path] = edit._replace(notes=notes if edit.content != current.data else [])
    return edits


def with_copies(record: dict[str, dict[str, Any]], files: Iterable[Snapshot], former_files: Iterable[Snapshot]) -> dict[str, dict[str, Any]]:
    """Return the record, with entries for files that the user moved or copied. The copy of a written file gets the same original."""
    written = {record[file.path]["written"]: record[file.path] for file in former_files if file.path in record}
    copies = {file.path: written[file.sha256] for file in files if file.existed and file.path not in record and file.sha256 in written}
    return {**record, **copies}
