# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the owner of a service lets its tasks be moved, by a label of the service (pure).

Private to this collection: no stability is promised to others.
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


def kept_by(service: Mapping[str, Any] | None, age: int | None, key: str) -> str | None:
    """The service's label, as KEY=VALUE, that keeps a task of this age (in seconds) where it is; None if none does.

    What cannot be read keeps it: an owner who mistyped an age did not mean that the task may be moved at once.
    """
    value = ((service or {}).get("Spec", {}).get("Labels") or {}).get(key)
    if value is None:
        return None
    until = seconds(value)
    if until is not None and until <= (0 if age is None else age):
        return None
    return "%s=%s" % (key, value)


def seconds(value: str) -> float | None:
    """Up to which age a task is kept by a label of this value; None where that cannot be read."""
    word = value.strip().lower()
    if word in _WORDS:
        return _WORDS[word]
    age = _AGE.match(word)
    return float(age.group(1)) * _SECONDS[age.group(2)] if age else None


def is_readable(label: str) -> bool:
    """Of a label as kept_by returns it. A key has no equals sign."""
    return seconds(label.partition("=")[2]) is not None


def may_be_moved(record: Mapping[str, Any]) -> bool:
    """Of the record of a task: whether swarm starts another one in its place, and its owner lets it."""
    return bool(record["movable"]) and not record.get("kept")
