# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collects the errors of cards (XIDs) from the kernel's log and from NVML, and keeps them until the next boot.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Mapping, Sequence

from .._health import pace, xids
from .._health.label import OK
from .._replace import replace_json
from .written import stamp

LOG = "dev/kmsg"
_RECORD = 8192  # bytes; the kernel refuses to write a record into a smaller buffer


class Events:
    """The errors that count on this node. They are kept in memory and, if possible, in a file. Removing the file clears the errors."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, pace.EVENTS)
        with open(pace.BOOT_ID, encoding="ascii") as stream:
            self._boot = stream.read().strip()
        self._events: list[dict[str, Any]] = []
        self._stamp: object = None  # the file's stamp when it was last read or written
        self._is_written = True
        self.failure = ""  # why the errors are not in the file

    def read(self) -> list[dict[str, Any]]:
        now = stamp(self._path)
        if now != self._stamp:
            self._stamp, self._is_written = now, True
            self._load()
        return list(self._events)

    def _load(self) -> None:
        try:
            with open(self._path, encoding="utf-8") as stream:
                self._events = pace.events_of_boot(json.load(stream), self._boot)
        except (FileNotFoundError, ValueError, AttributeError):
            self._events = []
        except OSError as problem:  # for example a failing disk: known errors still count
            self.failure = "%s: %s" % (self._path, problem.strerror)

    def add(self, errors: Sequence[xids.Event], gpus: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> list[xids.Event]:
        """Keep the errors of these GPUs and return the new errors. Both sources may report the same error."""
        events, uuids = self.read(), {xids.bus_address(gpu["pci"]): gpu["uuid"] for gpu in gpus if gpu["pci"] and gpu["uuid"]}
        before, new_errors = events, []
        for error in errors:
            state = xids.severity(error, settings["health_faults"], settings["health_ignored"])
            if state == OK or error.pci not in uuids:
                new_errors += [error] if error.text else []  # report an ignored error only if the text of the kernel's log is known
                continue
            count = len(events)
            events = pace.add_event(events, uuids[error.pci], error.xid, state)
            new_errors += [error] if len(events) > count or error.text else []
        if events != before:
            self._events, self._is_written = events, False
        if not self._is_written:
            self._write()
        return new_errors

    def standing(self) -> str:
        """Return a sentence about earlier errors that still count and how to clear them, or ''."""
        errors = ", ".join("XID %d of %s" % (event["xid"], event["uuid"]) for event in self.read())
        if not errors:
            return ""
        return "the driver logged these errors before, and they count until this node reboots: %s. After a reset, remove %s." % (errors, self._path)

    def _write(self) -> None:
        """Write the file. If the disk is full, the next call tries again."""
        try:
            replace_json(self._path, {"boot": self._boot, "events": self._events})
            self._stamp, self._is_written, self.failure = stamp(self._path), True, ""
        except OSError as problem:
            self.failure = "%s: %s" % (self._path, problem.strerror)


class Log:
    """Reads the kernel's log, starting now. ``root`` is the machine's root directory."""

    def __init__(self, root: str = "/") -> None:
        self._handle: int | None = None
        with contextlib.suppress(OSError):  # a container has no kernel log
            self._handle = os.open(os.path.join(root, LOG), os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._handle, 0, os.SEEK_END)

    def handles(self) -> list[int]:
        return [] if self._handle is None else [self._handle]

    def lines(self) -> list[str]:
        """Return the errors since the last call."""
        lines: list[str] = []
        while self._handle is not None:
            try:
                record = os.read(self._handle, _RECORD)
            except BrokenPipeError:  # the kernel has overwritten records that were not read
                continue
            except OSError:
                break
            if not record:
                break
            lines.append(record.decode("utf-8", "replace"))
        return lines
