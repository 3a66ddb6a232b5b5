# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides from a reading of a node's GPUs whether the node is ok, or has a warning or a fault (pure).

A reading is ``{"error": a word or None, "gpus": [{"uuid", "pci", "model", "state", "reasons", "action", "mig": [uuid, …]}]}``. A reading has the
key ``slow`` if it took a long time. While NVML has not answered, the error is ``slow``, and the cards are the cards of the last reading.
``last_uuid`` is the recorded UUID of a card that does not answer.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from .._gpu.cards import Card, find_card
from .._gpu.record import common_value, devices_of
from .label import FAULT, OK, WARNING, Label, valid_uuid, with_place

# Reasons why the driver cannot be read: the `error` of a reading and the `reason` of the label.
HANG, MISMATCH, LIBRARY, DRIVER, BINDING = "hang", "mismatch", "library", "driver", "binding"
# NVML works, but CUDA does not start because /dev/nvidia-uvm is missing.
UVM = "uvm"
# NVML works, but NVIDIA's toolkit cannot give GPUs to containers.
TOOLKIT = "toolkit"
# NVML has not answered yet, or took longer than SLOW_S seconds.
SLOW, SLOW_S = "slow", 10
# Within GRACE_S seconds after a boot, these errors may only mean that the driver is not loaded yet.
NOT_LOADED = (LIBRARY, DRIVER, UVM, TOOLKIT)
GRACE_S = 180
# Reasons of a single card.
LOST, FAILED, DEGRADED, XID = "lost", "failed", "degraded", "xid"
# Faults by the driver's recovery action (NVML). Other recovery actions are not about the card itself.
RESET, REBOOT, DRAIN = "reset", "reboot", "drain"
ACTIONS = {
    "gpu_reset": RESET,
    "bus_reset": RESET,
    "node_reboot": REBOOT,
    "system_reboot": REBOOT,
    "drain_p2p": DRAIN,
    "drain_and_reset": DRAIN,
}


class Finding(NamedTuple):
    """One fault or warning, of a card or of the driver."""

    state: str
    card: str | None
    reason: str
    xid: int | None = None


def assess_health(reading: Mapping[str, Any], expected: Sequence[str], events: Iterable[Mapping[str, Any]] = ()) -> Label:
    """Return ok, or the worst warning or fault with its card. ``expected`` are the UUIDs that the node advertises, ``events`` are the errors since
    the boot (``uuid``, ``xid``, ``state``)."""
    findings = list(_findings(reading, expected, list(events)))
    for state in (FAULT, WARNING):
        worst = [finding for finding in findings if finding.state == state]
        if worst:
            first = min(worst, key=lambda finding: (finding.card is not None, finding.card or ""))
            return Label(state, first.card, first.reason, first.xid, len({finding.card for finding in worst}) if first.card else 1)
    return Label(OK)


def common_model(gpus: Iterable[Mapping[str, Any]], expected: Sequence[str]) -> str | None:
    """Return the model of the advertised cards, ``mixed`` for several models, None if the model is unknown."""
    return common_value(gpu.get("model") for gpu in gpus if _is_advertised(gpu, expected))


def answering_uuids(reading: Mapping[str, Any]) -> set[str]:
    """Return the UUIDs of the cards and MIG devices that answer."""
    return {uuid for gpu in reading["gpus"] for uuid in (gpu["uuid"], *gpu["mig"]) if uuid}


def _findings(reading: Mapping[str, Any], expected: Sequence[str], events: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    if reading["error"] == BINDING:
        # The cards may work although they cannot be read.
        yield Finding(WARNING, None, BINDING)
        return
    if reading["error"] == SLOW:
        yield Finding(WARNING, None, SLOW)
        yield from _logged_errors(reading, expected, events)
        return
    if reading["error"]:
        yield Finding(FAULT, None, reading["error"])
        return
    if reading.get("slow"):
        yield Finding(WARNING, None, SLOW)
    answering = answering_uuids(reading)
    for uuid in expected:
        if uuid not in answering:
            yield Finding(FAULT, uuid, LOST, next((event["xid"] for event in events if event["uuid"] == uuid), None))
    yield from _logged_errors(reading, expected, events)
    for gpu in reading["gpus"]:
        yield from _card_findings(gpu, _is_advertised(gpu, expected))


def _is_advertised(gpu: Mapping[str, Any], expected: Sequence[str]) -> bool:
    """Return whether the node advertises this card or a part of it. If a card is not advertised, its failure affects no task."""
    return bool({gpu["uuid"], *gpu["mig"]} & set(expected))


def _logged_errors(reading: Mapping[str, Any], expected: Sequence[str], events: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for gpu in reading["gpus"]:
        is_advertised = _is_advertised(gpu, expected)
        for event in events:
            if event["uuid"] == gpu["uuid"]:
                yield Finding(event["state"] if is_advertised else WARNING, gpu["uuid"], XID, event["xid"])


def _card_findings(gpu: Mapping[str, Any], is_advertised: bool) -> Iterator[Finding]:
    if gpu["action"] in ACTIONS:
        yield Finding(FAULT if is_advertised else WARNING, gpu["uuid"], ACTIONS[gpu["action"]])
    if gpu["state"] == "failed":
        yield Finding(FAULT if is_advertised else WARNING, gpu["uuid"] or gpu.get("last_uuid"), FAILED)
    elif gpu["state"] == "warning":
        yield Finding(WARNING, gpu["uuid"], DEGRADED)


def advertised_uuids(record: Mapping[str, Any]) -> list[str]:
    """Return the UUIDs that a node advertises, from the record of this collection's changes of daemon.json."""
    values = [entry.partition("=")[2] for entry in record.get("resources") or []]
    devices = [device for value in values if value.startswith(("GPU-", "MIG-")) for device in devices_of(value)]
    return list(dict.fromkeys(devices + list(record.get("gpus") or [])))


def with_card_place(label: Label, records: Iterable[Card]) -> Label:
    """Return the label with the place of its card, from the node's recorded cards."""
    card = find_card(records, label.card) if label.card else None
    return with_place(label, card) if card else label


def excluded_label(card: Mapping[str, Any], consented: bool) -> Label:
    """Return the label for an excluded GPU of a decision (``left_out``)."""
    label = with_place(Label(OK if consented else FAULT, valid_uuid(card["uuid"]), LOST if card.get("last_known") else FAILED), card)
    return label if label.card else label._replace(gpu=card["index"])
