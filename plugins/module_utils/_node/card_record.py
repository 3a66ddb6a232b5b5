# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records where each card of a node is. Each run writes the record. The watcher writes it when a card moves.

Private to this collection; it may change without notice.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Collection, Mapping, Sequence

from .. import _files
from .._gpu import cards
from .._gpu.cards import Card
from .._machine import slots
from .._replace import new_path, replace_json
from .journal import FILE_MODE

NAME = "cards.json"
_NAMES = ("name", "pci_bus_id", "serial", "slot")


class CardRecord:
    """The record of a node's cards in the state directory ``directory``."""

    def __init__(self, directory: str, root: str = "/") -> None:
        self._path, self._root = os.path.join(directory, NAME), root

    def read(self) -> list[Card]:
        """Return the recorded cards; [] if the file is unreadable or missing. Earlier releases wrote no such file. The file only adds details to
        messages."""
        try:
            with open(self._path, encoding="utf-8") as stream:
                entries = json.load(stream)["cards"]
            return [{**dict.fromkeys(cards.FIELDS), **card} for card in entries if _is_card(card)]
        except (OSError, ValueError, KeyError, RecursionError, TypeError):
            return []

    def updated_with(self, present: Sequence[Card], expected: Collection[str]) -> list[Card]:
        """Return the record, updated with the cards ``present``."""
        return cards.updated_records(self.read(), present, slots.slots_by_address(self._root), expected)

    def write(self, records: Sequence[Card]) -> None:
        """Write the record. If the disk is full, keep the old record; the next call tries again."""
        if records == self.read():
            return
        with contextlib.suppress(OSError):
            replace_json(self._path, {"version": 1, "cards": records}, FILE_MODE)

    def remove(self) -> None:
        for path in (self._path, new_path(self._path)):
            _files.remove(path)


def _is_card(entry: Mapping[str, Any]) -> bool:
    """Return whether this is a complete record of a card. Someone may have edited or damaged the file."""
    texts = [entry["uuid"], *entry["mig"], *(entry[name] for name in _NAMES if entry.get(name) is not None)]
    return isinstance(entry["index"], int) and isinstance(entry["mig"], list) and all(isinstance(text, str) for text in texts)
