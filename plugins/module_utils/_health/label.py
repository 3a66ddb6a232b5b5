# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine label by which a node reports the state of its GPUs to the swarm's managers (pure).

``ok`` · ``warning GPU-… reason=remap since=1764000000`` · ``fault GPU-… xid=79 since=…`` · ``unwatched``, and behind any of them
``drift=1f2e3d4c`` where the node's files have lost what provision wrote.

Whoever controls a node can put anything there: what is no word of this vocabulary is left out.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

KEY = "fleet.gpu-swarm.health"
OK, WARNING, FAULT, UNWATCHED, UNKNOWN = "ok", "warning", "fault", "unwatched", "unknown"
STATES = (OK, WARNING, FAULT, UNWATCHED)
LIMIT = 200  # bytes
# What the option on_loss (role: gpu_node_on_loss) has become of a node with a fault.
AFTER_LOSS = PAUSE, REPORT, SHRINK = ("pause", "report", "shrink")

_CARD = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REASON = re.compile(r"[a-z]{1,20}")
_DIGEST = re.compile(r"[0-9a-f]{8}")
_NUMBER = re.compile(r"[0-9]{1,12}")


class Label(NamedTuple):
    """What a node reports."""

    state: str
    card: str | None = None  # the full UUID; of several cards the first
    reason: str | None = None  # one word, of those of verdict.py
    xid: int | None = None  # the driver's number of the error
    cards: int = 1  # how many are in this state
    since: int | None = None  # by the node's clock, in seconds since 1970
    drift: str | None = None  # a digest of the node's files, where they have lost what provision wrote


def text(label: Label) -> str:
    """The label's value."""
    words = [label.state, label.card]
    words += ["%s=%s" % (name, getattr(label, name)) for name in ("reason", "xid", "since", "drift") if getattr(label, name) is not None]
    if label.cards > 1:
        words.append("cards=%d" % label.cards)
    return " ".join(word for word in words if word)


def parse(value: str) -> Label:
    """What a label's value says."""
    words = value[:LIMIT].split()
    state = words[0] if words and words[0] in STATES else UNKNOWN
    card = next((word for word in words[1:] if _CARD.fullmatch(word)), None)
    given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    return Label(
        state,
        card,
        _matching(_REASON, given.get("reason")),
        _number(given.get("xid")),
        _number(given.get("cards")) or 1,
        _number(given.get("since")),
        _matching(_DIGEST, given.get("drift")),
    )


def reported(node: Mapping[str, Any]) -> str:
    """What a node of the manager's API reports, '' for nothing."""
    return str(((node.get("Description", {}).get("Engine") or {}).get("Labels") or {}).get(KEY) or "")


def fault_of(node: Mapping[str, Any]) -> str | None:
    """The fault that it reports, in the words that are known; None where it reports none."""
    found = parse(reported(node))
    return text(found._replace(drift=None)) if found.state == FAULT else None


def is_same(fault: str, known: str) -> bool:
    """Whether two faults are one. The watcher says since when one is; a run that found it does not."""
    since = {parse(fault).since, parse(known).since}
    return is_like(fault, known) and (len(since) == 1 or None in since)


def is_like(fault: str, other: str) -> bool:
    """Whether they differ in no more than since when they are."""
    return parse(fault)._replace(since=None) == parse(other)._replace(since=None)


def _matching(pattern: re.Pattern[str], word: str | None) -> str | None:
    return word if word and pattern.fullmatch(word) else None


def _number(word: str | None) -> int | None:
    found = _matching(_NUMBER, word)
    return int(found) if found else None
