# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a node is unfit for the work that swarm allocates to it (pure), in the words of the label by which its watcher would report it.

A node that is to be paused for it need not have a watcher. Private to this collection: no stability is promised to others.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .._gpu.cards import Card
from .._health.label import FAULT, Label, format_label, is_like_fault, parse_label
from .._health.verdict import DRIVER, GRACE_S, HANG, NOT_LOADED, SLOW_S, advertised_uuids, assess_health, common_model, with_card_place
from .journal import INSERTED


def expected(record: Mapping[str, Mapping[str, Any]], path: str) -> list[str]:
    """The UUIDs that a node advertises, by the record of its daemon.json."""
    return advertised_uuids((record.get(path) or {}).get(INSERTED) or {})


def of_error(details: Mapping[str, Any], uuids: Sequence[str], uptime_s: float) -> str | None:
    """Why the driver could not be read, on a node that advertises its GPUs and was booted ``uptime_s`` seconds ago."""
    if not uuids or details.get("missing"):
        return None  # nothing is known of the cards without Python's binding
    reason = HANG if details.get("hangs") else details.get("unreadable") or DRIVER
    if reason in (*NOT_LOADED, HANG) and uptime_s < GRACE_S:
        return None  # it is being loaded, or starts its GPUs
    return format_label(Label(FAULT, reason=reason))


def limit_s(timeout_s: float, hung: bool, reported: str | None) -> float:
    """How long NVML is waited for. Where the last reading hung, or the watcher reports that it hangs, that is over once it answers at once."""
    return min(timeout_s, SLOW_S) if hung or parse_label(reported or "").reason == HANG else timeout_s


def is_reported(fault: str, reported: str | None) -> bool:
    """Whether the watcher, which reads twice, has reported it too: it needs no second reading."""
    return is_like_fault(fault, format_label(parse_label(reported or "").of_cards))


def of_node(
    gpus: Sequence[Mapping[str, Any]], uuids: Sequence[str], errors: Sequence[Mapping[str, Any]], known: Iterable[Card] = ()
) -> str | None:
    """What is wrong with the cards that the node is to advertise, ``uuids``. ``errors`` are those that the driver logged and the watcher kept:
    NVML may show nothing of them, and all else was read just now. ``known`` is the record of the node's cards."""
    verdict = assess_health({"error": None, "gpus": [_read(gpu) for gpu in gpus]}, uuids, errors)
    return format_label(with_card_place(verdict, known)) if verdict.state == FAULT else None


def model_of(params: Mapping[str, Any], gpus: Sequence[Mapping[str, Any]], uuids: Sequence[str]) -> str | None:
    """The model that the node reports in the label, as its watcher would; None where labels of the node have it."""
    return common_model([_read(gpu) for gpu in gpus], uuids) if is_model_reported(params) else None


def is_model_reported(params: Mapping[str, Any]) -> bool:
    """Whether the node is to have no labels about its GPUs, so that managers know the model from its own report only."""
    return params.get("label_prefix") == ""


def _read(gpu: Mapping[str, Any]) -> dict[str, Any]:
    health, devices = gpu["health"], gpu["mig_devices"]
    return {
        "uuid": gpu["uuid"],
        "model": gpu.get("model"),
        "state": health["state"],
        "action": health["recovery_action"],
        "mig": [one["uuid"] for one in devices],
    }
