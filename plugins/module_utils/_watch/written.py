# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks whether the node's files still contain the settings that this collection wrote.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from typing import Any, Mapping

from .. import _files
from .._health import verdict
from .._node.journal import INSERTED
from .._node.loaded import LOADED
from .._node.still_inserted import is_still_inserted

TOOLKIT = ("/usr/bin/nvidia-ctk", "/usr/local/bin/nvidia-ctk")


class Written:
    """The record of a node. The record is read again after it or one of its files has changed, but not while a run is changing the files."""

    def __init__(self, home: str, settings: Mapping[str, Any]) -> None:
        self._record, self._journal = (os.path.join(os.path.dirname(home), name) for name in ("record.json", "journal.json"))
        self._files = (settings["daemon_config"], settings["runtime_config"])
        self._seen: object = None
        self.expected: list[str] = []  # the UUIDs that the node advertises
        self.inserted: Mapping[str, Any] = {}  # the settings that this collection inserted into daemon.json, from the record
        self.loaded: Mapping[str, Any] = {}  # the note of the last load of daemon.json after this collection's own change
        self.drift: str | None = None  # a digest of the files that no longer contain this collection's settings

    def read(self) -> Written:
        now = [stamp(path) for path in (self._record, *self._files, *TOOLKIT)]
        if now != self._seen and (self._seen is None or not os.path.exists(self._journal)):
            with contextlib.suppress(OSError):  # for example if the disk fails; keep the known values, and the next call tries again
                self._read()
                self._seen = now
        return self

    def _read(self) -> None:
        try:
            with open(self._record, encoding="utf-8") as stream:
                files = json.load(stream)["files"]
        except (FileNotFoundError, ValueError, KeyError):
            files = {}
        entry = files.get(self._files[0]) or {}
        self.inserted = entry.get(INSERTED) or {}
        self.loaded = entry.get(LOADED) or {}
        self.expected = verdict.advertised_uuids(self.inserted)
        snapshots = [_files.Snapshot.take(path) for path in self._files if path in files]
        changed: dict[str, str | None] = {}
        for snapshot in snapshots:
            if not is_still_inserted(snapshot.data, snapshot.path, files[snapshot.path][INSERTED]):
                changed[snapshot.path] = snapshot.sha256
        if self._files[1] in files and not any(map(os.path.exists, TOOLKIT)):
            changed["toolkit"] = None
        text = json.dumps(changed, sort_keys=True)
        self.drift = hashlib.sha256(text.encode("utf-8")).hexdigest()[:8] if changed else None


def stamp(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns)
