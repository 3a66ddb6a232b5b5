# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads dockerd's records of a container and of its task. They contain labels that no service can forge, and the resources that swarm assigned.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import os
import re

from . import bolt, task_record
from .task_record import TaskRecord

TYPE_CHECKING = False  # typing is not imported: that would take a fifth of the guard's run time
if TYPE_CHECKING:
    from typing import Any, Iterator, Mapping

_CONFIG = "config.v2.json"
_TASKS = os.path.join("swarm", "worker", "tasks.db")
_BUCKETS = (b"v1", b"tasks")
_REMAPPED = re.compile(r"[0-9]+\.[0-9]+")  # with userns-remap, the name of dockerd's directory is a user id and a group id


class EngineRecordError(Exception):
    """dockerd's record of the container cannot be read."""


def labels(data_root: str, container: str) -> dict[str, str]:
    """Return the container's labels. Raises EngineRecordError."""
    path, stored = _read(data_root, container)
    try:
        return {str(key): str(value) for key, value in ((stored.get("Config") or {}).get("Labels") or {}).items()}
    except AttributeError as problem:
        raise EngineRecordError("%s: %s" % (path, problem)) from problem


def is_by_hand(data_root: str, container: str) -> bool:
    """Return whether somebody created the container with Docker, not swarm. Raises EngineRecordError.

    The labels do not say that: 'docker run' can set the label of a task, and an image may have it.
    """
    return _read(data_root, container)[1].get("Managed") is False


def _read(data_root: str, container: str) -> tuple[str, dict[str, Any]]:
    path = os.path.join(data_root, "containers", container, _CONFIG)
    try:
        with open(path, "rb") as stream:
            return path, dict(json.loads(stream.read().decode("utf-8", "replace")))
    except (OSError, ValueError, TypeError) as problem:
        raise EngineRecordError("%s: %s" % (path, problem)) from problem


def data_roots(known_root: str, document: Mapping[str, Any], container: str) -> Iterator[str]:
    """Yield the directories where dockerd's data may be: first the directory in the guard's settings, then the directories in the container's
    mounts."""
    yield known_root
    inside = "%scontainers%s%s%s" % (os.sep, os.sep, container, os.sep)
    mounts = document.get("mounts")
    for mount in mounts if isinstance(mounts, list) else []:
        source = mount.get("source") if isinstance(mount, dict) else None
        root, separator, dummy = source.partition(inside) if isinstance(source, str) else ("", "", "")
        if separator and root != known_root:
            yield root


def is_remapped(data_root: str) -> bool:
    """Return whether containers have a user namespace of their own (``userns-remap``)."""
    return bool(_REMAPPED.fullmatch(os.path.basename(data_root)))


def task(data_root: str, name: str) -> TaskRecord | None:
    """Return the record that swarm's agent has of a task, or None. Raises BoltError, RecordError or OSError."""
    paths = [os.path.join(data_root, _TASKS)]
    if is_remapped(data_root):
        paths.append(os.path.join(os.path.dirname(data_root), _TASKS))
    existing = [path for path in paths if os.path.exists(path)] or paths
    data = bolt.read(existing[0], (*_BUCKETS, name.encode("utf-8", "surrogateescape")), b"data")
    return None if data is None else task_record.parse(data)
