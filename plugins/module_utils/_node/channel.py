# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a node reports to the swarm's managers: by a label of its engine, in daemon.json, taken by a reload.

A reload makes dockerd take everything else that waits in daemon.json. So the file is written only while it is, byte for byte, what
dockerd has loaded. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Mapping

from .. import _files
from .._config import engine_labels
from .._dockerd.engine import Engine
from .._dockerd.unit import process_started
from .._errors import GpuSwarmError
from .._files import Move, Snapshot
from .._health.label import KEY
from .journal import FILE_MODE, INSERTED, State, taken_over
from .watcher_seen import HOME, NOTED

SHOWN_WITHIN_S = 15
# A file's time and the start of a process are kept in ticks of the kernel. A run renames the file right before it restarts dockerd, which
# takes longer than this.
_TICKS_S = 0.1
# The clock may have been set a little since the note was made; a dockerd that was started anew within that has loaded the same.
_CLOCK_S = 2


class Channel:
    """The label of one node. ``write`` and ``clear`` are for the holder of the node's lock."""

    def __init__(self, params: Mapping[str, Any], engine: Engine, state: State, move: Move) -> None:
        self._path = params["daemon_config"]
        self._engine = engine
        self._state = state
        self._move = move
        self._note = os.path.join(state.directory, HOME, "loaded.json")

    def write(self, label: str) -> str | None:
        """Has the managers see this label; the reason why that cannot be, or None."""
        return self._change(lambda content: engine_labels.put(content, self._path, KEY, label), label)

    def clear(self) -> str | None:
        """Has the managers see no label any more. daemon.json then says so too, until it is restored."""
        return self._change(lambda content: engine_labels.cleared(content, self._path, KEY), None)

    def blocked(self, current: Snapshot, engine: Mapping[str, Any] | None) -> str | None:
        """Why the label cannot be changed while dockerd runs."""
        if not engine or not engine["running"]:
            return "dockerd is not running"
        names = engine_labels.blocking(engine["flags"])
        if names:
            return "dockerd is started with %s, and a reload would not keep that" % ", ".join(names)
        if self._state.unfinished():
            return "a run that was killed has left its journal"
        if not self._is_loaded(current, engine):
            return "%s was changed since dockerd loaded it, and a reload would put that in force" % self._path
        return None

    def note_loaded(self) -> None:
        """Notes that dockerd has just loaded daemon.json as it is now."""
        self._keep(Snapshot.take(self._path))

    def written_at(self) -> float | None:
        """When it was loaded last, by what is noted."""
        return self._noted().get("at")

    # -- parts -------------------------------------------------------------------------------------------------

    def _change(self, edit: Callable[[bytes | None], bytes | None], label: str | None) -> str | None:
        current, engine = Snapshot.take(self._path), self._engine.inspect()
        if self._state.record().get(current.path) is None:
            return "%s is not on record: run fleet.gpu_swarm.provision" % self._path
        reason = self.blocked(current, engine)
        if reason:
            return reason
        try:
            content = edit(current.data)
            if content != current.data or shown(engine) != label:
                self._put(current, content, label)
        except (GpuSwarmError, OSError) as problem:
            return str(problem)
        return None

    def _put(self, current: Snapshot, content: bytes | None, label: str | None) -> None:
        """All of it or nothing, with the node's journal, so that a run after a kill goes on from the file as it was."""
        record = self._state.record()
        earlier = record[current.path]
        inserted = {**earlier[INSERTED], NOTED: KEY}
        record[current.path] = taken_over(current, inserted, content, earlier)
        self._state.open_journal([current], {current.path: (content, record[current.path])})
        try:
            _files.write(current.path, content, self._move, current.mode, current.owner)
            self._engine.reload()
            self._engine.wait(lambda view: _complaint(view, label), SHOWN_WITHIN_S)
        except Exception:
            _files.restore(current, self._move)
            self._state.close_journal()
            raise
        self._state.write_record(record)
        self._keep(Snapshot.take(current.path))
        self._state.close_journal()

    def _is_loaded(self, current: Snapshot, engine: Mapping[str, Any]) -> bool:
        noted, started = self._noted(), process_started(engine.get("pid") or 0)
        if current.existed and noted.get("sha256") == current.sha256 and (started is None or noted["at"] + _CLOCK_S > started):
            return True
        return started is not None and _changed_at(self._path) + _TICKS_S < started

    def _noted(self) -> dict[str, Any]:
        try:
            with open(self._note, encoding="utf-8") as stream:
                return json.load(stream)
        except (FileNotFoundError, ValueError):
            return {}

    def _keep(self, current: Snapshot) -> None:
        text = json.dumps({"sha256": current.sha256, "at": time.time()})
        _files.write(self._note, text.encode("utf-8"), self._move, FILE_MODE)


def shown(engine: Mapping[str, Any]) -> str | None:
    """What the running daemon has as its label."""
    found = [entry.partition("=") for entry in engine.get("labels") or []]
    return next((value for key, dummy_equals, value in found if key == KEY), None)


def _complaint(engine: Mapping[str, Any], label: str | None) -> str | None:
    now = shown(engine)
    return None if now == label else "its label %s is %s" % (KEY, now)


def _changed_at(path: str) -> float:
    """When a file last changed, or its name; a copy keeps the time of its content, and not this one."""
    return os.stat(path).st_ctime if os.path.exists(path) else time.time()
