# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node reports of its own GPUs by a label of its engine (pure).

A label of the engine is the one thing that a worker can show to the managers by itself, so it is a claim, not a finding.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Mapping

from .._health.label import KEY as LABEL

OK = "ok"
# What the id of a GPU or MIG device begins with; it may be shortened, and end with an ellipsis.
CARDS = ("GPU-", "MIG-")


def reported(node: Mapping[str, Any]) -> dict[str, Any] | None:
    """{state, cards, since, text} of the API's node, such as for ``fault GPU-1234abcd… xid=79``; None where it reports nothing.

    ``state`` is the first word, ``cards`` what the ids of the cards begin with, ``since`` the value of a word ``since=…``.
    """
    labels = (node.get("Description", {}).get("Engine") or {}).get("Labels") or {}
    text = str(labels.get(LABEL) or "").strip()
    if not text:
        return None
    words = text.split()
    since = [word.partition("=")[2] for word in words if word.startswith("since=")]
    return {
        "state": words[0].lower(),
        "cards": [word.rstrip("…,;:") for word in words[1:] if word.startswith(CARDS)],
        "since": since[0] if since else None,
        "text": text,
    }
