# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node reports of its own GPUs by a label of its engine (pure).

A label of the engine is the one thing that a worker can show to the managers by itself, so it is a claim, not a finding.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._health import label
from .tasks import stamp

# The last second of the year 9999: what comes later is no time.
LATEST = 253402300799


def reported(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """{state, card, cards, reason, xid, since, drift, text} of the API's node; None where it reports nothing. ``text`` has the known words."""
    labels = (node.get("Description", {}).get("Engine") or {}).get("Labels") or {}
    value = str(labels.get(label.KEY) or "").strip()
    if not value:
        return None
    found = label.parse(value)
    words = [found.card, found.reason, found.xid is not None and "xid=%d" % found.xid, found.cards > 1 and "%d cards" % found.cards]
    return {
        "state": found.state,
        "card": found.card,
        "cards": found.cards,
        "reason": found.reason,
        "xid": found.xid,
        "since": stamp(found.since) if found.since and found.since <= LATEST else None,
        "drift": found.drift is not None,
        "text": " ".join([found.state, *(word for word in words if word)]),
    }
