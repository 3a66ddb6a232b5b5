# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decides whether a node has a fault, and returns the label that a watcher would report for this fault (pure).

So a run can also pause a node without a watcher. Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._gpu.cards import Card
from .._health.label import FAULT, Label, format_label, is_like_fault, parse_label
from .._health.verdict import DRIVER, GRACE_S, HANG, NOT_LOADED, SLOW_S, advertised_uuids, assess_health, common_model, with_card_place
from .journal import INSERTED


def advertised_on_record(record: Mapping[str, Mapping[str, Any]], path: str) -> list[str]:
    """Return the UUIDs that a node advertises, according to the record of its daemon.json."""
    return advertised_uuids((record.get(path) or {}).get(INSERTED) or {})


def fault_from_error(details: Mapping[str, Any], uuids: Sequence[str], uptime_s: float) -> str | None:
    """Return the fault if the driver cannot be read. None if the node advertises no GPUs, or if the driver may still be loading after the boot."""
    if not uuids or details.get("missing"):
        return None  # only Python's binding to NVML is missing; the cards may be fine
    reason = HANG if details.get("hangs") else details.get("unreadable") or DRIVER
    if reason in (*NOT_LOADED, HANG) and uptime_s < GRACE_S:
        return None  # the driver is still loading, or is starting its GPUs
    return format_label(Label(FAULT, reason=reason))


def nvml_limit_s(timeout_s: float, hung: bool, reported: str | None) -> float:
    """Return how long to wait for NVML (seconds). The time is short if the last reading hung or the watcher reports a hang.
    Once the hang is over, NVML answers immediately."""
    return min(timeout_s, SLOW_S) if hung or parse_label(reported or "").reason == HANG else timeout_s


def is_already_reported(fault: str, reported: str | None) -> bool:
    """Return whether the watcher reports this fault too. The watcher has already read the GPUs twice, so this run need not repeat its reading."""
    return is_like_fault(fault, format_label(parse_label(reported or "").of_cards))


def fault_from_gpus(
    gpus: Sequence[Mapping[str, Any]], uuids: Sequence[str], errors: Sequence[Mapping[str, Any]], card_records: Iterable[Card] = ()
) -> str | None:
    """Return the fault of the cards ``uuids`` that the node should advertise, or None.

    ``errors`` are the errors that the watcher read in the kernel's log. NVML may not show these errors. ``card_records`` says where each card is.
    """
    verdict = assess_health({"error": None, "gpus": [_card_reading(gpu) for gpu in gpus]}, uuids, errors)
    return format_label(with_card_place(verdict, card_records)) if verdict.state == FAULT else None


def label_model(params: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]], uuids: Sequence[str]) -> str | None:
    """Return the model for the health label. None if another label of the node names the model."""
    return common_model([_card_reading(gpu) for gpu in gpus], uuids) if is_model_reported(params) else None


def is_model_reported(params: Mapping[str, Any]) -> bool:
    """Return whether the health label must name the model, because the node gets no labels about its GPUs."""
    return params.get("label_prefix") == ""


def _card_reading(gpu: Mapping[str, Any]) -> dict[str, Any]:
    health, devices = gpu["health"], gpu["mig_devices"]
    return {
        "uuid": gpu["uuid"],
        "model": gpu.get("model"),
        "state": health["state"],
        "action": health["recovery_action"],
        "mig": [device["uuid"] for device in devices],
    }
