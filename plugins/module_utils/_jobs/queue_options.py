# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the options of a job that concern its queue, and turns them into labels of its service (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._errors import Errors, GpuSwarmError
from .._ledger.owners import OWNER
from .._queue.queues import MOST_PRIORITY, duration_s, shown_duration
from .._queue.waiting import PRIORITY, TIME_LIMIT
from .._swarm.owned_labels import QUEUE

# The digest of a job ignores these labels. If they change in the definition, waiting work gets the new ones.
CHANGEABLE = {QUEUE: "queue", PRIORITY: "priority", OWNER: "owner"}
_DESCRIBED = {QUEUE: "queue", PRIORITY: "priority", TIME_LIMIT: "time limit"}
_NOTHING = "Nothing was submitted."


def check(errors: Errors, params: Mapping[str, Any]) -> None:
    """Add the errors of options that need a queue, or mean something else with a queue."""
    name, limit = params["name"], params.get("time_limit") or 0
    if params.get("priority") is not None and not params.get("queue"):
        errors.add("priority of the job %s needs a queue. Write one, such as queue: research, or remove priority. %s" % (name, _NOTHING))
    if params.get("queue") and limit > 0 and duration_s(shown_duration(limit)) is None:
        errors.add("time_limit of the job %s is %d seconds, which is too long for a queue. Write at most 9999999. %s" % (name, limit, _NOTHING))


def read_priority(name: str, option: str, value: int) -> int:
    if abs(value) > MOST_PRIORITY:
        remedy = "Write a whole number from -%d to %d" % (MOST_PRIORITY, MOST_PRIORITY)
        raise GpuSwarmError("%s of the job %s is %d. %s. %s" % (option, name, value, remedy, _NOTHING))
    return value


def labels(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of the job's service. Without a time limit, the limit of the queue counts."""
    values = {OWNER: params.get("owner"), QUEUE: params.get("queue"), PRIORITY: params.get("priority")}
    if params.get("queue") and params.get("time_limit"):
        values[TIME_LIMIT] = shown_duration(params["time_limit"])
    return {label: str(value) for label, value in values.items() if value not in (None, "")}


def described(of_service: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the options as pairs for a diff. ``of_service`` are the labels of a service."""
    return [(name, of_service[label]) for label, name in _DESCRIBED.items() if label in of_service]


def describe_changes(changed: Mapping[str, Mapping[str, tuple[str, str]]]) -> tuple[str, str]:
    """Return the changed labels for a diff, before and after. ``changed`` has (value, new value) by service and label."""
    before, after = [], []
    for service, labels_of_service in changed.items():
        for label, (former, new) in labels_of_service.items():
            before += ["%s: %s: %s\n" % (service, CHANGEABLE[label], former)] if former else []
            after += ["%s: %s: %s\n" % (service, CHANGEABLE[label], new)] if new else []
    return "".join(before), "".join(after)
