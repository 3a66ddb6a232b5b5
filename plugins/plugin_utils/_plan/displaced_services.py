# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the services that would fit nowhere after a run has changed what nodes advertise (pure).

This code compares the totals of the nodes, as if nothing were allocated. Free resources change by themselves, but a resource that no node has any
more does not return.
Private to this collection; it may change without notice.
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
    """A service that would fit nowhere any more, the reason, and the kinds that the service reserves."""

    service: str
    text: str
    kinds: frozenset[str]


def losses(ledger: Any, changes: Mapping[str, Mapping[str, int]], joining: Sequence[Mapping[str, int]] = ()) -> list[Loss]:
    """Return the services of the ledger that fit somewhere now, but nowhere after the ``changes`` (by node id). ``joining`` are new nodes, which may
    have room too. A service that already fits nowhere loses nothing.
    """
    before = {node["id"]: totals(node) for node in (ledger or {}).get("nodes") or [] if is_open(node)}
    after = {**before, **{node_id: changed for node_id, changed in changes.items() if node_id in before}}
    # Whether a new node will meet a constraint is unknown.
    joining_totals = {f"joining {number}": result for number, result in enumerate(joining)}
    groups = [_at_least(group, _named_kinds(ledger)) for group in (ledger or {}).get("reservations") or []]
    result = []
    for group in groups:
        reason = _displacement_reason(group, before, after, joining_totals) or _shortage(group, groups, before, {**after, **joining_totals})
        if reason:
            result.append(Loss(group["service"], f"service {group['service']} ({_tasks(group['tasks'])}): {reason}", frozenset(group["wants"])))
    return result


def _named_kinds(ledger: Any) -> set[str]:
    """Return the kinds with named resources."""
    nodes = (ledger or {}).get("nodes") or []
    return {kind for node in nodes for kind, entry in node["resources"].items() if entry["type"] == "named"}


def _at_least(group: Mapping[str, Any], named_kinds: set[str]) -> dict[str, Any]:
    """Return the group with the minimum that each of its tasks needs. A task that reserves 0 of a named kind takes all free resources, at least one.
    """
    wants = {kind: amount or (1 if kind in named_kinds else 0) for kind, amount in group["wants"].items()}
    return {**group, "wants": wants, "takes_all": [kind for kind in wants if not group["wants"][kind]]}


def decided_totals(assessed: Mapping[str, Any], node: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the amount of each kind that a node will have. Include missing and failed GPUs, because the policy did not remove them. Another setting
    asks for the user's consent to the loss of a GPU.
    """
    wanted = generic_resources.parse(assessed["advertised"])
    counts = {kind: value if isinstance(value, int) else len(value) for kind, value in wanted.items()}
    failed = [card["uuid"] for card in assessed.get("left_out") or []]
    uuids = [uuid.lower() for gpu in assessed.get("gpus") or [] for uuid in _uuids(gpu) if gpu["uuid"] not in failed]
    for kind, entry in ((node or {}).get("resources") or {}).items():
        gpus = [devices_of(value.lower()) for value in entry["values"] or () if value.startswith(("GPU-", "MIG-"))]
        missing = [devices for devices in gpus if not all(any(uuid.startswith(device) for uuid in uuids) for device in devices)]
        if missing and assessed.get("gpus"):
            counts[kind] = min(counts.get(kind, 0) + len(missing), max(entry["total"], counts.get(kind, 0)))
    return counts


def totals(node: Mapping[str, Any]) -> dict[str, int]:
    return {kind: entry["total"] for kind, entry in node["resources"].items()}


def reduces(loss: Loss, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(kind, 0) < before.get(kind, 0) for kind in loss.kinds)


def consented(service: str, allowed: Any) -> bool:
    """Return whether the user consented to this loss: provision_allow_pending has names of services, or true for all."""
    if isinstance(allowed, str):
        allowed = True if allowed.lower() in ("true", "yes") else _split(allowed)
    return allowed is True or (isinstance(allowed, (list, tuple)) and service in allowed)


def rooms_to_keep(rooms: Mapping[str, Any], lost_services: Iterable[Loss], ignored: Any = None) -> dict[str, Any]:
    """Return the services that must still have room when the run ends.

    Exclude services that lose their room by consent, and services that provision_ignore_pending lists (``ignored``, a list of names or a text with
    commas).
    """
    ignored_services = {loss.service for loss in lost_services}.union(_split(ignored) if isinstance(ignored, str) else ignored or ())
    return {service: room for service, room in rooms.items() if service not in ignored_services}


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


def refusal(lost_services: Iterable[Loss]) -> str:
    lost_list = list(lost_services)
    names = ", ".join(dict.fromkeys(loss.service for loss in lost_list))
    return (
        f"services could not be placed under the new policy: {'; '.join(dict.fromkeys(loss.text for loss in lost_list))}. Keep the kind, first "
        f"let the services reserve another kind, or consent with provision_allow_pending: [{names}] (true for all). Then run this again."
    )


def is_open(node: Mapping[str, Any]) -> bool:
    """Return whether the scheduler places tasks on this node, or will place tasks there after this run."""
    return node["state"] == "ready" and (node.get("former_availability") or node["availability"]) == "active"


def _displacement_reason(group: Mapping[str, Any], before: Totals, after_change: Totals, joining_totals: Totals) -> str | None:
    """Return why no task of the group would fit any more, or None. A task of a global service must fit on each of its nodes."""
    wants, feasible = group["wants"], group["able"]
    if group["nodes"] is not None:
        lost = [node for node in group["nodes"] if node in before and _fits(wants, before[node]) and not _fits(wants, after_change[node])]
        return f"{_tasks(len(lost))} would have no {_describe_wants(group)} on {'its node' if len(lost) == 1 else 'their nodes'}" if lost else None
    nodes = [node for node in before if feasible is None or node in feasible]
    after = [after_change[node] for node in nodes] + (list(joining_totals.values()) if feasible is None else [])
    if not any(_fits(wants, before[node]) for node in nodes) or any(_fits(wants, amounts) for amounts in after):
        return None
    return f"no node that it may run on would have {_describe_wants(group)}"


def _shortage(group: Mapping[str, Any], groups: Iterable[Mapping[str, Any]], before: Totals, after: Totals) -> str | None:
    for kind in group["wants"]:
        reserved = sum(other["tasks"] * other["wants"].get(kind, 0) for other in groups)
        total_before, total_after = (sum(amounts.get(kind, 0) for amounts in nodes.values()) for nodes in (before, after))
        if total_after < min(reserved, total_before):
            return f"{reserved} {kind} are reserved, and {total_after} would be left"
    return None


def _fits(wants: Mapping[str, int], amounts: Mapping[str, int]) -> bool:
    """Return whether a task fits. A task that reserves 0 of a kind needs at least one."""
    return all(amounts.get(kind, 0) >= required_free(amount) for kind, amount in wants.items())


def _describe_wants(group: Mapping[str, Any]) -> str:
    return " and ".join(kind if kind in group["takes_all"] else f"{amount} {kind}" for kind, amount in group["wants"].items())


def _tasks(count: int) -> str:
    return f"{count} {'task' if count == 1 else 'tasks'}"


def _uuids(gpu: Mapping[str, Any]) -> list[str]:
    return [device["uuid"] for device in [gpu, *(gpu.get("mig_devices") or [])] if device.get("uuid")]
