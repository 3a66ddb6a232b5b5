# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides which members a run pauses for a fault, and how many (pure). The service on the managers has the same limits.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._health import label
from ...module_utils._ledger.pause_limit import pause_limit_of
from ...module_utils._placement.availability import ACTIVE
from ...module_utils._swarm import owned_labels
from ...module_utils._tasks.tasks import stamp
from .._fleet.identity import LABEL_PREFIX
from .._fleet.model import Host, Step, Swarm


def fault_of(host: Host, node: Mapping[str, Any] | None) -> str:
    """Return the fault that keeps a member from providing what it advertises; '' without a fault. The assessment of such a member may have failed."""
    fault = label.parse_label(str((host.assessed or {}).get("fault") or ""))
    keeps_out = node is not None and fault.state == label.FAULT and host.settings.get("gpu_node_on_loss") != label.REPORT
    return label.format_label(fault) if keeps_out else ""


def should_pause(fault: str, node: Mapping[str, Any] | None) -> bool:
    """Return whether to pause a node for its fault. A node that somebody returned to service with this fault is not paused."""
    if not fault or not node or node["state"] != "ready" or node["availability"] != ACTIVE:
        return False
    recorded_fault = node["labels"].get(LABEL_PREFIX + owned_labels.PAUSED_FOR)
    return not (recorded_fault and label.is_same_fault(fault, recorded_fault)) or _began_again(label.parse_label(recorded_fault), node)


def _began_again(recorded: label.Label, node: Mapping[str, Any]) -> bool:
    """Return whether the start time that the watcher reports for the fault differs from the start time in the node's label. A run itself does not
    know when a fault began.
    """
    reported = node.get("health") or {}
    comparable = reported.get("state") == label.FAULT and reported.get("since") and recorded.since
    return (
        bool(comparable)
        and (reported["card"], reported["reason"]) == (recorded.card, recorded.reason)
        and reported["since"] != stamp(recorded.since or 0)
    )


def is_over(host: Host, node: Mapping[str, Any] | None) -> bool:
    """Return whether a node in service still reports a fault that this run does not find. Managers would pause the node as soon as the limit allows
    it.
    """
    if not node or not host.gpu or host.unfit or fault_of(host, node) or host.settings.get("gpu_node_on_loss") == label.REPORT:
        return False
    shown = label.parse_label(str(((host.assessed or {}).get("health") or {}).get("shown") or ""))
    reported = node.get("health") or {}
    stale = label.FAULT == shown.state == reported.get("state")
    return stale and not reported.get("returned") and node["availability"] == ACTIVE


def limit_pauses(hosts: Iterable[Host], steps: Mapping[str, Step], swarm: Swarm) -> None:
    """Keep nodes in service that exceed the limit, so that a cause that affects all nodes, such as a new driver, does not close the fleet. Such a
    node also returns to service after a window.
    """
    max_paused, paused, _watched = _pause_limit(hosts, swarm)
    for step in [step for step in steps.values() if step.fault.pauses][max(0, max_paused - paused) :]:
        step.fault.pauses, step.fault.too_many = False, True
    for step in steps.values():
        node = swarm.nodes.get(step.membership.node_id or "") or {}
        step.fault.left_in_service = bool(step.fault.text) and not step.fault.pauses and not node.get("set_by_run")


def warnings(hosts: Iterable[Host], steps: Mapping[str, Step], swarm: Swarm) -> list[str]:
    kept_in_service_hosts = [name for name, step in steps.items() if step.fault.too_many]
    if not kept_in_service_hosts:
        return []
    max_paused, paused, watched = _pause_limit(hosts, swarm)
    paused_after = paused + sum(step.fault.pauses for step in steps.values())
    text = (
        f"{', '.join(kept_in_service_hosts)}: unfit for work, but left in service, so swarm may place tasks there: with this run "
        f"{paused_after} of {watched} GPU nodes are paused for a fault, and the limit is {max_paused} (swarm_member_react_limit). "
        "To take more out of service, run 'docker node update --availability pause NODE'."
    )
    return [text]


def _pause_limit(hosts: Iterable[Host], swarm: Swarm) -> tuple[int, int, int]:
    """Return the limit of nodes paused for a fault, how many are paused, and the number of GPU nodes."""
    hosts = list(hosts)
    percent = min((host.fault_limit for host in [host for host in hosts if host.manager] or hosts), default=0)
    return pause_limit_of(swarm.nodes.values(), percent)
