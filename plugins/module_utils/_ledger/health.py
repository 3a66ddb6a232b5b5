# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads a node's own report about its GPUs, from a label of its engine (pure).

A worker can report to the managers only with this label. Anyone with root on the node can write the label, so do not trust its content.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._health import label
from .._placement.availability import ACTIVE, FORMER
from .._swarm.owned_labels import PAUSED_FOR
from .._tasks.tasks import stamp

# The last second of the year 9999. Larger numbers are not valid times.
LATEST = 253402300799


def reported(node: Mapping[str, Any], prefix: str) -> dict[str, Any] | None:
    """Return the report of a node of the API; None if the node reports nothing.

    ``text`` is for people. ``prefix`` is the prefix of the labels with which a run marks nodes.
    """
    labels = (node.get("Description", {}).get("Engine") or {}).get("Labels") or {}
    value = str(labels.get(label.KEY) or "").strip()
    if not value:
        return None
    report = label.parse_label(value)
    return {
        "state": report.state,
        "card": report.card,
        "cards": report.cards,
        "reason": report.reason,
        "xid": report.xid,
        "since": stamp(report.since) if report.since and report.since <= LATEST else None,
        "drift": report.drift is not None,
        "pci_bus_id": report.pci,
        "slot": report.slot,
        "serial": report.serial,
        "model": report.model,
        "returned": _is_returned(node, prefix),
        "text": " ".join(filter(None, [report.state, label.describe_label(report)])),
    }


def _is_returned(node: Mapping[str, Any], prefix: str) -> bool:
    """Return whether a run has returned the node to service after a pause for the fault that the node still reports.

    With managers before Docker 29.6.0 a watcher cannot withdraw its report while tasks run there. If somebody returned the node by hand,
    the label of the pause still exists, and no run has checked the fault.
    """
    spec = node.get("Spec", {})
    labels, fault = spec.get("Labels") or {}, label.fault_of(node)
    paused_for = labels.get(prefix + PAUSED_FOR)
    in_service = spec.get("Availability") == ACTIVE and prefix + FORMER not in labels
    return bool(fault and paused_for and in_service and label.is_same_fault(fault, paused_for))
