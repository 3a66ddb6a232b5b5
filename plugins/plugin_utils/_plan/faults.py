# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which members a run pauses for a fault, and how many (pure). The service on the managers has the same limits.

Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...module_utils._health import label
from ...module_utils._ledger.unreserved import has_gpus
from ...module_utils._manager.decide import ON_LOSS, most_of
from ...module_utils._placement.availability import ACTIVE
from ...module_utils._swarm import owned_labels
from ...module_utils._tasks.tasks import stamp
from .._fleet.identity import LABEL_PREFIX
from .._fleet.model import Host, Step, Swarm


def fault_of(host: Host, node: Mapping[str, Any] | None) -> str:
    """The fault that makes a member unfit for what it advertises, or ''. Also if it could not be assessed because of the fault."""
    found = label.parse_label(str((host.assessed or {}).get("fault") or ""))
    counts = node is not None and found.state == label.FAULT and host.settings.get("gpu_node_on_loss") != label.REPORT
    return label.format_label(found) if counts else ""


def is_to_pause(fault: str, node: Mapping[str, Any] | None) -> bool:
    """Whether a node is paused for its fault. Not if somebody returned it to service with this fault."""
    if not fault or not node or node["state"] != "ready" or node["availability"] != ACTIVE:
        return False
    known = node["labels"].get(LABEL_PREFIX + owned_labels.PAUSED_FOR)
    return not (known and label.is_same_fault(fault, known)) or _is_anew(label.parse_label(known), node)


def _is_anew(known: label.Label, node: Mapping[str, Any]) -> bool:
    """Whether the watcher reports another start time for the fault than the node's label. A run itself does not know when a fault began."""
    shown = node.get("health") or {}
    both = shown.get("state") == label.FAULT and shown.get("since") and known.since
    return bool(both) and (shown["card"], shown["reason"]) == (known.card, known.reason) and shown["since"] != stamp(known.since or 0)


def is_over(host: Host, node: Mapping[str, Any] | None) -> bool:
    """Whether a node in service still reports a fault that this run does not find. Managers would pause it as soon as the limit allows it."""
    if not node or not host.gpu or host.unfit or fault_of(host, node) or host.settings.get("gpu_node_on_loss") == label.REPORT:
        return False
    shown = label.parse_label(str(((host.assessed or {}).get("health") or {}).get("shown") or ""))
    reported = node.get("health") or {}
    stale = label.FAULT == shown.state == reported.get("state")
    return stale and not reported.get("returned") and node["availability"] == ACTIVE


def settle(hosts: Iterable[Host], steps: Mapping[str, Step], swarm: Swarm) -> None:
    """Keep nodes beyond the limit in service: a cause that affects the whole fleet, such as a new driver, should not close it. A node that is not
    paused for its fault also returns to service after a window."""
    most, paused, _watched = _room(hosts, swarm)
    for step in [step for step in steps.values() if step.fault.pauses][max(0, most - paused) :]:
        step.fault.pauses, step.fault.too_many = False, True
    for step in steps.values():
        node = swarm.nodes.get(step.membership.node_id or "") or {}
        step.fault.left_in_service = bool(step.fault.text) and not step.fault.pauses and not node.get("set_by_run")


def warnings(hosts: Iterable[Host], steps: Mapping[str, Step], swarm: Swarm) -> list[str]:
    left = [name for name, step in steps.items() if step.fault.too_many]
    if not left:
        return []
    most, paused, watched = _room(hosts, swarm)
    now = paused + sum(step.fault.pauses for step in steps.values())
    text = (
        f"{', '.join(left)}: unfit for work, and left in service, where swarm may place tasks there: with this run {now} of {watched} GPU nodes are "
        f"paused for a fault, and at most {most} may be (swarm_member_react_limit). If it is right to take more out of service: "
        "'docker node update --availability pause NODE'."
    )
    return [text]


def _room(hosts: Iterable[Host], swarm: Swarm) -> tuple[int, int, int]:
    """(how many nodes may be paused for a fault, how many are, how many GPU nodes there are)"""
    hosts = list(hosts)
    percent = min((host.fault_limit for host in [host for host in hosts if host.manager] or hosts), default=0)
    return _room_of(swarm.nodes.values(), percent)


def _room_of(nodes: Iterable[Mapping[str, Any]], percent: int) -> tuple[int, int, int]:
    nodes = [node for node in nodes if node["state"] != "down"]
    watched = sum(bool(node.get("health") or (node["resources"] and has_gpus(node))) for node in nodes)
    return most_of(watched, percent), sum(bool(node.get("paused_for")) for node in nodes), watched


def kept_in_service(nodes: Sequence[Mapping[str, Any]], percent: int) -> dict[str, str]:
    """By node id, why a node that reports a fault stays in service; without nodes that are about to be paused. ``nodes`` are the ledger's."""
    most, paused, watched = _room_of(nodes, percent)
    found = {}
    for node in nodes:
        reported = node.get("health") or {}
        if (node["state"], node["availability"], reported.get("state"), reported.get("returned")) != ("ready", ACTIVE, label.FAULT, False):
            continue
        if node["labels"].get(ON_LOSS) == label.REPORT:
            found[node["id"]] = f"stays in service, since gpu_node_on_loss is {label.REPORT} for it"
        elif _is_known(reported, node["labels"]):
            found[node["id"]] = "stays in service, since somebody returned it after it was paused for that"
        elif paused >= most:
            full = f"{paused} of the {watched} GPU nodes are paused for a fault, as many as may be (swarm_member_react_limit {percent} %)"
            found[node["id"]] = f"stays in service, since {full}: 'docker node update --availability pause {node['id']}' takes it out"
    return found


def _is_known(reported: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether the fault that a node in service reports is the one for which it was paused."""
    known = label.parse_label(labels.get(LABEL_PREFIX + owned_labels.PAUSED_FOR) or "")
    since = {reported["since"], stamp(known.since) if known.since else None}
    alike = [reported[key] for key in ("card", "reason", "xid", "cards")] == [known.card, known.reason, known.xid, known.cards]
    return known.state == label.FAULT and alike and (len(since) == 1 or None in since)
