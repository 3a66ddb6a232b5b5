# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counts the guard's findings by service in a file under /run, and writes each to the journal at most once a minute.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from .._replace import replace_json

TYPE_CHECKING = False  # typing is not loaded: that would take a fifth of the time that all of this takes
if TYPE_CHECKING:
    from typing import Any, Mapping

FILE = "found.json"
_SERVICES = 200  # at most so many services are counted
_TEXT = 300
_SAY_EVERY_S = 60  # swarm retries a refused task every few seconds while its service exists
_JOURNAL = "/dev/log"
_WARNING = 28  # syslog's number for a daemon's warning


def add(folder: str, service: str, found: Mapping[str, str]) -> None:
    """Count findings. Errors are ignored, so that containers still start."""
    to_say = list(found)
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        to_say = _count(os.path.join(folder, FILE), service, found)
    for name in to_say:
        with contextlib.suppress(OSError):
            _say("service %s: %s: %s" % (service, name, found[name][:_TEXT]))


def read(path: str) -> dict[str, Any]:
    """Return {service: {name: {count, last, text, said}}} since the boot. ``said`` is the time of the last line in the journal."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _count(path: str, service: str, found: Mapping[str, str]) -> list[str]:
    """Count the findings and return the names of those that are due in the journal."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        counted = read(path)
        if service not in counted and len(counted) >= _SERVICES:
            del counted[min(counted, key=lambda one: _last(counted[one]))]  # forget the oldest: that service may be long gone
        of_service = counted.setdefault(service, {})
        now, due = int(time.time()), []
        for name, text in found.items():
            before = of_service.get(name) or {}
            said = int(before.get("said") or 0)
            if not said <= now < said + _SAY_EVERY_S:  # also if the clock was set back
                said = now
                due.append(name)
            of_service[name] = {"count": int(before.get("count") or 0) + 1, "last": now, "text": text[:_TEXT], "said": said}
        replace_json(path, counted)
    return due


def _last(of_service: Mapping[str, Any]) -> int:
    return max((int(one.get("last") or 0) for one in of_service.values()), default=0)


def _say(text: str) -> None:
    """Write one line to the journal. Labels of a container may contain line breaks, which become question marks."""
    import socket  # not on top: most containers are nothing to be reported

    text = "".join(one if one.isprintable() else "?" for one in text)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream:
        stream.settimeout(1)
        stream.connect(_JOURNAL)
        stream.send(("<%d>gpu-swarm-guard[%d]: %s" % (_WARNING, os.getpid(), text)).encode("utf-8", "replace"))
