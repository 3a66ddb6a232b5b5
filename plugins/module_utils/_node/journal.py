# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps a lock, the journal of a change in progress, and the record of changed files on a node.

``journal.json`` contains the former files. It is written before the user's files change, and removed after the change. If a run is killed, the next
run finds the journal and starts from the same files. ``record.json`` exists between runs. It contains the original files, the former values of
changed keys, and the hash of the written content. So ``state: absent`` can restore everything.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import IO, Any, Dict, Iterable, Iterator, Mapping, Sequence

from .. import _files
from .._errors import GpuSwarmError
from .._files import Move

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_MAY_PASS = 0o011  # the permission of group and others to pass through a directory
LOCK_POLL_S = 0.1
BACKUPS = "backup"
# Key in a file's record: the settings that were inserted or removed. Records on nodes already contain this key.
INSERTED = "ours"
# The message if a journal exists and its run has ended.
KILLED = "a run that was killed has left its journal"
# Who wrote a journal: a run, which may change any file, or a writer of the health label, which only changes daemon.json.
RUN, LABEL = "run", "label"

# {path: the original, the inserted and the written content} of each file that this collection changed.
Record = Dict[str, Dict[str, Any]]


class State:
    """The state directory of one node. Everything in it is closed for all but root, except the directory of the record on a manager."""

    def __init__(self, directory: str, move: Move) -> None:
        self.directory = directory
        self._move = move
        self._journal = os.path.join(directory, "journal.json")
        self._record = os.path.join(directory, "record.json")
        self._lock = os.path.join(directory, "lock")
        self.candidate = os.path.join(directory, "candidate.json")
        self._has_lock = False

    def prepare(self) -> None:
        """Create the directory. Only its owner may list it. On a manager, others may pass through it to the record."""
        _files.make_directory(self.directory, DIRECTORY_MODE)
        os.chmod(self.directory, DIRECTORY_MODE | (os.stat(self.directory).st_mode & _MAY_PASS))

    def exists(self) -> bool:
        """Return whether a run has changed this node and no later run has removed everything. The lock is created first and removed last."""
        return os.path.exists(self._lock)

    def contains(self, name: str) -> bool:
        """Return whether an entry of this name exists here."""
        return os.path.lexists(os.path.join(self.directory, name))

    @contextmanager
    def lock(self, timeout_s: float) -> Iterator[None]:
        """Hold the node's lock, so that only one run changes the node. Wait at most ``timeout_s`` seconds."""
        self.prepare()
        path = self._lock
        # Anyone who may open the file could hold the lock for ever.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE), "a", encoding="utf-8") as stream:
            deadline = time.monotonic() + timeout_s
            while not _try_lock(stream):
                if time.monotonic() > deadline:
                    raise GpuSwarmError(
                        "%s: another run is changing this node and did not finish within %d s. "
                        "Wait for it and run this again." % (path, timeout_s)
                    )
                time.sleep(LOCK_POLL_S)
            self._has_lock = True
            try:
                yield
            finally:
                self._has_lock = False

    def remove_unfinished_files(self) -> None:
        """Remove files that a killed run left unfinished."""
        _files.remove(self.candidate)
        for path in (self._journal, self._record, self.candidate):
            _files.remove_leftovers(path)

    # -- journal -----------------------------------------------------------------------------------------------

    def open_journal(
        self, before: Iterable[_files.Snapshot], intended: Mapping[str, tuple[bytes | None, Mapping[str, Any] | None]], kind: str = RUN
    ) -> None:
        """Write the journal: each file before the change, and its new content.

        ``intended`` is ``{path: (new bytes, the file's record after they are written)}``. If several runs were killed one
        after another, the journal contains the intended changes of all of them.
        """
        entries = []
        for item in before:
            journaled, steps = self._journal_entry(item.path)
            data, record = intended[item.path]
            earlier = steps if journaled and journaled.sha256 == item.sha256 else []
            entries.append(dict(item.to_json(), steps=earlier + [{"sha256": _files.digest(data), "record": record}]))
        self._write(self._journal, {"version": 1, "kind": kind, "before": entries})

    def journal_kind(self) -> str | None:
        """Return who wrote the journal; None if no journal exists."""
        return self._read(self._journal).get("kind", RUN) if os.path.exists(self._journal) else None

    def starting_point(self, current: _files.Snapshot) -> _files.Snapshot:
        """Return the file before the change: ``current``, or the file that a killed run noted.

        The note is used only if the file has the bytes that the killed run found or wanted to write. Otherwise someone has
        edited the file since, and the edit must not be lost.
        """
        journaled, dummy_steps = self._journal_entry(current.path)
        finished = self.record().get(current.path, {}).get("written") == current.sha256
        return journaled if journaled and not finished and self.matches_journal(current) else current

    def matches_journal(self, current: _files.Snapshot) -> bool:
        """Return whether the file is unedited: it has the bytes that the journal's run found or wanted to write."""
        journaled, steps = self._journal_entry(current.path)
        return journaled is not None and current.sha256 in [journaled.sha256] + [step["sha256"] for step in steps]

    def _journal_entry(self, path: str) -> tuple[_files.Snapshot | None, list[dict[str, Any]]]:
        for entry in self._read(self._journal).get("before", []):
            if _is_same_file(entry["path"], path):
                return _files.Snapshot.from_json(entry), entry["steps"]
        return None, []

    def unfinished(self) -> bool:
        """Return whether a run or a writer of labels was killed before it finished. If another process holds the lock, that process is still
        running."""
        working_files = [os.path.basename(path) for path in (self._journal, self.candidate)]
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else []
        return any(name in working_files or name.startswith(_files.TEMPORARY) for name in names) and not self._is_locked()

    def _is_locked(self) -> bool:
        """Return whether another process is changing this node now."""
        if self._has_lock or not os.path.exists(self._lock):
            return False
        with open(self._lock, encoding="utf-8") as stream:
            return not _try_lock(stream)

    def close_journal(self) -> None:
        _files.remove(self._journal)

    # -- record ------------------------------------------------------------------------------------------------

    def record(self) -> Record:
        """Return the record of changed files, ``{path: {...}}``; {} if none was changed."""
        return self._read(self._record).get("files", {})

    def recorded_paths(self) -> list[str]:
        """Return the paths of all files in the record or in the journal."""
        journaled = [entry["path"] for entry in self._read(self._journal).get("before", [])]
        return list(dict.fromkeys([*self.record(), *journaled]))

    def record_with_journal(self, snapshots: Iterable[_files.Snapshot]) -> Record:
        """Return the record. For the files in ``snapshots``, include changes that a run made but could not record before it was killed."""
        files = self.record()
        for current in snapshots:
            for name in [name for name in files if name != current.path and _is_same_file(name, current.path)]:
                files[current.path] = files.pop(name)  # two paths of the same file, such as a symlink
            journaled, steps = self._journal_entry(current.path)
            entry = journaled and _entry_after_kill(current, journaled, steps, files.get(current.path))
            if entry:
                files[current.path] = entry
        return files

    def write_backups(self, files: Record) -> None:
        """Write the original of each recorded file into the directory of backups, if the backup does not exist yet. Backups are only for people to
        read."""
        for entry in files.values():
            if entry.get("backup") and not os.path.exists(entry["backup"]):
                original = _files.Snapshot.from_json(entry["original"])
                _files.make_directory(os.path.join(self.directory, BACKUPS), DIRECTORY_MODE)
                _files.write(entry["backup"], original.data, self._move, original.mode, original.owner)

    def backup_path(self, path: str) -> str:
        """Return the path for a backup. The path contains the file's path and the time."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return os.path.join(self.directory, BACKUPS, path.lstrip("/") + "." + stamp)

    def remove_useless_backups(self, files: Record) -> None:
        """Remove backups whose content is also in the record or in the file itself."""
        needed = {entry.get("backup") for entry in files.values()}
        root = os.path.join(self.directory, BACKUPS)
        for folder, dummy, names in os.walk(root, topdown=False):
            for backup in [os.path.join(folder, name) for name in names]:
                path = "/" + os.path.relpath(backup, root).rpartition(".")[0]
                recoverable = [_files.Snapshot.take(path).sha256]
                recoverable += [_files.Snapshot.from_json(files[path]["original"]).sha256] if path in files else []
                if backup not in needed and _files.Snapshot.take(backup).sha256 in recoverable:
                    _files.remove(backup)
            if not os.listdir(folder):
                os.rmdir(folder)

    def write_record(self, files: Record) -> None:
        if files:
            self._write(self._record, {"version": 1, "files": files})
        else:
            _files.remove(self._record)

    # -- the record's own files ----------------------------------------------------------------------------------------

    def _write(self, path: str, data: Mapping[str, Any]) -> None:
        text = json.dumps(data, indent=1, sort_keys=True) + "\n"
        _files.write(path, text.encode("utf-8"), self._move, FILE_MODE)

    def _read(self, path: str) -> dict[str, Any]:
        try:
            with open(path, encoding="utf-8") as stream:
                data = json.load(stream)
            if not isinstance(data, dict):
                raise ValueError("not a JSON object")
            return data
        except FileNotFoundError:
            return {}
        except ValueError as problem:
            raise GpuSwarmError(
                "%s: this collection's record of the node cannot be read (%s). Restore it from a backup. If you move it away instead, the "
                "node's present files are treated as the originals." % (path, problem)
            ) from problem


def _is_same_file(path: str, other: str) -> bool:
    return path == other or os.path.realpath(path) == os.path.realpath(other)


def _try_lock(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _entry_after_kill(
    current: _files.Snapshot, journaled: _files.Snapshot, steps: Sequence[Mapping[str, Any]], entry: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Return the record of a file that a killed run wanted to change. The file's present content decides. Return None if the run wanted to restore
    the file."""
    recorded = [step["record"] for step in steps if step["sha256"] == current.sha256]
    if recorded:
        return recorded[-1]
    intended = [item for item in [entry] + [step["record"] for step in steps] if item]
    if not intended:
        return None
    if journaled.sha256 != current.sha256:
        # Someone has edited the file since. The file may contain the changes of any killed run.
        return {**intended[-1], INSERTED: _merge_inserted([item[INSERTED] for item in intended]), "pristine": False}
    # The file is unchanged, but the running daemon may have loaded another content.
    return dict(entry) if entry else dict(intended[-1], original=current.to_json(), written=current.sha256, pristine=True)


def _merge_inserted(dicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the merged dicts. Lists with the same key are joined. For other values, the last value is used."""
    merged: dict[str, Any] = {}
    for inserted in dicts:
        for key, value in inserted.items():
            earlier = merged.get(key, [])
            merged[key] = earlier + [item for item in value if item not in earlier] if isinstance(value, list) else value
    return merged


def entry_after_write(
    snapshot: _files.Snapshot, inserted: Mapping[str, Any], written: bytes | None, earlier: Mapping[str, Any] | None, backup: str | None = None
) -> dict[str, Any]:
    """Return the record of one file after it was written.

    ``inserted`` says what this collection inserted or removed. ``earlier`` is the file's former record, None at the first write. ``backup`` is the
    path for a backup, which is used at the first write if the file existed. ``pristine`` in the record says that nobody else has edited the file
    between this collection's writes. In this case, a later run restores the original bytes. Otherwise a later run removes only this collection's
    changes.
    """
    return {
        "original": earlier["original"] if earlier else snapshot.to_json(),
        "backup": earlier.get("backup") if earlier else backup if snapshot.existed else None,
        INSERTED: inserted,
        "written": _files.digest(written),
        "pristine": earlier is None or (earlier["pristine"] and snapshot.sha256 == earlier["written"]),
    }
