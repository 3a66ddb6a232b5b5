# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks the options of a job that concern its queue and its nodes, and turns them into labels and members of a gang (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .._errors import Errors, GpuSwarmError
from .._ledger.owners import OWNER
from .._queue.gang_variables import HOST, INTERFACES, OURS
from .._queue.queue_state import MOST_MEMBERS
from .._queue.queues import MOST_PRIORITY, duration_s, shown_duration
from .._queue.waiting import GANG, PRIORITY, START_TIMEOUT, TIME_LIMIT
from .._swarm.owned_labels import QUEUE

MOST_SERVICES = 1000  # of a job
# The digest of a job ignores these labels. If the definition changes one of them, the waiting service of the job gets the new value.
CHANGEABLE = {QUEUE: "queue", PRIORITY: "priority", OWNER: "owner", START_TIMEOUT: "start_timeout"}
_DESCRIBED = {QUEUE: "queue", PRIORITY: "priority", TIME_LIMIT: "time limit", GANG: "gang", START_TIMEOUT: "start timeout"}
LONGEST_NAME = 47  # characters of the name of a job on several nodes; the name of each service also has the rank
_NOTHING = "Nothing was submitted."
# Users may not set these variables, because a member gets them when its queue admits it.
_SET_BY_QUEUE = [variable for variable in OURS if variable not in INTERFACES]


def check(errors: Errors, params: Mapping[str, Any], variables: Iterable[str]) -> None:
    """Add the errors of options that depend on ``queue`` or ``nodes``. ``variables`` are the names of the job's variables."""
    name, limit = params["name"], params.get("time_limit") or 0
    if params.get("queue"):
        if limit > 0 and duration_s(shown_duration(limit)) is None:
            errors.add("time_limit of the job %s is %d seconds, which is too long for a queue. Write at most 9999999. %s" % (name, limit, _NOTHING))
    else:
        used = {"priority": params.get("priority") is not None, "nodes": nodes_of(params) > 1}
        for option in [option for option, is_used in used.items() if is_used]:
            errors.add("%s of the job %s needs a queue. Write one, such as queue: research, or remove %s. %s" % (option, name, option, _NOTHING))
    if nodes_of(params) == 1:
        used = {"start_timeout": params.get("start_timeout") is not None, "same_model": params.get("same_model") is False}
        for option in [option for option, is_used in used.items() if is_used]:
            errors.add("%s of the job %s needs several nodes. Write nodes: 2 or more, or remove %s. %s" % (option, name, option, _NOTHING))
    else:
        _check_gang(errors, params, variables)


def _check_gang(errors: Errors, params: Mapping[str, Any], variables: Iterable[str]) -> None:
    name, nodes, networks = params["name"], nodes_of(params), params.get("networks") or []
    if len(name) > LONGEST_NAME:
        errors.add("The name of the job %s has %d characters. With nodes, write at most %d. %s" % (name, len(name), LONGEST_NAME, _NOTHING))
    own = sorted(set(variables).intersection(_SET_BY_QUEUE))
    if own:
        errors.add(
            "The job %s sets %s. With nodes, each member gets these variables when it starts. Remove them. %s" % (name, ", ".join(own), _NOTHING)
        )
    if "bridge" in networks or (HOST in networks and len(networks) > 1):
        errors.add(
            "networks of the job %s has %s. Its members reach each other on host or on overlay networks. Write one of these kinds. %s"
            % (name, ", ".join(networks), _NOTHING)
        )
    entries = len(params.get("array") or [{}])
    if entries * nodes > MOST_SERVICES:
        errors.add(
            "The job %s has %d entries on %d nodes each, which are %d services. Write at most %d. %s"
            % (name, entries, nodes, entries * nodes, MOST_SERVICES, _NOTHING)
        )


def nodes_of(params: Mapping[str, Any]) -> int:
    return params.get("nodes") or 1


def read_nodes(name: str, option: str, value: int) -> int:
    if not 1 <= value <= MOST_MEMBERS:
        raise GpuSwarmError("%s of the job %s is %d. Write a number from 1 to %d. %s" % (option, name, value, MOST_MEMBERS, _NOTHING))
    return value


def read_queue(name: str, option: str, value: str) -> str:
    if not value.strip():  # such as a variable without a value; the job would start at once, outside of each queue
        raise GpuSwarmError("%s of the job %s is empty. Write the name of a queue, or remove %s. %s" % (option, name, option, _NOTHING))
    return value


def read_start_timeout(name: str, option: str, value: int) -> int:
    if value < 1 or duration_s(shown_duration(value)) is None:
        raise GpuSwarmError("%s of the job %s is %d. Write seconds, from 1 to 9999999. %s" % (option, name, value, _NOTHING))
    return value


def read_priority(name: str, option: str, value: int) -> int:
    if abs(value) > MOST_PRIORITY:
        remedy = "Write a whole number from -%d to %d" % (MOST_PRIORITY, MOST_PRIORITY)
        raise GpuSwarmError("%s of the job %s is %d. %s. %s" % (option, name, value, remedy, _NOTHING))
    return value


def labels(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of the job's service. Without a label for the time limit, the queue's limit applies."""
    values = {OWNER: params.get("owner"), QUEUE: params.get("queue"), PRIORITY: params.get("priority")}
    if params.get("queue") and params.get("time_limit"):
        values[TIME_LIMIT] = shown_duration(params["time_limit"])
    if nodes_of(params) > 1 and params.get("start_timeout"):
        values[START_TIMEOUT] = shown_duration(params["start_timeout"])
    return {label: str(value) for label, value in values.items() if value not in (None, "")}


def networks(params: Mapping[str, Any]) -> list[str]:
    """Return the networks of the job. The default of a gang is the network of the hosts, because its members must reach each other."""
    return list(params.get("networks") or ([HOST] if nodes_of(params) > 1 else []))


def members(params: Mapping[str, Any], spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the specification of each member of the job's gang. The gang gets the name of ``spec``, the job's specification."""
    name, size = spec["Name"], nodes_of(params)
    form = "%s:%d/%d" if params.get("same_model", True) else "%s:%d/%d any"
    # With a virtual IP address, rank 0 could not listen on the address of its service.
    endpoint = {} if HOST in networks(params) else {"EndpointSpec": {"Mode": "dnsrr"}}
    return [
        dict(spec, Name="%s-%d" % (name, rank), Labels={**spec["Labels"], GANG: form % (name, rank, size)}, **endpoint) for rank in range(size)
    ]


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
