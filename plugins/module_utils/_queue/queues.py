# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the setting ``gpu_swarm_queues``, and keeps the queues in a label of the swarm (pure).

``{"research": {"weight": 3, "max": {"NVIDIA-GPU": 24}, "per_owner": {"NVIDIA-GPU": 8}, "time_limit": "24h"}}``

The label has the same form as the setting, as JSON without the defaults. Everyone who may use a manager's socket can write the label, so it is
checked like the setting.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any, Dict, Mapping, NamedTuple

from .._errors import TOO_DEEP, Errors, GpuSwarmError
from .._policy.forms import check_kind
from .._policy.generic_resources import shorten
from .._swarm.owned_labels import QUEUES

LABEL = QUEUES
SETTING = "gpu_swarm_queues"
MOST_QUEUES, MOST_KINDS, MOST_AMOUNT = 32, 8, 10**6
MOST_WEIGHT, MOST_PRIORITY = 1000, 1000
LONGEST_LABEL = 32 * 1024  # characters
DAY_S = 86400
NO_LIMIT = "none"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_DURATION = re.compile(r"([0-9]{1,7})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY_S}


class Queue(NamedTuple):
    """``most`` and ``per_owner`` are amounts by resource kind; a kind that is missing has no cap. ``time_limit_s`` is None without a limit."""

    name: str
    weight: float = 1
    most: Mapping[str, int] = MappingProxyType({})
    per_owner: Mapping[str, int] = MappingProxyType({})
    priority: int = 0
    time_limit_s: int | None = DAY_S


Queues = Dict[str, Queue]


def check_queues(setting: Any) -> Queues:
    """Return the queues of the setting. Raises one error that lists all problems."""
    if not isinstance(setting, dict):
        raise GpuSwarmError("%s is %s. Write a dictionary, such as {research: {weight: 3}}." % (SETTING, shorten(setting)))
    if len(setting) > MOST_QUEUES:
        raise GpuSwarmError("%s has %d queues, and may have %d. Remove some of them." % (SETTING, len(setting), MOST_QUEUES))
    errors = Errors()
    queues = [errors.collect(_queue, name, options) for name, options in setting.items()]
    errors.refuse()
    return {queue.name: queue for queue in sorted(queues)}


def duration_s(text: Any) -> int | None:
    """Return a duration such as ``8h`` in seconds; None for 0, and for text that is no duration."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    return int(match.group(1)) * _SECONDS[match.group(2)] or None if match else None


def shown_duration(seconds: float) -> str:
    """Return the duration in its largest whole unit, such as ``8h``. One day is ``24h``."""
    unit = next(unit for unit in ("d", "h", "m", "s") if unit == "s" or (seconds % _SECONDS[unit] == 0 and (unit != "d" or seconds > DAY_S)))
    return "%d%s" % (seconds // _SECONDS[unit], unit)


def to_label(queues: Queues) -> str:
    """Return the value of the swarm's label. Raises GpuSwarmError if it is too long."""
    text = json.dumps({name: _without_defaults(queue) for name, queue in queues.items()}, sort_keys=True, separators=(",", ":"))
    if len(text) > LONGEST_LABEL:
        raise GpuSwarmError("%s takes %d characters in the swarm, and may take %d. Remove queues." % (SETTING, len(text), LONGEST_LABEL))
    return text


def from_label(text: str | None) -> Queues:
    """Return the queues of the swarm's label; {} without a label. Raises GpuSwarmError if the label is unreadable."""
    if not text:
        return {}
    try:
        if len(text) > LONGEST_LABEL:
            raise ValueError("it is too long")
        return check_queues(json.loads(text))
    except RecursionError:
        reason = TOO_DEEP
    except (ValueError, GpuSwarmError) as problem:
        reason = str(problem).partition("\n")[0]
    raise GpuSwarmError("The label %s of the swarm is unreadable: %s. Run provision to write it again." % (LABEL, reason.rstrip(".")))


def _without_defaults(queue: Queue) -> dict[str, Any]:
    default = Queue(queue.name)
    limit = NO_LIMIT if queue.time_limit_s is None else shown_duration(queue.time_limit_s)
    written = {
        "weight": (queue.weight, default.weight),
        "max": (dict(queue.most), default.most),
        "per_owner": (dict(queue.per_owner), default.per_owner),
        "priority": (queue.priority, default.priority),
        "time_limit": (limit, shown_duration(DAY_S)),
    }
    return {option: value for option, (value, usual) in written.items() if value != usual}


# -- the options of one queue ----------------------------------------------------------------------------------------


def _queue(name: Any, options: Any) -> Queue:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise GpuSwarmError(
            "%s: %s is not a valid name of a queue. Write at most 32 small letters, digits, - and _ that begin with a letter or digit."
            % (SETTING, shorten(name))
        )
    if options is None:
        options = {}
    if not isinstance(options, dict):
        raise GpuSwarmError("%s: the queue %s is %s. Write a dictionary, such as {weight: 3}." % (SETTING, name, shorten(options)))
    errors = Errors()
    for option in options:
        if option not in _READERS:
            errors.add("%s: the queue %s has the option %s. The options are %s." % (SETTING, name, shorten(option), ", ".join(_READERS)))
    found = {field: errors.collect(read, name, option, options[option]) for option, (field, read) in _READERS.items() if option in options}
    errors.refuse()
    return Queue(name, **found)


def _problem(name: str, option: str, value: Any, remedy: str) -> GpuSwarmError:
    return GpuSwarmError("%s: %s of the queue %s is %s. %s" % (SETTING, option, name, shorten(value), remedy))


def _weight(name: str, option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_WEIGHT:
        raise _problem(name, option, value, "Write a number above 0, at most %d." % MOST_WEIGHT)
    return value


def _amounts(name: str, option: str, value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or len(value) > MOST_KINDS:
        raise _problem(name, option, value, "Write amounts of at most %d resource kinds, such as {NVIDIA-GPU: 8}." % MOST_KINDS)
    for kind, amount in value.items():
        check_kind(kind, "%s: %s of the queue %s" % (SETTING, option, name))
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= MOST_AMOUNT:
            raise _problem(name, "%s.%s" % (option, kind), amount, "Write a whole number from 0 to %d." % MOST_AMOUNT)
    return dict(sorted(value.items()))


def _priority(name: str, option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_PRIORITY:
        raise _problem(name, option, value, "Write a whole number from -%d to %d." % (MOST_PRIORITY, MOST_PRIORITY))
    return value


def _time_limit(name: str, option: str, value: Any) -> int | None:
    if value == NO_LIMIT:
        return None
    seconds = duration_s(value)
    if seconds is None:
        raise _problem(name, option, value, "Write a duration such as 90s, 30m, 24h or 7d, or none.")
    return seconds


_READERS = {
    "weight": ("weight", _weight),
    "max": ("most", _amounts),
    "per_owner": ("per_owner", _amounts),
    "priority": ("priority", _priority),
    "time_limit": ("time_limit_s", _time_limit),
}
