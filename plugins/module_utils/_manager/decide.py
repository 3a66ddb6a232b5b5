# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes are to be paused for a fault that they report (pure): the manager's list of nodes in, what to write and what to alarm of out.

A label of a node's engine is the node's own claim: it can have its own node paused, and no more than a share of all is.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from .._health.label import REPORT, fault_of, is_like_fault, is_same_fault, reported_label
from .._ledger.node_labels import is_labelled
from .._ledger.unreserved import names_gpus
from .._placement.availability import ACTIVE, FORMER, paused_for
from .._policy import generic_resources
from .._swarm.owned_labels import PAUSED_FOR, PREFIX

# A label of the node, which only managers can set: what becomes of it. Without one it is paused.
ON_LOSS = "fleet.gpu-swarm.on-loss"
# Why a node stays in service for which somebody has decided that.
RETURNED = "a run found that this is over, or it was returned to service since it was paused for that"
# The leader acts at once; of the other managers, by their ids, each this much after the one before it.
TURN_S = 30.0


class Memory(NamedTuple):
    """What one poll leaves for the next, by node id."""

    seen: Mapping[str, tuple[str, float]] = {}  # the fault that an active node reports, and since when by this machine's clock
    handled: Mapping[str, str] = {}  # the fault for which it was paused, as long as it reports that
    anew: Mapping[str, str] = {}  # that fault as it came anew while the node was paused


class Decision(NamedTuple):
    """``pause`` are nodes of the API with the fault of each, ``alarms`` by node id why one stays in service, ``turn_s`` in how many seconds this
    manager's turn comes, where a fault is left to others until then."""

    pause: Sequence[tuple[Mapping[str, Any], str]]
    alarms: Mapping[str, str]
    turn_s: float | None = None


def decide(nodes: Sequence[Mapping[str, Any]], own_id: str, percent: int, memory: Memory, now: float) -> tuple[Decision, Memory]:
    """Return what this manager (``own_id``) does now, and what it keeps in mind. At most ``percent`` of the GPU nodes are paused."""
    memory = _remember(nodes, memory, now)
    turns = {node_id: since + _delay_s(nodes, own_id) - now for node_id, (_fault, since) in memory.seen.items()}
    due = [node for node in nodes if turns.get(node["ID"], 1) <= 0]
    alarms: dict[str, str] = {}
    candidates = []
    for node in sorted(due, key=lambda node: (memory.seen[node["ID"]][1], node["ID"])):
        why = _left(node, memory)
        if why:
            alarms[node["ID"]] = why
        else:
            candidates.append(node)
    most, paused = limit(nodes, percent), sum(is_paused_for_a_fault(node) and _is_there(node) for node in nodes)
    room = max(0, most - paused)
    full = "%d of the %d GPU nodes are paused for a fault, which is as many as may be (%d %%)" % (max(paused, most), watched(nodes), percent)
    alarms.update({node["ID"]: full for node in candidates[room:]})
    turn_s = min((left for left in turns.values() if left > 0), default=None)
    return Decision([(node, memory.seen[node["ID"]][0]) for node in candidates[:room]], alarms, turn_s), memory


def limit(nodes: Iterable[Mapping[str, Any]], percent: int) -> int:
    """Return how many nodes may be paused for a fault at a time."""
    return most_of(watched(nodes), percent)


def most_of(watched_nodes: int, percent: int) -> int:
    """Two in any fleet but the smallest, so that one node that is broken for long, or lies, does not keep another one's fault from counting."""
    return max(1, min(2, watched_nodes - 1), watched_nodes * percent // 100)


def watched(nodes: Iterable[Mapping[str, Any]]) -> int:
    """Return how many nodes advertise GPUs, or report something of theirs: under an old leader, one on which tasks run reports nothing before it has
    a fault. Without the others, a few GPU nodes in a large swarm could all be paused. One that is down takes no tasks, and what it reported is of
    before."""
    return sum(bool(reported_label(node) or _has_gpus(node)) and _is_there(node) for node in nodes)


def _has_gpus(node: Mapping[str, Any]) -> bool:
    """Return whether it advertises some, by name, or by memory alone as its label says. An SSD is a generic resource too."""
    given = ((node.get("Description") or {}).get("Resources") or {}).get("GenericResources")
    labels = (node.get("Spec") or {}).get("Labels") or {}
    return bool(given) and (is_labelled(labels) or any(map(names_gpus, generic_resources.from_info(given).values())))


def is_paused_for_a_fault(node: Mapping[str, Any]) -> bool:
    return paused_for(node["Spec"], PREFIX) is not None


def _is_there(node: Mapping[str, Any]) -> bool:
    return node.get("Status", {}).get("State") != "down"


def _remember(nodes: Iterable[Mapping[str, Any]], before: Memory, now: float) -> Memory:
    seen: dict[str, tuple[str, float]] = {}
    handled: dict[str, str] = {}
    anew: dict[str, str] = {}
    for node in nodes:
        node_id, fault = node["ID"], fault_of(node)
        if fault is None:
            continue
        now_for = paused_for(node["Spec"], PREFIX)
        done = now_for or before.handled.get(node_id)
        if done:
            handled[node_id] = done
        # A card may come and be lost again while its node is paused: who returns the node by hand has that one before his eyes. A run says in
        # a label which fault it found to be over, and takes the mark away.
        if now_for and is_like_fault(fault, now_for):
            anew[node_id] = fault
        elif node_id in before.anew and PREFIX + FORMER in (node["Spec"].get("Labels") or {}):
            anew[node_id] = before.anew[node_id]
        if node["Spec"]["Availability"] == ACTIVE and node.get("Status", {}).get("State") == "ready":
            known = before.seen.get(node_id)
            seen[node_id] = known if known and known[0] == fault else (fault, now)
    return Memory(seen, handled, anew)


def _left(node: Mapping[str, Any], memory: Memory) -> str | None:
    """Return why a node in service that reports a fault is left there, whichever manager decides."""
    fault, labels = memory.seen[node["ID"]][0], node["Spec"].get("Labels") or {}
    if labels.get(ON_LOSS) == REPORT:
        return "gpu_node_on_loss is %s for it" % REPORT
    # Whoever returned it knows of this fault; the node may report it a little longer than it is there.
    known = (memory.handled.get(node["ID"]), memory.anew.get(node["ID"]), labels.get(PREFIX + PAUSED_FOR))
    if any(is_same_fault(fault, one) for one in known if one):
        return RETURNED
    return None


def _delay_s(nodes: Iterable[Mapping[str, Any]], own_id: str) -> float:
    """Return how long this manager leaves a fault to those whose turn comes before."""
    managers = {node["ID"]: (node.get("ManagerStatus") or {}).get("Leader") for node in nodes if node.get("ManagerStatus")}
    if managers.get(own_id):
        return 0.0
    return TURN_S * (1 + sum(other < own_id for other, leads in managers.items() if not leads))
