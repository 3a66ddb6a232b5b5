# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which nodes to pause for a fault that they report (pure). Takes the manager's list of nodes, and returns the pauses and the alarms.

A node writes its report into a label of its own engine, and may lie. A lie can only pause the node itself, and the number of pauses is limited.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._health.label import REPORT, fault_of, is_like_fault, is_same_fault, reported_label
from .._ledger.node_labels import is_labelled
from .._ledger.pause_limit import ON_LOSS, most_of
from .._ledger.unreserved import names_gpus
from .._placement.availability import ACTIVE, FORMER, paused_for
from .._policy import generic_resources
from .._swarm.owned_labels import PAUSED_FOR, PREFIX

# The reason if somebody decided that the node stays in service.
RETURNED = "it was paused for this fault before, and a run or a person has returned it to service"
# The leader acts at once. The other managers act later, in the order of their ids. This is the delay between two managers (seconds).
TURN_S = 30.0


class Memory(NamedTuple):
    """What one poll remembers for the next poll, by node id."""

    reported: Mapping[str, tuple[str, float]] = {}  # the fault that an active node reports, and when this process first read the report
    handled: Mapping[str, str] = {}  # the fault that the node was paused for, kept while the node still reports a fault
    repeated: Mapping[str, str] = {}  # the same kind of fault, reported again while the node was paused


class Decision(NamedTuple):
    """``pause`` are nodes of the API, each with its fault. ``alarms`` has the reasons why nodes with a fault are not paused, by node id.

    ``turn_s``: how long this manager waits if other managers may act on a fault first (seconds).
    """

    pause: Sequence[tuple[Mapping[str, Any], str]]
    alarms: Mapping[str, str]
    turn_s: float | None = None


def decide(nodes: Sequence[Mapping[str, Any]], own_id: str, percent: int, memory: Memory, now: float) -> tuple[Decision, Memory]:
    """Return the decision of this manager (``own_id``), and the memory for the next poll. At most ``percent`` of the GPU nodes are paused."""
    memory = _remember(nodes, memory, now)
    turns = {node_id: since + _delay_s(nodes, own_id) - now for node_id, (_fault, since) in memory.reported.items()}
    due = [node for node in nodes if turns.get(node["ID"], 1) <= 0]
    alarms: dict[str, str] = {}
    candidates = []
    for node in sorted(due, key=lambda node: (memory.reported[node["ID"]][1], node["ID"])):
        reason = _why_not_paused(node, memory)
        if reason:
            alarms[node["ID"]] = reason
        else:
            candidates.append(node)
    most, paused = limit(nodes, percent), sum(is_paused_for_a_fault(node) and _is_up(node) for node in nodes)
    room = max(0, most - paused)
    limit_reached = "%d of the %d GPU nodes are already paused for a fault, which is the limit (%d %%)" % (max(paused, most), watched(nodes), percent)
    alarms.update({node["ID"]: limit_reached for node in candidates[room:]})
    turn_s = min((seconds for seconds in turns.values() if seconds > 0), default=None)
    return Decision([(node, memory.reported[node["ID"]][0]) for node in candidates[:room]], alarms, turn_s), memory


def limit(nodes: Iterable[Mapping[str, Any]], percent: int) -> int:
    """Return how many nodes may be paused for a fault at a time."""
    return most_of(watched(nodes), percent)


def watched(nodes: Iterable[Mapping[str, Any]]) -> int:
    """Return how many nodes advertise GPUs or have a watcher's report.

    This function counts both, because under an old leader a watcher with running tasks reports only faults. Nodes without GPUs are not counted:
    otherwise the limit of a large swarm could include all GPU nodes. Nodes that are down are not counted either: they take no tasks, and their report
    is old.
    """
    return sum(bool(reported_label(node) or _has_gpus(node)) and _is_up(node) for node in nodes)


def _has_gpus(node: Mapping[str, Any]) -> bool:
    """Return whether the node advertises GPUs: its resources name GPUs, or its labels describe GPUs.

    Generic resources alone are not enough, because they can be other devices.
    """
    advertised = ((node.get("Description") or {}).get("Resources") or {}).get("GenericResources")
    labels = (node.get("Spec") or {}).get("Labels") or {}
    return bool(advertised) and (is_labelled(labels) or any(map(names_gpus, generic_resources.from_info(advertised).values())))


def is_paused_for_a_fault(node: Mapping[str, Any]) -> bool:
    return paused_for(node["Spec"], PREFIX) is not None


def _is_up(node: Mapping[str, Any]) -> bool:
    return node.get("Status", {}).get("State") != "down"


def _remember(nodes: Iterable[Mapping[str, Any]], before: Memory, now: float) -> Memory:
    reported: dict[str, tuple[str, float]] = {}
    handled: dict[str, str] = {}
    repeated: dict[str, str] = {}
    for node in nodes:
        node_id, fault = node["ID"], fault_of(node)
        if fault is None:
            continue
        paused_now_for = paused_for(node["Spec"], PREFIX)
        handled_fault = paused_now_for or before.handled.get(node_id)
        if handled_fault:
            handled[node_id] = handled_fault
        # While a node is paused, its card may recover and fail again. Anyone who returns the node by hand knows the newer fault, so remember
        # the newer fault. A run records in a label which fault is over, and removes the former availability.
        if paused_now_for and is_like_fault(fault, paused_now_for):
            repeated[node_id] = fault
        elif node_id in before.repeated and PREFIX + FORMER in (node["Spec"].get("Labels") or {}):
            repeated[node_id] = before.repeated[node_id]
        if node["Spec"]["Availability"] == ACTIVE and node.get("Status", {}).get("State") == "ready":
            former = before.reported.get(node_id)
            reported[node_id] = former if former and former[0] == fault else (fault, now)
    return Memory(reported, handled, repeated)


def _why_not_paused(node: Mapping[str, Any], memory: Memory) -> str | None:
    """Return why no manager pauses this node although it reports a fault; None if the node may be paused."""
    fault, labels = memory.reported[node["ID"]][0], node["Spec"].get("Labels") or {}
    if labels.get(ON_LOSS) == REPORT:
        return "gpu_node_on_loss is %s for this node" % REPORT
    # Somebody returned the node and knew this fault. The node may still report a fault that has just been fixed.
    known_faults = (memory.handled.get(node["ID"]), memory.repeated.get(node["ID"]), labels.get(PREFIX + PAUSED_FOR))
    if any(is_same_fault(fault, known) for known in known_faults if known):
        return RETURNED
    return None


def _delay_s(nodes: Iterable[Mapping[str, Any]], own_id: str) -> float:
    """Return how many seconds this manager waits, so that managers that are earlier in the order can act first."""
    managers = {node["ID"]: (node.get("ManagerStatus") or {}).get("Leader") for node in nodes if node.get("ManagerStatus")}
    if managers.get(own_id):
        return 0.0
    return TURN_S * (1 + sum(other < own_id for other, is_leader in managers.items() if not is_leader))
