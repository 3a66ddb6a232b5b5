# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine label by which a node reports the state of its GPUs to the swarm's managers (pure).

``ok`` · ``warning GPU-… reason=remap since=1764000000`` · ``fault GPU-… xid=79 since=…`` · ``unwatched``, and behind any of them
``drift=1f2e3d4c`` where the node's files have lost what provision wrote. Of a card, ``pci=00000000:C1:00.0 slot=12 serial=1320221054323`` say
where it is, as far as that is known. ``model=Tesla-T4`` comes last, where the node has no labels about its GPUs.

Whoever controls a node can put anything there: what is no word of this vocabulary is left out.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple

from .._gpu.cards import place

KEY = "fleet.gpu-swarm.health"
# A label of the node, which a run sets: the GPUs that failed and are not advertised, in the words of the other label, with "; " between them. ``ok``
# is one that somebody has consented to do without.
LEFT_OUT = "fleet.gpu-swarm.left-out"
MOST_LEFT_OUT = 16
OK, WARNING, FAULT, UNWATCHED, UNKNOWN = "ok", "warning", "fault", "unwatched", "unknown"
STATES = (OK, WARNING, FAULT, UNWATCHED)
LIMIT = 320  # bytes
# What the option on_loss (role: gpu_node_on_loss) has become of a node with a fault.
AFTER_LOSS = PAUSE, REPORT, SHRINK = ("pause", "report", "shrink")

_CARD = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REASON = re.compile(r"[a-z]{1,20}")
_DIGEST = re.compile(r"[0-9a-f]{8}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_NUMBER = re.compile(r"[0-9]{1,12}")
_PCI = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_PRINTED = re.compile(r"[0-9A-Za-z_.-]{1,24}")


class Label(NamedTuple):
    """What a node reports."""

    state: str
    card: str | None = None  # the full UUID; of several cards the first
    reason: str | None = None  # one word, of those of verdict.py
    xid: int | None = None  # the driver's number of the error
    cards: int = 1  # how many are in this state
    since: int | None = None  # by the node's clock, in seconds since 1970
    drift: str | None = None  # a digest of the node's files, where they have lost what provision wrote
    # For whoever replaces the card: where it is, or was when it could be read last, and what is printed on it.
    pci: str | None = None
    slot: str | None = None
    serial: str | None = None
    gpu: int | None = None  # its place in NVML's count, where nothing else is known of it
    model: str | None = None  # of the node's GPUs, only where managers have no label that says so

    @property
    def of_cards(self) -> Label:
        """What it says of the state of the cards, and no more."""
        return self._replace(drift=None, model=None)

    def without_place(self) -> Label:
        """What it reports, whatever is known of where the card is."""
        return self._replace(pci=None, slot=None, serial=None, gpu=None)

    def place(self) -> str:
        """Where the card is, in words; '' where that is not known."""
        return place({"pci_bus_id": self.pci, "slot": self.slot, "serial": self.serial})


def text(label: Label) -> str:
    """The label's value."""
    words = [label.state, label.card]
    words += ["%s=%s" % (name, getattr(label, name)) for name in ("reason", "xid", "since", "drift") if getattr(label, name) is not None]
    if label.cards > 1:
        words.append("cards=%d" % label.cards)
    words += ["%s=%s" % (name, getattr(label, name)) for name in ("pci", "slot", "serial", "gpu") if getattr(label, name) is not None]
    if label.model is not None:
        words.append("model=%s" % label.model)  # last, since managers of an older release read 200 bytes
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
        _matching(_PCI, given.get("pci")),
        _matching(_PRINTED, given.get("slot")),
        _matching(_PRINTED, given.get("serial")),
        _number(given.get("gpu")),
        _matching(_MODEL, given.get("model")),
    )


def reported(node: Mapping[str, Any]) -> str:
    """What a node of the manager's API reports, '' for nothing."""
    return str(((node.get("Description", {}).get("Engine") or {}).get("Labels") or {}).get(KEY) or "")


def as_card(uuid: str | None) -> str | None:
    """Return the UUID if it may stand in a label, else None."""
    return _matching(_CARD, uuid)


def at_place(label: Label, card: Mapping[str, Any]) -> Label:
    """The label with where its card is, by a record of it. What no card has there is left out: whoever controls a node can answer anything."""
    return label._replace(
        pci=_matching(_PCI, card.get("pci_bus_id")), slot=_matching(_PRINTED, card.get("slot")), serial=_matching(_PRINTED, card.get("serial"))
    )


def listed(found: Iterable[Label]) -> str:
    """The value of LEFT_OUT."""
    return "; ".join(text(one) for one in list(found)[:MOST_LEFT_OUT])


def left_out(labels: Mapping[str, str]) -> list[Label]:
    """The GPUs that a node does without though nobody has consented to that, by the node's labels."""
    return [one for one in _listed(labels.get(LEFT_OUT)) if one.state == FAULT]


def with_consent(now: str | None, wanted: str) -> str:
    """The value of LEFT_OUT that replaces the one of now: consent to do without a card stands until that is advertised again."""
    consented = [(one.card, one.gpu) for one in _listed(now) if one.state == OK]
    return listed(one._replace(state=OK) if (one.card, one.gpu) in consented else one for one in _listed(wanted))


def _listed(value: str | None) -> list[Label]:
    return [parse(one) for one in (value or "").split(";")[:MOST_LEFT_OUT] if one.strip()]


def in_words(found: Label) -> str:
    """A card, what it is unfit for and where it is, for people."""
    words = [found.card or (None if found.gpu is None else "GPU %d" % found.gpu), found.reason]
    words.append("xid=%d" % found.xid if found.xid is not None else "")
    words.append("%d cards" % found.cards if found.cards > 1 else "")
    words.append("(%s)" % found.place() if found.place() else "")
    return " ".join(word for word in words if word)


def fault_of(node: Mapping[str, Any]) -> str | None:
    """The fault that it reports, in the words that are known; None where it reports none."""
    found = parse(reported(node))
    return text(found.of_cards) if found.state == FAULT else None


def is_same(fault: str, known: str) -> bool:
    """Whether two faults are one. The watcher says since when one is; a run that found it does not."""
    since = {parse(fault).since, parse(known).since}
    return is_like(fault, known) and (len(since) == 1 or None in since)


def is_like(fault: str, other: str) -> bool:
    """Whether they differ in no more than since when they are, and in what is known of the card: where it is, and its model."""
    return parse(fault).without_place()._replace(since=None, model=None) == parse(other).without_place()._replace(since=None, model=None)


def _matching(pattern: re.Pattern[str], word: str | None) -> str | None:
    return word if word and pattern.fullmatch(word) else None


def _number(word: str | None) -> int | None:
    found = _matching(_NUMBER, word)
    return int(found) if found else None
