# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a reading of a node's GPUs means for the swarm (pure).

A reading is ``{"error": a word or None, "gpus": [{"uuid", "pci", "model", "state", "reasons", "action", "mig": [uuid, …]}]}``, with ``slow``
where it took long. While it is not there yet, its error is ``slow`` and the cards are those of the last one. ``last_uuid`` is that of a card that
does not answer, if it is known.
Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from .._gpu.cards import Card, holding
from .._gpu.record import common, devices_of
from .label import FAULT, OK, WARNING, Label, as_card, at_place

# The words for a driver that cannot be read, as `error` of a reading, and as the label's `reason`.
HANG, MISMATCH, LIBRARY, DRIVER, BINDING = "hang", "mismatch", "library", "driver", "binding"
# NVML works, but CUDA does not start because /dev/nvidia-uvm is missing.
UVM = "uvm"
# NVML can be read, and NVIDIA's toolkit gives no container its GPUs.
TOOLKIT = "toolkit"
# NVML has not answered yet, or has answered late. Late is more than this (seconds).
SLOW, SLOW_S = "slow", 10
# A driver that has its cards started answers at once. One that has answered before, and does not within this time, hangs; whoever sets more time than
# by default (nvml_timeout) gives it so much more here too.
HANG_S, TIMEOUT_S = 20, 60
# Soon after a boot these may only mean that the driver is not loaded yet.
NOT_LOADED = (LIBRARY, DRIVER, UVM, TOOLKIT)
# So soon, in seconds.
GRACE_S = 180
# Those for a card.
LOST, FAILED, DEGRADED, XID = "lost", "failed", "degraded", "xid"
# What the driver requires to be done to a card (NVML's recovery action) is one of these words. All else that it may require says less of the
# card itself.
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
    """What is wrong with one card."""

    state: str
    card: str | None
    reason: str
    xid: int | None = None


def judge(reading: Mapping[str, Any], expected: Sequence[str], events: Iterable[Mapping[str, Any]] = ()) -> Label:
    """ok, warning or fault, with the card that it is about. ``expected`` are the UUIDs that the node advertises, ``events`` the errors
    of this boot (``uuid``, ``xid``, ``state``)."""
    found = list(_findings(reading, expected, list(events)))
    for state in (FAULT, WARNING):
        these = [one for one in found if one.state == state]
        if these:
            first = min(these, key=lambda one: (one.card is not None, one.card or ""))
            return Label(state, first.card, first.reason, first.xid, len({one.card for one in these}) if first.card else 1)
    return Label(OK)


def common_model(gpus: Iterable[Mapping[str, Any]], expected: Sequence[str]) -> str | None:
    """The model of the cards that tasks are given, ``mixed`` where there are several; None where nobody knows."""
    return common(gpu.get("model") for gpu in gpus if _is_given(gpu, expected))


def here(reading: Mapping[str, Any]) -> set[str]:
    """The UUIDs of the cards and MIG devices that answer."""
    return {one for gpu in reading["gpus"] for one in (gpu["uuid"], *gpu["mig"]) if one}


def _findings(reading: Mapping[str, Any], expected: Sequence[str], events: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    if reading["error"] == BINDING:
        # Nothing is wrong with the cards, and nothing is known of them.
        yield Finding(WARNING, None, BINDING)
        return
    if reading["error"] == SLOW:
        yield Finding(WARNING, None, SLOW)
        yield from _logged(reading, expected, events)
        return
    if reading["error"]:
        yield Finding(FAULT, None, reading["error"])
        return
    if reading.get("slow"):
        yield Finding(WARNING, None, SLOW)
    there = here(reading)
    for uuid in expected:
        if uuid not in there:
            yield Finding(FAULT, uuid, LOST, next((one["xid"] for one in events if one["uuid"] == uuid), None))
    yield from _logged(reading, expected, events)
    for gpu in reading["gpus"]:
        yield from _of_card(gpu, _is_given(gpu, expected))


def _is_given(gpu: Mapping[str, Any], expected: Sequence[str]) -> bool:
    """Whether tasks are given this card or a part of it. One that nobody is given takes no work with it."""
    return bool({gpu["uuid"], *gpu["mig"]} & set(expected))


def _logged(reading: Mapping[str, Any], expected: Sequence[str], events: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for gpu in reading["gpus"]:
        given = _is_given(gpu, expected)
        for one in events:
            if one["uuid"] == gpu["uuid"]:
                yield Finding(one["state"] if given else WARNING, gpu["uuid"], XID, one["xid"])


def _of_card(gpu: Mapping[str, Any], given: bool) -> Iterator[Finding]:
    if gpu["action"] in ACTIONS:
        yield Finding(FAULT if given else WARNING, gpu["uuid"], ACTIONS[gpu["action"]])
    if gpu["state"] == "failed":
        yield Finding(FAULT if given else WARNING, gpu["uuid"] or gpu.get("last_uuid"), FAILED)
    elif gpu["state"] == "warning":
        yield Finding(WARNING, gpu["uuid"], DEGRADED)


def advertised(record: Mapping[str, Any]) -> list[str]:
    """The UUIDs that a node advertises, by what is on record of its daemon.json (what this collection put in)."""
    values = [entry.partition("=")[2] for entry in record.get("resources") or []]
    devices = [device for value in values if value.startswith(("GPU-", "MIG-")) for device in devices_of(value)]
    return list(dict.fromkeys(devices + list(record.get("gpus") or [])))


def located(label: Label, known: Iterable[Card]) -> Label:
    """The label with where its card is, by the record of the node's cards."""
    card = holding(known, label.card) if label.card else None
    return at_place(label, card) if card else label


def left_out(card: Mapping[str, Any], consented: bool) -> Label:
    """The label for a GPU that should be advertised and failed, of a decision's ``left_out``."""
    found = at_place(Label(OK if consented else FAULT, as_card(card["uuid"]), LOST if card.get("last_known") else FAILED), card)
    return found if found.card else found._replace(gpu=card["index"])
