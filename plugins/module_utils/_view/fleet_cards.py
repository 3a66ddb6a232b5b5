# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cards of a fleet (pure): one row for each card, with the tasks that have it.

A card is a GPU, or a MIG device, because the name of a MIG device does not tell its GPU. Slots and groups name their cards. A kind that is only an
amount, such as VRAM, names no card. It has one row for each node.
Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, Mapping

from .._gpu.record import devices_of
from .._health.label import FAULT, describe_label, excluded_gpus
from .._ledger.node_labels import model_of
from .._ledger.unreserved import GPU_VALUES
from .status import ALLOCATED, FAULTY, FREE, NOT_ADVERTISED, has_fault, is_schedulable

EXCLUDED = "excluded"
Row = Dict[str, Any]


def cards(ledger: Mapping[str, Any]) -> list[Row]:
    """Return [{node, node_id, card, model, mib, state, reason, schedulable, parts}] in the order of the ledger's nodes.

    ``card`` is None for a kind without card names, and for an excluded card whose UUID is unknown. ``mib`` is None, because no label has the memory
    in MiB. ``parts`` are the resources of the card, free and allocated.
    """
    owners = ledger.get("owners") or {}
    return [row for node in ledger["nodes"] for row in _cards_of_node(node, owners)]


def _cards_of_node(node: Mapping[str, Any], owners: Mapping[str, str]) -> Iterator[Row]:
    rows: dict[str, Row] = {}
    amounts = []
    empty = _empty_row(node)
    for kind, entry in node["resources"].items():
        if entry["type"] == "named":
            for value, part in _named_parts(kind, entry, owners):
                for card in _cards_in(value):
                    rows.setdefault(card, _row(empty, card))["parts"].append(part)
        elif entry["total"] or entry["held"]:
            amounts.append(dict(empty, parts=list(_amount_parts(kind, entry, owners))))
    unnamed = _exclude(node, rows, empty)
    health = node.get("health") or {}
    if has_fault(health) and health["card"]:
        rows.setdefault(health["card"], _row(empty, health["card"])).update(state=FAULTY, reason=health["text"])
    for row in [*rows.values(), *amounts]:
        if row["state"] == FREE and any(part["state"] != FREE for part in row["parts"]):
            row["state"] = ALLOCATED
    yield from [*rows.values(), *unnamed, *amounts]


def _empty_row(node: Mapping[str, Any]) -> Row:
    """Return the row of a card of the node without its UUID and its parts. It is computed once for all cards, because reading labels takes long."""
    return {
        "node": node["hostname"],
        "node_id": node["id"],
        "card": None,
        "model": model_of(node),
        "mib": None,
        "state": FREE,
        "reason": "",
        "schedulable": is_schedulable(node),
        "parts": [],
    }


def _row(empty: Row, card: str) -> Row:
    return dict(empty, card=card, parts=[])


def _cards_in(value: str) -> list[str]:
    """Return the cards in the value of a named resource. Other devices have their whole name."""
    return devices_of(value) if value.startswith(GPU_VALUES) else [value]


def _exclude(node: Mapping[str, Any], rows: dict[str, Row], empty: Row) -> list[Row]:
    """Mark the cards that a run has excluded. Return the rows of those without a UUID."""
    unnamed = []
    for excluded in excluded_gpus(node["labels"]):
        state = {"state": EXCLUDED, "reason": describe_label(excluded) + ("" if excluded.state == FAULT else " (its loss is accepted)")}
        if excluded.card:
            rows.setdefault(excluded.card, _row(empty, excluded.card)).update(state)
        else:
            unnamed.append(dict(empty, parts=[], **state))
    return unnamed


def short(card: str) -> str:
    """Return the beginning of a UUID, which is long enough to name the card."""
    return card[:12] if card.startswith(GPU_VALUES) else card


# -- parts -----------------------------------------------------------------------------------------------------------


def _named_parts(kind: str, entry: Mapping[str, Any], owners: Mapping[str, str]) -> Iterator[tuple[str, Row]]:
    """Yield each value with its part. A value that two tasks have is listed twice."""
    holders: dict[str, list[Mapping[str, Any]]] = {}
    for holder in entry["held"]:
        holders.setdefault(str(holder.get("value")), []).append(holder)
    for value in entry["values"]:
        taken = holders.get(value)
        part = _held_part(kind, taken.pop(0), ALLOCATED, owners) if taken else _free_part(kind)
        yield value, dict(part, value=value)
    for value, rest in holders.items():
        state = ALLOCATED if value in entry["values"] else NOT_ADVERTISED
        for holder in rest:
            yield value, dict(_held_part(kind, holder, state, owners), value=value)


def _amount_parts(kind: str, entry: Mapping[str, Any], owners: Mapping[str, str]) -> Iterable[Row]:
    for holder in entry["held"]:
        yield dict(_held_part(kind, holder, ALLOCATED, owners), amount=holder.get("amount", 0))
    if entry["free"]:
        yield dict(_free_part(kind), amount=entry["free"])


def _held_part(kind: str, holder: Mapping[str, Any], state: str, owners: Mapping[str, str]) -> Row:
    return {
        "kind": kind,
        "state": state,
        "task": holder["name"],
        "service": holder["service"],
        "owner": owners.get(holder["service"]),
        "since": holder["since"],
    }


def _free_part(kind: str) -> Row:
    return {"kind": kind, "state": FREE, "task": None, "service": None, "owner": None, "since": None}
