# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services that would fit nowhere after a run has changed what nodes advertise (pure).

By the totals of the nodes, as if nothing were allocated: free resources change by themselves, a resource that no node has does not come back.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...module_utils._gpu.record import devices_of
from ...module_utils._placement.pending import required_free
from ...module_utils._policy import generic_resources

# The amount of each kind, by node id.
Totals = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Loss:
    """A service that would fit nowhere any more, why, and the kinds that it reserves."""

    service: str
    text: str
    kinds: frozenset[str]


def losses(ledger: Any, changes: Mapping[str, Mapping[str, int]], joining: Sequence[Mapping[str, int]] = ()) -> list[Loss]:
    """The services of the ledger that fit somewhere now, and nowhere after the ``changes`` (by node id), not even on nodes that are ``joining``. A
    service that fits nowhere now loses nothing."""
    now = {node["id"]: totals(node) for node in (ledger or {}).get("nodes") or [] if is_open(node)}
    then = {**now, **{node_id: changed for node_id, changed in changes.items() if node_id in now}}
    # Whether a new node will meet a constraint is unknown.
    coming = {f"joining {number}": found for number, found in enumerate(joining)}
    groups = [_at_least(group, _named(ledger)) for group in (ledger or {}).get("reservations") or []]
    found = []
    for group in groups:
        why = _why(group, now, then, coming) or _too_little(group, groups, now, {**then, **coming})
        if why:
            found.append(Loss(group["service"], f"service {group['service']} ({_tasks(group['tasks'])}): {why}", frozenset(group["wants"])))
    return found


def _named(ledger: Any) -> set[str]:
    """The kinds with named resources."""
    nodes = (ledger or {}).get("nodes") or []
    return {kind for node in nodes for kind, entry in node["resources"].items() if entry["type"] == "named"}


def _at_least(group: Mapping[str, Any], named: set[str]) -> dict[str, Any]:
    """The group with the least that each of its tasks needs. A task that reserves 0 of a named kind takes all free ones, at least one."""
    wants = {kind: amount or (1 if kind in named else 0) for kind, amount in group["wants"].items()}
    return {**group, "wants": wants, "or_more": [kind for kind in wants if not group["wants"][kind]]}


def decided_totals(assessed: Mapping[str, Any], node: Mapping[str, Any] | None) -> dict[str, int]:
    """What a node will have of each kind. A missing or failed GPU still counts: it is no effect of the policy, and its owner has consented to it
    elsewhere."""
    wanted = generic_resources.parse(assessed["advertised"])
    counts = {kind: value if isinstance(value, int) else len(value) for kind, value in wanted.items()}
    failed = [one["uuid"] for one in assessed.get("left_out") or []]
    there = [uuid.lower() for gpu in assessed.get("gpus") or [] for uuid in _uuids(gpu) if gpu["uuid"] not in failed]
    for kind, entry in ((node or {}).get("resources") or {}).items():
        gpus = [devices_of(value.lower()) for value in entry["values"] or () if value.startswith(("GPU-", "MIG-"))]
        gone = [devices for devices in gpus if not all(any(uuid.startswith(one) for uuid in there) for one in devices)]
        if gone and assessed.get("gpus"):
            counts[kind] = min(counts.get(kind, 0) + len(gone), max(entry["total"], counts.get(kind, 0)))
    return counts


def totals(node: Mapping[str, Any]) -> dict[str, int]:
    return {kind: entry["total"] for kind, entry in node["resources"].items()}


def takes_away(loss: Loss, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(kind, 0) < before.get(kind, 0) for kind in loss.kinds)


def consented(service: str, allowed: Any) -> bool:
    """Whether the user consented to this loss: provision_allow_pending has names of services, or true for all."""
    if isinstance(allowed, str):
        allowed = True if allowed.lower() in ("true", "yes") else _split(allowed)
    return allowed is True or (isinstance(allowed, (list, tuple)) and service in allowed)


def without(rooms: Mapping[str, Any], found: Iterable[Loss], ignored: Any = None) -> dict[str, Any]:
    """The services that must still have room when the run ends. Without services that lose it by consent, and without those ``ignored`` by
    provision_ignore_pending (a list of names, or a text with commas)."""
    lost = {loss.service for loss in found}.union(_split(ignored) if isinstance(ignored, str) else ignored or ())
    return {service: room for service, room in rooms.items() if service not in lost}


def _split(names: str) -> list[str]:
    return [one.strip() for one in names.split(",")]


def refusal(found: Iterable[Loss]) -> str:
    lost = list(found)
    names = ", ".join(dict.fromkeys(loss.service for loss in lost))
    return (
        f"services would have no place under the new policy: {'; '.join(dict.fromkeys(loss.text for loss in lost))}. Keep the kind, have them "
        f"reserve another one first, or consent with provision_allow_pending: [{names}] (true for all). Then run this again."
    )


def is_open(node: Mapping[str, Any]) -> bool:
    """Whether the scheduler places tasks there, or will after this run."""
    return node["state"] == "ready" and (node.get("former_availability") or node["availability"]) == "active"


def _why(group: Mapping[str, Any], now: Totals, then: Totals, coming: Totals) -> str | None:
    """Why no task of the group would fit any more, or None. A task of a global service must fit on each of its nodes."""
    wants, able = group["wants"], group["able"]
    if group["nodes"] is not None:
        lost = [node for node in group["nodes"] if node in now and _fits(wants, now[node]) and not _fits(wants, then[node])]
        return f"{_tasks(len(lost))} would have no {_in_words(group)} on {'its node' if len(lost) == 1 else 'their nodes'}" if lost else None
    nodes = [node for node in now if able is None or node in able]
    after = [then[node] for node in nodes] + (list(coming.values()) if able is None else [])
    if not any(_fits(wants, now[node]) for node in nodes) or any(_fits(wants, one) for one in after):
        return None
    return f"no node that it may run on would have {_in_words(group)}"


def _too_little(group: Mapping[str, Any], groups: Iterable[Mapping[str, Any]], now: Totals, then: Totals) -> str | None:
    for kind in group["wants"]:
        reserved = sum(one["tasks"] * one["wants"].get(kind, 0) for one in groups)
        had, left = (sum(found.get(kind, 0) for found in nodes.values()) for nodes in (now, then))
        if left < min(reserved, had):
            return f"{reserved} {kind} are reserved, and {left} would be left"
    return None


def _fits(wants: Mapping[str, int], found: Mapping[str, int]) -> bool:
    """Whether a task fits. A task that reserves 0 of a kind needs at least one."""
    return all(found.get(kind, 0) >= required_free(amount) for kind, amount in wants.items())


def _in_words(group: Mapping[str, Any]) -> str:
    return " and ".join(kind if kind in group["or_more"] else f"{amount} {kind}" for kind, amount in group["wants"].items())


def _tasks(count: int) -> str:
    return f"{count} {'task' if count == 1 else 'tasks'}"


def _uuids(gpu: Mapping[str, Any]) -> list[str]:
    return [one["uuid"] for one in [gpu, *(gpu.get("mig_devices") or [])] if one.get("uuid")]
