# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans which GPUs of a swarm to test, and with which services (pure).

A check is a plain dict. One task tests one resource kind of one node, or one slot of this kind. The check of an untested kind contains the reason.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Sequence

from .._errors import GpuSwarmError
from .._gpu.record import is_slot
from .._guard.admission import PROBE
from .._ledger.unreserved import has_gpus
from .._policy.quantity import count_of
from .._swarm.isolation import ENFORCED
from . import guard_probes

PLANNED, PASSED, FAILED, UNTESTED = "planned", "passed", "failed", "untested"

# Labels of the test services, without the collection's prefix: the run that created the service, and the end of its time limit.
RUN, UNTIL = "verify", "verify-until"
NAME = PROBE

ALL = "all"
# AUTO tests one GPU of each resource kind. If the kind has slots, AUTO tests each slot, because only the node's record shows to which card a slot
# belongs.
AUTO = "auto"
MOST_SLOTS = 64  # the most checks of one resource kind of a node, except with ALL
_GPU = re.compile(r"(GPU|MIG)-")

# The allocation must take precedence over the image's own request. If the node has more GPUs than the task, a request for all GPUs tests
# the precedence. If the task has all GPUs of the node, a request for no GPU tests it.
WANTS_ALL, WANTS_NONE = "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void"
# Adds nvidia-smi to a task of any image.
UTILITY = "NVIDIA_DRIVER_CAPABILITIES=utility"
STOP_GRACE_NS = 1000000000
# The fields of a check that runs no task.
NO_GPUS: dict[str, Any] = {"count": 0, "others": 0, "reserved": []}
NONE_NAMED = "no named GPUs"

Check = Dict[str, Any]
# Picks this number of items from a list.
Choose = Callable[[Sequence[str], int], Iterable[str]]


class Extent(NamedTuple):
    """How much to test. ``gpus``: how many free GPUs of each resource kind to reserve. ``sample``: how many nodes to test. ``choose(list, k)`` picks
    these nodes."""

    gpus: Any
    sample: Any
    choose: Choose


class Guarded(NamedTuple):
    """The isolation levels of the guards, and the guarded kinds of memory (see ``guard_probes.memory_checks``). The keys of both are node ids."""

    levels: Mapping[str, Any] | None = None
    memory: Mapping[str, Any] | None = None


def checks(nodes: Sequence[Mapping[str, Any]], wanted: Iterable[str] | None, extent: Extent, guarded: Guarded) -> list[Check]:
    """Return the checks for the ledger's ``nodes``, in the order of ``wanted`` (ids; None for every node with GPUs)."""
    levels, memory = guarded.levels or {}, guarded.memory or {}
    by_id = {node["id"]: node for node in nodes}
    if wanted is None:
        wanted = [node["id"] for node in nodes if gpu_kinds(node) or _is_guarded(node, levels.get(node["id"]))]
    per_kind = _per_kind(extent.gpus)
    planned = [
        check
        for node_id in dict.fromkeys(wanted)
        for check in _checks_of(node_id, by_id.get(node_id), per_kind, levels.get(node_id), memory.get(node_id) or {})
    ]
    testable = list(dict.fromkeys(check["node"] for check in planned if check["state"] == PLANNED))
    chosen = set(extent.choose(testable, min(len(testable), _size(extent.sample, len(testable)))))
    return [check if check["state"] != PLANNED or check["node"] in chosen else _not_in_sample(check) for check in planned]


def _not_in_sample(check: Check) -> Check:
    return dict(check, state=UNTESTED, verdict="not in the sample", **NO_GPUS)


def gpu_kinds(node: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the node's kinds that name GPUs or MIG devices, with their entries in the ledger."""
    return {kind: entry for kind, entry in node["resources"].items() if any(_GPU.match(value) for value in entry["values"] or [])}


class _PerKind(NamedTuple):
    """The most GPUs and the most slots of each kind to test; None for all."""

    gpus: int | None
    slots: int | None


def _per_kind(gpus: Any) -> _PerKind:
    word = str(gpus).strip().lower()
    if word in (ALL, AUTO):
        return _PerKind(None, None) if word == ALL else _PerKind(1, MOST_SLOTS)
    if not re.fullmatch(r"[1-9][0-9]*", word):
        raise GpuSwarmError("gpus: %r is not a number of GPUs. Give a number such as 1, 'all', or 'auto'." % gpus)
    return _PerKind(int(word), int(word))


def _size(sample: Any, total: int) -> int:
    size = total if str(sample).strip().lower() == ALL else count_of(sample, total)
    if size is None:
        raise GpuSwarmError("sample: %r is not a number of nodes. Give a number such as 3, a percentage such as 10%%, or 'all'." % sample)
    return size


def _checks_of(
    node_id: str, node: Mapping[str, Any] | None, per_kind: _PerKind, level: str | None, memory: Mapping[str, Mapping[str, Any]]
) -> list[Check]:
    if node is None:
        return [_check(node_id, None, FAILED, "not in the swarm. Run fleet.gpu_swarm.provision for it")]
    if node["state"] != "ready":
        return [_check(node_id, node, FAILED, "%s according to the manager. Check its dockerd (journalctl -u docker)" % node["state"])]
    kinds = gpu_kinds(node)
    guarded = _is_guarded(node, level)
    if not kinds and not guarded:
        return [_check(node_id, node, UNTESTED, NONE_NAMED)]
    if node["availability"] != "active":
        return [_check(node_id, node, UNTESTED, "it takes no tasks (availability %s)" % node["availability"])]
    total = sum(entry["total"] for entry in kinds.values())
    checks_of_gpus = [check for kind in sorted(kinds) for check in _checks_of_kind(node, kind, len(kinds[kind]["free"]), per_kind, total)]
    if not guarded:
        return checks_of_gpus
    checks_of_memory = [_memory_check(node, level, probe) for probe in guard_probes.memory_checks(node, total, memory)]
    probes = [guard_probes.unreserved_check(kinds), *guard_probes.beside_checks(kinds, checks_of_gpus)]
    allocated = checks_of_gpus + checks_of_memory or [_check(node_id, node, UNTESTED, NONE_NAMED)]
    return allocated + [{**_check(node_id, node, PLANNED, ""), **probe, "level": level} for probe in probes]


def _memory_check(node: Mapping[str, Any], level: str | None, probe: Mapping[str, Any]) -> Check:
    """Return the check of a memory kind. ``reserved`` lists the expected cards, because swarm allocates only an amount."""
    identity = {"probe": probe["probe"], "kind": probe["kind"], "level": level}
    if probe["free"] < probe["count"]:
        return {**_check(node["id"], node, UNTESTED, "nothing free to test with"), **identity}
    gpus = {"count": probe["count"], "others": probe["others"], "reserved": probe["expected"]}
    return {**_check(node["id"], node, PLANNED, ""), **identity, **gpus}


def _is_guarded(node: Mapping[str, Any], level: str | None) -> bool:
    """Return whether the node has GPUs and a guard that enforces a level. The node may advertise only the memory of its GPUs."""
    return level in ENFORCED and has_gpus(node)


def _checks_of_kind(node: Mapping[str, Any], kind: str, free: int, per_kind: _PerKind, total: int) -> list[Check]:
    if not free:
        return [dict(_check(node["id"], node, UNTESTED, "nothing free to test with"), kind=kind)]
    # One task per slot: a task with two slots might get two cards, which the guard may refuse.
    has_slots = any(map(is_slot, node["resources"][kind]["values"]))
    most = per_kind.slots if has_slots else per_kind.gpus
    count = free if most is None else min(most, free)
    counts = [1] * count if has_slots else [count]
    planned = [{**_check(node["id"], node, PLANNED, ""), "kind": kind, "count": number, "others": total - number} for number in counts]
    if has_slots and most == MOST_SLOTS < free:
        planned.append(dict(_check(node["id"], node, UNTESTED, "%d more slots; verify_gpus: all tests them too" % (free - count)), kind=kind))
    return planned


def _check(node_id: str, node: Mapping[str, Any] | None, state: str, verdict: str) -> Check:
    """Return a check of a node. The check has no GPUs yet."""
    return {
        "node": node_id,
        "hostname": node["hostname"] if node else None,
        "probe": guard_probes.ALLOCATED,
        "level": None,
        "variables": [],
        "kind": None,
        **NO_GPUS,
        "seen": [],
        "image": None,
        "state": state,
        "verdict": verdict,
    }


def argv(command: str) -> list[str]:
    """Return a command line as the list of words for a container."""
    try:
        words = shlex.split(command)
    except ValueError as exc:
        raise GpuSwarmError("command: %r cannot be split into words: %s. Close its quotes." % (command, exc)) from exc
    if not words:
        raise GpuSwarmError("command: it is empty. Give a command that lists the GPUs that a task sees, such as 'nvidia-smi -L'.")
    return words


def service(check: Check, name: str, labels: Mapping[str, str], command: Sequence[str], replicas: int = 1) -> dict[str, Any]:
    """Return the specification of a test service. Its tasks reserve the GPUs of a check on the check's node, and print the GPUs that they see."""
    requests = ["%s=%s" % (name, ALL) for name in check["variables"]] or [WANTS_ALL if check["others"] else WANTS_NONE]
    reservation = [{"DiscreteResourceSpec": {"Kind": check["kind"], "Value": check["count"]}}] if check["count"] else []
    return {
        "Name": name,
        "Labels": labels,
        "Mode": {"Replicated": {"Replicas": replicas}},
        "TaskTemplate": {
            # Replaces the entrypoint, because the entrypoint of CUDA's images prints a page of text first.
            "ContainerSpec": {
                "Image": check["image"]["reference"],
                "Command": command,
                "Env": [*requests, UTILITY],
                "StopGracePeriod": STOP_GRACE_NS,
            },
            "Resources": {"Reservations": {"GenericResources": reservation}},
            "Placement": {"Constraints": ["node.id==%s" % check["node"]]},
            "RestartPolicy": {"Condition": "none"},
            # Logs of the daemon's default driver may not be readable.
            "LogDriver": {"Name": "json-file"},
        },
    }


def abandoned_services(services: Iterable[Mapping[str, Any]], prefix: str, now: float) -> list[str]:
    """Return the ids of test services from killed runs. These services have this collection's label, and their time limit has passed."""
    service_ids = []
    for service in services:
        until = (service["Spec"].get("Labels") or {}).get(prefix + UNTIL, "")
        if until.isdigit() and int(until) < now:
            service_ids.append(service["ID"])
    return service_ids
