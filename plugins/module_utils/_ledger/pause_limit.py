# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many nodes may be paused for a fault at a time, and why a node with a fault stays in service (pure).

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._health import label
from .._placement.availability import ACTIVE
from .._swarm.owned_labels import PAUSED_FOR, PREFIX
from .._tasks.tasks import stamp
from .unreserved import has_gpus

# The label of a node with its setting gpu_node_on_loss. Only managers can set it. Without the label, the node is paused.
ON_LOSS = "fleet.gpu-swarm.on-loss"


def most_of(watched_nodes: int, percent: int) -> int:
    """Return the limit for this number of GPU nodes.

    The limit is at least two, except in the smallest fleets. Otherwise one node that stays broken, or lies, would block the pause of another node.
    """
    return max(1, min(2, watched_nodes - 1), watched_nodes * percent // 100)


def pause_limit_of(nodes: Iterable[Mapping[str, Any]], percent: int) -> tuple[int, int, int]:
    """Return the limit of nodes paused for a fault, how many are paused, and the number of GPU nodes."""
    nodes = [node for node in nodes if node["state"] != "down"]
    watched = sum(bool(node.get("health") or (node["resources"] and has_gpus(node))) for node in nodes)
    return most_of(watched, percent), sum(bool(node.get("paused_for")) for node in nodes), watched


def kept_in_service(nodes: Sequence[Mapping[str, Any]], percent: int) -> dict[str, str]:
    """Return by node id why nodes that report a fault stay in service. Nodes that will soon be paused have no reason. ``nodes`` are the nodes of the
    ledger.
    """
    max_paused, paused, watched = pause_limit_of(nodes, percent)
    reasons = {}
    for node in nodes:
        reported = node.get("health") or {}
        if (node["state"], node["availability"], reported.get("state"), reported.get("returned")) != ("ready", ACTIVE, label.FAULT, False):
            continue
        if node["labels"].get(ON_LOSS) == label.REPORT:
            reasons[node["id"]] = f"stays in service, because gpu_node_on_loss is {label.REPORT} for this node"
        elif _was_paused_for_it(reported, node["labels"]):
            reasons[node["id"]] = "stays in service, because somebody returned it to service after it was paused for this fault"
        elif paused >= max_paused:
            limit_reached = f"{paused} of the {watched} GPU nodes are paused for a fault, which is the limit (swarm_member_react_limit {percent} %)"
            command = f"docker node update --availability pause {node['id']}"
            reasons[node["id"]] = f"stays in service, because {limit_reached}. To pause it, run '{command}'"
    return reasons


def _was_paused_for_it(reported: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a node in service was paused for the fault that it reports now."""
    recorded = label.parse_label(labels.get(PREFIX + PAUSED_FOR) or "")
    since = {reported["since"], stamp(recorded.since) if recorded.since else None}
    same_fault = [reported[key] for key in ("card", "reason", "xid", "cards")] == [recorded.card, recorded.reason, recorded.xid, recorded.cards]
    return recorded.state == label.FAULT and same_fault and (len(since) == 1 or None in since)
