# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the label that forbids moving a service's tasks (pure). The owner of a service sets this label.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

KEY = "gpu-swarm.keep"
OPTION = {"keep_label": {"type": "str", "default": KEY}}

ALWAYS, NOT_AT_ALL = float("inf"), 0.0
_WORDS = {"": ALWAYS, "true": ALWAYS, "false": NOT_AT_ALL}
_AGE = re.compile(r"(\d+)\s*([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def blocking_label(service: Mapping[str, Any] | None, age: int | None, key: str) -> str | None:
    """Return the service's label, as KEY=VALUE, if it forbids moving a task of this age (seconds); otherwise None.

    An unreadable value also forbids the move, because an owner who mistyped an age did not want the task to be moved at once.
    """
    value = ((service or {}).get("Spec", {}).get("Labels") or {}).get(key)
    if value is None:
        return None
    protected = seconds(value)
    if protected is not None and protected <= (0 if age is None else age):
        return None
    return "%s=%s" % (key, value)


def seconds(value: str) -> float | None:
    """Return the age in seconds up to which a label with this value protects a task; None if the value is unreadable."""
    word = value.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    age = _AGE.match(word)
    return float(age.group(1)) * _SECONDS[age.group(2)] if age else None


def is_readable(label: str) -> bool:
    """Return whether a label that ``blocking_label`` returned has a readable value."""
    return seconds(label.partition("=")[2]) is not None  # the key of a label contains no equals sign


def may_be_moved(record: Mapping[str, Any]) -> bool:
    """Return whether swarm would start a replacement for this task of the ledger, and the owner allows it."""
    return bool(record["movable"]) and not record.get("kept")
