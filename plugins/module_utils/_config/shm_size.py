# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets and restores default-shm-size in daemon.json: how much shared memory a container gets. Every other byte stays unchanged (pure).

dockerd rereads the key at a reload. If the key is missing, dockerd keeps the old value until it restarts (moby daemon/reload_unix.go). No request
shows the value of the running daemon.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

from .._errors import ConfigError, GpuSwarmError
from .._policy.generic_resources import shorten
from . import json_text
from .daemon_json import decode_file, restore_member, set_at_path

KEY = "default-shm-size"
# In the record of daemon.json: the values that this collection wrote (several only after a kill), the user's value that it replaced (missing if the
# user had none), and whether a run with restart: never wrote it. The user may have written the value long after the first run, so it need not be in
# the original file.
ON_RECORD, REPLACED, NOT_LOADED = "shm_size", "shm_size_replaced", "shm_size_not_loaded"
_SIZE = re.compile(r"([0-9]{1,15})(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_LEAST, _MOST = 1024**2, 2**63 - 1  # less is a forgotten unit; Docker computes with 64 bits


def parse_size(text: Any) -> int | None:
    """Return a size of Docker in bytes. None if it is no text with a size of 1 MiB or more; dockerd refuses a number in daemon.json."""
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    size_in_bytes = int(match.group(1)) * _FACTORS[(match.group(2) or "").lower()] if match else 0
    return size_in_bytes if _LEAST <= size_in_bytes <= _MOST else None


def check_size(text: Any) -> None:
    """Raise GpuSwarmError if a node must not get this size. Empty means that the user's own setting stays."""
    if text not in (None, "") and parse_size(str(text)) is None:
        raise GpuSwarmError("default_shm_size is %s, but must be a size of 1m or more. Write it as 1g or 512m." % shorten(text))


def read_size(content: bytes | None, path: str) -> Any:
    """Return the value in the file; None if the key is missing."""
    return decode_file(content, path).doc.get(KEY)


def is_same(left: Any, right: Any) -> bool:
    """Return whether two values are the same size, such as 1g and 1024m."""
    return left == right or (parse_size(left) is not None and parse_size(left) == parse_size(right))


def set_size(content: bytes | None, path: str, size: str) -> bytes | None:
    """Return the file with this size. The same size in other words stays as it is."""
    if is_same(read_size(content, path), size):
        return content
    file = _decode_editable(content, path)
    return file.encode(set_at_path(file.text if file.text.strip() else "{}\n", [KEY], size))


def is_recorded(value: Any, recorded: Mapping[str, Any]) -> bool:
    """Return whether this collection wrote the value."""
    return any(is_same(value, size) for size in recorded.get(ON_RECORD, ()))


def replaced_by(content: bytes | None, path: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the record about the user's value that ``set_size`` replaces. ``recorded`` is the record of the last run."""
    doc = decode_file(content, path).doc
    if is_recorded(doc.get(KEY), recorded):
        return {key: value for key, value in recorded.items() if key == REPLACED}
    return {REPLACED: doc[KEY]} if KEY in doc else {}


def undo_size(content: bytes | None, path: str, recorded: Mapping[str, Any]) -> bytes | None:
    """Return the file with the user's value again. If someone has changed the value since, it stays."""
    if not is_recorded(read_size(content, path), recorded):
        return content
    file = _decode_editable(content, path)
    if REPLACED in recorded:
        return file.encode(set_at_path(file.text, [KEY], recorded[REPLACED]))
    return file.encode(restore_member(file.text, KEY, decode_file(None, path)))


def _decode_editable(content: bytes | None, path: str) -> Any:
    file = decode_file(content, path)
    if file.doc and sum(item.key == KEY for item in json_text.scan(file.text).items) > 1:
        raise ConfigError("%s: %s occurs more than once, and dockerd uses the last. Keep one of them, and run this again." % (path, KEY))
    return file
