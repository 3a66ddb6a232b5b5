# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts the guard's findings by service in a file under /run, and writes each finding to the journal at most once a minute.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from .._replace import replace_json

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Mapping

FILE = "found.json"
_SERVICES = 200  # the file lists at most this many services
_TEXT = 300  # the file keeps at most this many characters of a finding
_LOG_EVERY_S = 60  # swarm retries a refused task every few seconds as long as its service exists
_JOURNAL = "/dev/log"
_WARNING = 28  # syslog's number for a daemon's warning


def add(folder: str, service: str, findings: Mapping[str, str]) -> None:
    """Count findings. Errors are ignored, so that containers still start."""
    names = list(findings)
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        names = _count(os.path.join(folder, FILE), service, findings)
    for name in names:
        with contextlib.suppress(OSError):
            _log("service %s: %s: %s" % (service, name, findings[name][:_TEXT]))


def read(path: str) -> dict[str, Any]:
    """Return {service: {name: {count, last, text, said}}} since the boot. ``said`` is the time of the last line in the journal."""
    try:
        with open(path, encoding="utf-8") as stream:
            counts = json.load(stream)
    except (OSError, ValueError):
        return {}
    return counts if isinstance(counts, dict) else {}


def _count(path: str, service: str, findings: Mapping[str, str]) -> list[str]:
    """Count the findings. Return the names of the findings to write to the journal now."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        counted = read(path)
        if service not in counted and len(counted) >= _SERVICES:
            del counted[min(counted, key=lambda name_of_service: _last_time(counted[name_of_service]))]  # forget the service with the oldest finding
        counts = counted.setdefault(service, {})
        now, due = int(time.time()), []
        for name, text in findings.items():
            earlier = counts.get(name) or {}
            logged_at = int(earlier.get("said") or 0)
            if not logged_at <= now < logged_at + _LOG_EVERY_S:  # also true if the clock was set back
                logged_at = now
                due.append(name)
            counts[name] = {"count": int(earlier.get("count") or 0) + 1, "last": now, "text": text[:_TEXT], "said": logged_at}
        replace_json(path, counted)
    return due


def _last_time(counts: Mapping[str, Any]) -> int:
    return max((int(count.get("last") or 0) for count in counts.values()), default=0)


def _log(text: str) -> None:
    """Write one line to the journal. A container's labels may contain line breaks, so these become question marks."""
    import socket  # imported here: most containers have no finding

    text = "".join(character if character.isprintable() else "?" for character in text)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
        stream.settimeout(1)
        stream.connect(_JOURNAL)
        stream.send(("<%d>gpu-swarm-guard[%d]: %s" % (_WARNING, os.getpid(), text)).encode("utf-8", "replace"))
