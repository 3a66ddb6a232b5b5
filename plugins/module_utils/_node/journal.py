# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is kept on a node: a lock, the journal of a change under way, the record of the files that were changed.

``journal.json`` is written before the first byte of the user's files changes and has these files as they were.
It is there only while a change is under way or after a run was killed; the next run finds it and goes on from the
same starting point. ``record.json`` outlives runs: the original files, the former values of the keys that were changed, and
the hash of what was written, so that ``state: absent`` can restore everything.

Private to this collection: no stability is promised to others.
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
LOCK_POLL_S = 0.1
BACKUPS = "backup"
# What was put into a file, or taken out of it, in its record. Nodes have records with this word.
INSERTED = "ours"
# What is said where a journal is there, and no run that has it.
KILLED = "a run that was killed has left its journal"
# Who made a journal: a run, which may change anything on the node, or a writer of the health label, which only changes daemon.json.
RUN, LABEL = "run", "label"

# By path, of each file that this collection changed: what it was, what was put in and what was written.
Record = Dict[str, Dict[str, Any]]


class State:
    """The state directory of one node (root, 0700)."""

    def __init__(self, directory: str, move: Move) -> None:
        self.directory = directory
        self._move = move
        self._journal = os.path.join(directory, "journal.json")
        self._record = os.path.join(directory, "record.json")
        self._lock = os.path.join(directory, "lock")
        self.candidate = os.path.join(directory, "candidate.json")
        self._has_lock = False

    def prepare(self) -> None:
        """Makes the directory, closed to all but its owner."""
        _files.make_directory(self.directory, DIRECTORY_MODE)
        os.chmod(self.directory, DIRECTORY_MODE)

    def is_there(self) -> bool:
        """Whether a run has changed anything here and none has cleared it away: the lock comes first, and goes last."""
        return os.path.exists(self._lock)

    def has(self, name: str) -> bool:
        """Whether anything of this name is kept here."""
        return os.path.lexists(os.path.join(self.directory, name))

    @contextmanager
    def lock(self, timeout_s: float) -> Iterator[None]:
        """Keeps two runs from changing one node at once; waits at most ``timeout_s`` seconds."""
        self.prepare()
        path = self._lock
        with open(path, "a", encoding="utf-8") as stream:
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

    def sweep(self) -> None:
        """Removes what a run that was killed left half-written here."""
        _files.remove(self.candidate)
        for path in (self._journal, self._record, self.candidate):
            _files.remove_leftovers(path)

    # -- journal -----------------------------------------------------------------------------------------------

    def open_journal(
        self, before: Iterable[_files.Snapshot], intended: Mapping[str, tuple[bytes | None, Mapping[str, Any] | None]], kind: str = RUN
    ) -> None:
        """Notes the files as they are before a change, and what each is about to become.

        ``intended`` is ``{path: (new bytes, what is on record of the file once it has them)}``. Where runs were killed
        one after another, what each of them meant to write stays noted.
        """
        entries = []
        for item in before:
            noted, steps = self._noted(item.path)
            data, record = intended[item.path]
            earlier = steps if noted and noted.sha256 == item.sha256 else []
            entries.append(dict(item.to_json(), steps=earlier + [{"sha256": _files.digest(data), "record": record}]))
        self._write(self._journal, {"version": 1, "kind": kind, "before": entries})

    def journal_kind(self) -> str | None:
        """Who made the journal; None if no journal exists."""
        return self._read(self._journal).get("kind", RUN) if os.path.exists(self._journal) else None

    def starting_point(self, current: _files.Snapshot) -> _files.Snapshot:
        """The file as it was before the change: ``current``, or what a run that was killed had noted of it.

        The note counts only while the file has the bytes that the killed run found or meant to write; anything else
        is somebody's edit since then, which must not be lost.
        """
        noted, dummy_steps = self._noted(current.path)
        finished = self.record().get(current.path, {}).get("written") == current.sha256
        return noted if noted and not finished and self.is_of_journal(current) else current

    def is_of_journal(self, current: _files.Snapshot) -> bool:
        """Whether nobody has edited the file: it has the bytes that the run of the journal found or meant to write."""
        noted, steps = self._noted(current.path)
        return noted is not None and current.sha256 in [noted.sha256] + [step["sha256"] for step in steps]

    def _noted(self, path: str) -> tuple[_files.Snapshot | None, list[dict[str, Any]]]:
        for entry in self._read(self._journal).get("before", []):
            if _same(entry["path"], path):
                return _files.Snapshot.from_json(entry), entry["steps"]
        return None, []

    def unfinished(self) -> bool:
        """Whether a run was killed before it could finish and remove its journal. One that still has the lock was not, nor was a watcher."""
        working_files = [os.path.basename(path) for path in (self._journal, self.candidate)]
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else []
        return any(name in working_files or name.startswith(_files.TEMPORARY) for name in names) and not self._is_locked()

    def _is_locked(self) -> bool:
        """Whether another one is changing this node right now."""
        if self._has_lock or not os.path.exists(self._lock):
            return False
        with open(self._lock, encoding="utf-8") as stream:
            return not _try_lock(stream)

    def close_journal(self) -> None:
        _files.remove(self._journal)

    # -- record ------------------------------------------------------------------------------------------------

    def record(self) -> Record:
        """What was taken over on this node: ``{path: {...}}``; {} where nothing was."""
        return self._read(self._record).get("files", {})

    def known(self) -> list[str]:
        """The paths of all files that are on record or in the journal."""
        noted = [entry["path"] for entry in self._read(self._journal).get("before", [])]
        return list(dict.fromkeys([*self.record(), *noted]))

    def record_of(self, found: Iterable[_files.Snapshot]) -> Record:
        """The same, with what a killed run did to the files ``found`` before it could put that on record."""
        files = self.record()
        for current in found:
            for name in [name for name in files if name != current.path and _same(name, current.path)]:
                files[current.path] = files.pop(name)  # another name for the same file
            noted, steps = self._noted(current.path)
            entry = noted and _reached(current, noted, steps, files.get(current.path))
            if entry:
                files[current.path] = entry
        return files

    def keep_originals(self, files: Record) -> None:
        """Puts the original of each file on record where a person finds it, if it is not there yet."""
        for entry in files.values():
            if entry.get("backup") and not os.path.exists(entry["backup"]):
                original = _files.Snapshot.from_json(entry["original"])
                _files.make_directory(os.path.join(self.directory, BACKUPS), DIRECTORY_MODE)
                _files.write(entry["backup"], original.data, self._move, original.mode, original.owner)

    def backup_of(self, path: str) -> str:
        """Where the original of a file is to be kept: by its path, and by the time."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return os.path.join(self.directory, BACKUPS, path.lstrip("/") + "." + stamp)

    def sweep_originals(self, files: Record) -> None:
        """Removes backups that nobody needs: what they contain is on record, or is the file itself again."""
        kept = {entry.get("backup") for entry in files.values()}
        root = os.path.join(self.directory, BACKUPS)
        for folder, dummy, names in os.walk(root, topdown=False):
            for backup in [os.path.join(folder, name) for name in names]:
                path = "/" + os.path.relpath(backup, root).rpartition(".")[0]
                known = [_files.Snapshot.take(path).sha256]
                known += [_files.Snapshot.from_json(files[path]["original"]).sha256] if path in files else []
                if backup not in kept and _files.Snapshot.take(backup).sha256 in known:
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
                raise ValueError("it is no object")
            return data
        except FileNotFoundError:
            return {}
        except ValueError as problem:
            raise GpuSwarmError(
                "%s: this collection's own record cannot be read (%s). Restore it from a backup, or move it away to start "
                "with the node's files as they are now." % (path, problem)
            ) from problem


def _same(path: str, other: str) -> bool:
    return path == other or os.path.realpath(path) == os.path.realpath(other)


def _try_lock(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _reached(
    current: _files.Snapshot, noted: _files.Snapshot, steps: Sequence[Mapping[str, Any]], entry: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The record of a file that a killed run was about to change, by what it contains now; None where it was to be restored."""
    reached = [step["record"] for step in steps if step["sha256"] == current.sha256]
    if reached:
        return reached[-1]
    meant = [item for item in [entry] + [step["record"] for step in steps] if item]
    if not meant:
        return None
    if noted.sha256 != current.sha256:
        # Edited since: what any of the runs put in may be in there.
        return {**meant[-1], INSERTED: _together([item[INSERTED] for item in meant]), "pristine": False}
    # As it was found, but the daemon may not run with it any more.
    return dict(entry) if entry else dict(meant[-1], original=current.to_json(), written=current.sha256, pristine=True)


def _together(several: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What stands in any of the dicts: lists joined, of other values the last."""
    joined: dict[str, Any] = {}
    for inserted in several:
        for key, value in inserted.items():
            earlier = joined.get(key, [])
            joined[key] = earlier + [one for one in value if one not in earlier] if isinstance(value, list) else value
    return joined


def taken_over(
    snapshot: _files.Snapshot, inserted: Mapping[str, Any], written: bytes | None, earlier: Mapping[str, Any] | None, backup: str | None = None
) -> dict[str, Any]:
    """The record of one file after it was written.

    ``inserted`` is what this collection put in, or took out. ``backup`` is where its original is kept the first time, if it existed.
    ``earlier`` is the file's record from before, or None at the first time. The original
    bytes can come back as they are only while nobody else edits the file between this collection's writes (``pristine``);
    from then on only its changes are taken out.
    """
    return {
        "original": earlier["original"] if earlier else snapshot.to_json(),
        "backup": earlier.get("backup") if earlier else backup if snapshot.existed else None,
        INSERTED: inserted,
        "written": _files.digest(written),
        "pristine": earlier is None or (earlier["pristine"] and snapshot.sha256 == earlier["written"]),
    }
