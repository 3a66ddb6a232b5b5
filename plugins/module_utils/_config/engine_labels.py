# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets and removes one engine label in daemon.json. Every other byte stays unchanged.

dockerd rereads ``labels`` at a reload. If the key is missing, dockerd keeps its present labels. An empty list removes the present labels. If one
label has two values, the reload fails (moby opts/opts.go, daemon/reload.go).
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Sequence

from .._errors import ConfigError
from . import json_text
from .daemon_json import decode_file, describe_type, replace_entries, set_at_path

LABELS = "labels"
# A reload resets the value of such a flag, or the reload fails because of the flag (moby daemon/reload.go). With --label, dockerd does not start if
# daemon.json has labels too.
BLOCKING = ("--label", "--authorization-plugin", "--max-concurrent-downloads", "--max-concurrent-uploads", "--max-download-attempts")


def blocking_flags(flags: Sequence[str]) -> list[str]:
    """Return the flags of dockerd that prevent a change of its labels while dockerd runs."""
    names = [word.partition("=")[0] for word in flags]
    return [name for name in BLOCKING if name in names]


def read_label(content: bytes | None, path: str, key: str) -> str | None:
    """Return the value of a label in the file; None if the label is missing."""
    entries = [entry for entry in _read_entries(content, path) if _has_key(entry, key)]
    return entries[-1].partition("=")[2] if entries else None


def set_label(content: bytes | None, path: str, key: str, label: str) -> bytes:
    """Return the file with this label. The other labels stay as they are."""
    before = _read_entries(content, path)
    file, entry = decode_file(content, path), "%s=%s" % (key, label)
    text = file.text if file.text.strip() else "{}\n"
    item = json_text.scan(text).find(LABELS)
    if item is None:
        return file.encode(set_at_path(text, [LABELS], [entry]))
    return file.encode(replace_entries(text, item, [element for element in before if _has_key(element, key)], [entry]))


def without_label(content: bytes | None, path: str, key: str) -> bytes | None:
    """Return the file without this label. Keep the list even if it is empty, so that a reload removes the label from the running daemon."""
    own_entries = [element for element in _read_entries(content, path) if _has_key(element, key)]
    if not own_entries:
        return content
    file = decode_file(content, path)
    return file.encode(replace_entries(file.text, json_text.scan(file.text).find(LABELS), own_entries, []))


def undo_label(content: bytes | None, path: str, key: str, original: bytes | None) -> bytes | None:
    """Return the file without this label. Also remove the list if it is empty and did not exist before."""
    content = without_label(content, path, key)
    if content is None or _read_entries(content, path) or LABELS in decode_file(original, path).doc:
        return content
    file = decode_file(content, path)
    box = json_text.scan(file.text) if file.doc else None
    return file.encode(json_text.remove_member(file.text, box, LABELS)) if box and box.find(LABELS) else content


def _has_key(entry: str, key: str) -> bool:
    return entry.partition("=")[0] == key


def _read_entries(content: bytes | None, path: str) -> list[str]:
    file = decode_file(content, path)
    listed = file.doc.get(LABELS, [])
    twice = bool(file.doc) and sum(item.key == LABELS for item in json_text.scan(file.text).items) > 1
    if not twice and isinstance(listed, list) and all(isinstance(element, str) for element in listed):
        return listed
    fault = "occurs more than once" if twice else "is %s" % describe_type(listed)
    raise ConfigError('%s: labels %s, but dockerd expects one list of strings such as ["rack=r1"]. Fix the file, and run this again.' % (path, fault))
