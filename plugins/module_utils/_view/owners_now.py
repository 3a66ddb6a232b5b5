# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who has which cards now (pure), from the rows of ``fleet_cards``.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping, Sequence

from .._gpu.record import devices_of
from .._ledger.unreserved import GPU_VALUES
from .._tasks.tasks import age
from .table import NOTHING, render
from .times import duration

Row = Mapping[str, Any]
_ALL_COLUMNS = ("node", "card", "kind", "resource", "state", "task", "owner", "for")


def by_owner(cards: Iterable[Row]) -> list[dict[str, Any]]:
    """Return [{owner, cards, resources, tasks, nodes}], the most cards first. ``resources`` are amounts by kind. ``owner`` is None for services
    without an owner."""
    owners: dict[str | None, dict[str, Any]] = {}
    counted = set()
    for card in cards:
        for part in card["parts"]:
            if part["task"] is None:
                continue
            owner = owners.setdefault(part["owner"], {"cards": set(), "resources": {}, "tasks": set(), "nodes": set()})
            owner["cards"].add((card["node_id"], card["card"]))
            owner["tasks"].add(part["task"])
            owner["nodes"].add(card["node"])
            key = (card["node_id"], part["kind"], part["task"], part.get("value"))
            if "value" not in part or key not in counted:  # each card of a group lists the same resource
                owner["resources"][part["kind"]] = owner["resources"].get(part["kind"], 0) + part.get("amount", 1)
            counted.add(key)
    rows = [
        {
            "owner": name,
            "cards": sum(card is not None for _node, card in owner["cards"]),
            "resources": dict(sorted(owner["resources"].items())),
            "tasks": len(owner["tasks"]),
            "nodes": sorted(owner["nodes"]),
        }
        for name, owner in owners.items()
    ]
    return sorted(rows, key=lambda row: (-row["cards"], row["owner"] is None, str(row["owner"])))


def owners_text(rows: Sequence[Row], width: int | None) -> str:
    if not rows:
        return "Nothing is allocated."
    cells = [
        (
            row["owner"] or NOTHING,
            row["cards"],
            ", ".join("%d %s" % (count, kind) for kind, count in row["resources"].items()),
            row["tasks"],
            ", ".join(row["nodes"]),
        )
        for row in rows
    ]
    return render(("owner", "cards", "has", "tasks", "nodes"), cells, width)


def matching(cards: Iterable[Row], name: str, now: float) -> list[dict[str, Any]]:
    """Return one row for each part of the card, node or owner with this name. The beginning of a UUID is enough for a card.

    Each row has ``node``, ``node_id``, ``card``, ``kind``, ``resource``, ``state``, ``reason``, ``task``, ``service``, ``owner``, ``since`` and
    ``age`` in seconds."""
    return [row for card in cards for row in _rows_of(card, name, now)]


def _rows_of(card: Row, name: str, now: float) -> Iterator[dict[str, Any]]:
    uuid = devices_of(name)[0]
    is_named = name in (card["node"], card["node_id"]) or (uuid.startswith(GPU_VALUES) and str(card["card"]).startswith(uuid))
    base = {key: card[key] for key in ("node", "node_id", "card", "reason")}
    nothing = {"kind": None, "state": card["state"], "task": None, "service": None, "owner": None, "since": None}
    for part in card["parts"] or [nothing]:
        if is_named or part["owner"] == name:
            state = part["state"] if card["state"] in ("free", "allocated") else card["state"]
            resource = part.get("value", part.get("amount"))
            yield {**base, **part, "state": state, "resource": resource, "age": age(part["since"], now)}


def parts_text(rows: Sequence[Row], width: int | None) -> str:
    """Return the rows as a table. Columns without a value are not shown."""
    cells = []
    for row in rows:
        state = "%s: %s" % (row["state"], row["reason"]) if row["reason"] else row["state"]
        resource = None if row["resource"] == row["card"] else row["resource"]
        length = duration(row["age"]) if row["task"] else None
        cells.append((row["node"], row["card"], row["kind"], resource, state, row["task"], row["owner"], length))
    shown = [column for column in range(len(_ALL_COLUMNS)) if any(cell[column] is not None for cell in cells)]
    return render([_ALL_COLUMNS[column] for column in shown], [[NOTHING if cell[i] is None else cell[i] for i in shown] for cell in cells], width)
