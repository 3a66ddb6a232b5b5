# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's own report about its GPUs, in a label of its engine (pure).

A label of the engine is the only thing that a worker can show to the managers by itself. Treat it as a claim of the node.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._health import label
from .._placement.availability import ACTIVE, FORMER
from .._swarm.owned_labels import PAUSED_FOR
from .._tasks.tasks import stamp

# The last second of the year 9999: what comes later is no time.
LATEST = 253402300799


def reported(node: Mapping[str, Any], prefix: str) -> dict[str, Any] | None:
    """{state, card, cards, reason, xid, since, drift, model, pci_bus_id, slot, serial, returned, text} of the API's node; None if it reports
    nothing. ``text`` is for people. ``prefix`` is that of the labels with which a run marks nodes."""
    labels = (node.get("Description", {}).get("Engine") or {}).get("Labels") or {}
    value = str(labels.get(label.KEY) or "").strip()
    if not value:
        return None
    found = label.parse_label(value)
    return {
        "state": found.state,
        "card": found.card,
        "cards": found.cards,
        "reason": found.reason,
        "xid": found.xid,
        "since": stamp(found.since) if found.since and found.since <= LATEST else None,
        "drift": found.drift is not None,
        "pci_bus_id": found.pci,
        "slot": found.slot,
        "serial": found.serial,
        "model": found.model,
        "returned": _is_returned(node, prefix),
        "text": " ".join(filter(None, [found.state, label.describe_label(found)])),
    }


def _is_returned(node: Mapping[str, Any], prefix: str) -> bool:
    """Return whether a run has returned the node to service after it was paused for the fault that it still reports.

    With managers before Docker 29.6.0 a watcher cannot withdraw its report while tasks run there. If someone returned the node by hand, the mark of
    the pause is still there, and nobody checked the fault.
    """
    spec = node.get("Spec", {})
    labels, fault = spec.get("Labels") or {}, label.fault_of(node)
    known = labels.get(prefix + PAUSED_FOR)
    in_service = spec.get("Availability") == ACTIVE and prefix + FORMER not in labels
    return bool(fault and known and in_service and label.is_same_fault(fault, known))
