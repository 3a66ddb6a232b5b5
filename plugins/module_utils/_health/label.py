# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine label that reports the state of a node's GPUs to the swarm's managers (pure).

``ok`` · ``warning GPU-… reason=remap since=1764000000`` · ``fault GPU-… xid=79 since=…`` · ``unwatched``. Each form may continue with
``drift=1f2e3d4c`` if someone changed the node's files after provision. ``pci=00000000:C1:00.0 slot=12 serial=1320221054323`` say where the card is,
if its place is known. If the node has no labels about its GPUs, ``model=Tesla-T4`` is at the end.

An attacker who controls a node can write any text into the label, so unknown words are ignored.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, NamedTuple

from .._gpu.cards import describe_place

KEY = "fleet.gpu-swarm.health"
# A node label that a run sets: the failed GPUs that are not advertised, each in the format of the engine label, separated by "; ". The state ``ok``
# means that someone accepted the loss.
LEFT_OUT = "fleet.gpu-swarm.left-out"
MAX_EXCLUDED = 16
OK, WARNING, FAULT, UNWATCHED, UNKNOWN = "ok", "warning", "fault", "unwatched", "unknown"
STATES = (OK, WARNING, FAULT, UNWATCHED)
LIMIT = 320  # bytes
# The choices of the option on_loss (role: gpu_node_on_loss), which decides about a node with a fault.
AFTER_LOSS = PAUSE, REPORT, SHRINK = ("pause", "report", "shrink")
# At most this percentage of the GPU nodes is paused for a fault, unless swarm_member_react_limit says otherwise.
PAUSED_PERCENT = 20

_CARD = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REASON = re.compile(r"[a-z]{1,20}")
_DIGEST = re.compile(r"[0-9a-f]{8}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_NUMBER = re.compile(r"[0-9]{1,12}")
_PCI = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_PRINTED = re.compile(r"[0-9A-Za-z_.-]{1,24}")


class Label(NamedTuple):
    """The report of a node."""

    state: str
    card: str | None = None  # the full UUID of the first card with this state
    reason: str | None = None  # one of the reasons in verdict.py
    xid: int | None = None  # the driver's number for the error
    cards: int = 1  # the number of cards in this state
    since: int | None = None  # seconds since 1970, by the node's clock
    drift: str | None = None  # a digest of the node's files, if someone has changed them after provision
    # For the person who replaces the card: its present or last known place, and the printed serial number.
    pci: str | None = None
    slot: str | None = None
    serial: str | None = None
    gpu: int | None = None  # NVML's index, if nothing else is known about the card
    model: str | None = None  # the model of the node's GPUs, only if no node label contains it

    @property
    def of_cards(self) -> Label:
        """Return the label without drift and model."""
        return self._replace(drift=None, model=None)

    def without_place(self) -> Label:
        """Return the label without the place of the card."""
        return self._replace(pci=None, slot=None, serial=None, gpu=None)

    def describe_place(self) -> str:
        """Return the place of the card as text; '' if the place is unknown."""
        return describe_place({"pci_bus_id": self.pci, "slot": self.slot, "serial": self.serial})


def format_label(label: Label) -> str:
    """Return the label's value."""
    words = [label.state, label.card]
    words += ["%s=%s" % (name, getattr(label, name)) for name in ("reason", "xid", "since", "drift") if getattr(label, name) is not None]
    if label.cards > 1:
        words.append("cards=%d" % label.cards)
    words += ["%s=%s" % (name, getattr(label, name)) for name in ("pci", "slot", "serial", "gpu") if getattr(label, name) is not None]
    if label.model is not None:
        words.append("model=%s" % label.model)  # the model is last, because managers of an older release read only 200 bytes
    return " ".join(word for word in words if word)


def parse_label(value: str) -> Label:
    """Return the label for a value. Unknown words are ignored."""
    words = value[:LIMIT].split()
    state = words[0] if words and words[0] in STATES else UNKNOWN
    card = next((word for word in words[1:] if _CARD.fullmatch(word)), None)
    values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    return Label(
        state,
        card,
        _matching(_REASON, values.get("reason")),
        _number(values.get("xid")),
        _number(values.get("cards")) or 1,
        _number(values.get("since")),
        _matching(_DIGEST, values.get("drift")),
        _matching(_PCI, values.get("pci")),
        _matching(_PRINTED, values.get("slot")),
        _matching(_PRINTED, values.get("serial")),
        _number(values.get("gpu")),
        _matching(_MODEL, values.get("model")),
    )


def reported_label(node: Mapping[str, Any]) -> str:
    """Return the value of the label of a node from the manager's API; '' if the node has no label."""
    return str(((node.get("Description", {}).get("Engine") or {}).get("Labels") or {}).get(KEY) or "")


def valid_uuid(uuid: str | None) -> str | None:
    """Return the UUID if it is valid, or else None."""
    return _matching(_CARD, uuid)


def with_place(label: Label, card: Mapping[str, Any]) -> Label:
    """Return the label with the place from the card's record. Invalid values are ignored, because an attacker may control the node."""
    return label._replace(
        pci=_matching(_PCI, card.get("pci_bus_id")), slot=_matching(_PRINTED, card.get("slot")), serial=_matching(_PRINTED, card.get("serial"))
    )


def format_labels(labels: Iterable[Label]) -> str:
    """Return the value of the label LEFT_OUT."""
    return "; ".join(format_label(excluded) for excluded in list(labels)[:MAX_EXCLUDED])


def unaccepted_losses(labels: Mapping[str, str]) -> list[Label]:
    """Return the excluded GPUs whose loss nobody has accepted, from the node's labels."""
    return [excluded for excluded in excluded_gpus(labels) if excluded.state == FAULT]


def excluded_gpus(labels: Mapping[str, str]) -> list[Label]:
    """Return the excluded GPUs from the node's labels. The state of an accepted loss is OK."""
    return _parse_labels(labels.get(LEFT_OUT))


def with_earlier_consent(present: str | None, wanted: str) -> str:
    """Return the new value of LEFT_OUT. An accepted loss stays accepted until the card is advertised again."""
    accepted = [(excluded.card, excluded.gpu) for excluded in _parse_labels(present) if excluded.state == OK]
    labels = _parse_labels(wanted)
    return format_labels(excluded._replace(state=OK) if (excluded.card, excluded.gpu) in accepted else excluded for excluded in labels)


def _parse_labels(value: str | None) -> list[Label]:
    return [parse_label(part) for part in (value or "").split(";")[:MAX_EXCLUDED] if part.strip()]


def describe_label(label: Label) -> str:
    """Return a text about the card: its UUID, the reason, and its place."""
    words = [label.card or (None if label.gpu is None else "GPU %d" % label.gpu), label.reason]
    words.append("xid=%d" % label.xid if label.xid is not None else "")
    words.append("%d cards" % label.cards if label.cards > 1 else "")
    words.append("(%s)" % label.describe_place() if label.describe_place() else "")
    return " ".join(word for word in words if word)


def describe_fault(fault: str) -> str:
    """Describe a fault that is written as its node reports it."""
    return describe_label(parse_label(fault))


def fault_of(node: Mapping[str, Any]) -> str | None:
    """Return a node's reported fault in the format of the label; None without a fault."""
    label = parse_label(reported_label(node))
    return format_label(label.of_cards) if label.state == FAULT else None


def is_same_fault(fault: str, other: str) -> bool:
    """Return whether two texts describe the same fault. If both have a start time, the times must be equal. A run that finds a fault writes no start
    time."""
    since = {parse_label(fault).since, parse_label(other).since}
    return is_like_fault(fault, other) and (len(since) == 1 or None in since)


def is_like_fault(fault: str, other: str) -> bool:
    """Return whether two faults differ only in start time, place of the card and model."""
    return parse_label(fault).without_place()._replace(since=None, model=None) == parse_label(other).without_place()._replace(since=None, model=None)


def _matching(pattern: re.Pattern[str], word: str | None) -> str | None:
    return word if word and pattern.fullmatch(word) else None


def _number(word: str | None) -> int | None:
    match = _matching(_NUMBER, word)
    return int(match) if match else None
