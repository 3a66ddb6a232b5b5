# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports to the swarm's managers: writes an engine label into daemon.json and lets dockerd reload the file.

A reload also makes dockerd load every other change in daemon.json. So this code writes the label only if dockerd has loaded the present file. Private
to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .. import _files
from .._config import engine_labels
from .._dockerd.engine import Engine
from .._errors import GpuSwarmError
from .._files import Move, Snapshot
from .._health.label import KEY
from . import loaded
from .journal import INSERTED, KILLED, LABEL, RUN, Record, State, entry_after_write
from .watcher_state import LABEL_KEY

SHOWN_WITHIN_S = 15


class Channel:
    """The health label of one node. The caller of ``write`` and ``clear`` holds the node's lock."""

    def __init__(self, params: Mapping[str, Any], engine: Engine, state: State, move: Move) -> None:
        self._path = params["daemon_config"]
        self._engine = engine
        self._state = state
        self._move = move

    def write(self, label: str) -> str | None:
        """Show this label to the managers. Return why this is impossible, or None."""
        return self._change(lambda content: engine_labels.set_label(content, self._path, KEY, label), label)

    def clear(self) -> str | None:
        """Remove the label from daemon.json and from the running daemon, so that managers no longer see it.
        Return why the label cannot be removed, or None."""
        return self._change(lambda content: engine_labels.without_label(content, self._path, KEY), None)

    def blocked(self, current: Snapshot, engine: Mapping[str, Any] | None) -> str | None:
        """Return why the label cannot be changed now, or None."""
        if not engine or not engine["running"]:
            return "dockerd is not running"
        names = engine_labels.blocking_flags(engine["flags"])
        if names:
            return "dockerd has the flag %s, which a reload would ignore" % ", ".join(names)
        if self._state.unfinished():
            return KILLED
        if not loaded.is_loaded(loaded.loaded_notes(self._state.record().get(current.path), self._state.directory), current, engine):
            return "%s was changed after dockerd loaded it, and a reload would apply that change" % self._path
        return None

    def shown_label(self, engine: Mapping[str, Any] | None) -> str | None:
        return shown_label(engine) if engine else None

    # -- parts -------------------------------------------------------------------------------------------------

    def _change(self, edit: Callable[[bytes | None], bytes | None], label: str | None) -> str | None:
        self._finish_killed()
        current, engine = Snapshot.take(self._path), self._engine.inspect()
        if self._state.record().get(current.path) is None:
            return "no record of %s exists: run fleet.gpu_swarm.provision" % self._path
        reason = self.blocked(current, engine)
        if reason:
            return reason
        try:
            content = edit(current.data)
            if content != current.data or shown_label(engine) != label:
                self._write_and_reload(current, content, label)
        except (GpuSwarmError, OSError) as problem:
            return str(problem)
        return None

    def _finish_killed(self) -> None:
        """Finish the work of a killed writer of labels, so that its journal does not block other writers. If a run was killed, leave the run's
        journal to the next run."""
        kind = self._state.journal_kind()
        if kind == LABEL:
            current = Snapshot.take(self._path)
            record = self._state.record_with_journal([current])
            if self._state.matches_journal(current):
                # dockerd had loaded the file before the writer began, and the writer changed only the label.
                record[current.path] = loaded.with_loaded_note(record[current.path], current.data, self._engine.inspect())
            self._finish(record)
        if kind != RUN:
            self._state.remove_unfinished_files()
            _files.remove_leftovers(self._path)

    def _write_and_reload(self, current: Snapshot, content: bytes | None, label: str | None) -> None:
        """Write the file and reload dockerd, or change nothing. If this process is killed, the next run finds the former file in the journal."""
        record = self._state.record()
        earlier = record[current.path]
        inserted = {**earlier[INSERTED], LABEL_KEY: KEY}
        record[current.path] = loaded.without_loaded_note(entry_after_write(current, inserted, content, earlier))
        self._state.open_journal([current], {current.path: (content, record[current.path])}, LABEL)
        try:
            _files.write(current.path, content, self._move, current.mode, current.owner)
            self._engine.reload()
            view = self._engine.wait(lambda view: _mismatch(view, label), SHOWN_WITHIN_S)
        except Exception:
            _files.restore(current, self._move)
            self._finish({**record, current.path: earlier})
            raise
        self._finish({**record, current.path: loaded.with_loaded_note(record[current.path], content, view)})

    def _finish(self, record: Record) -> None:
        self._state.write_record(record)
        self._state.close_journal()


def shown_label(engine: Mapping[str, Any]) -> str | None:
    """Return the health label of the running daemon, or None."""
    pairs = [entry.partition("=") for entry in engine.get("labels") or []]
    return next((value for key, dummy_equals, value in pairs if key == KEY), None)


def _mismatch(engine: Mapping[str, Any], label: str | None) -> str | None:
    label_now = shown_label(engine)
    return None if label_now == label else "its label %s is %s" % (KEY, label_now)
