# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of where each card of a node is. A run writes it, and the watcher does when a card moves.

Private to this collection: no stability is promised to others.
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
    """The record in the state directory ``directory``."""

    def __init__(self, directory: str, root: str = "/") -> None:
        self._path, self._root = os.path.join(directory, NAME), root

    def read(self) -> list[Card]:
        """Return the cards. [] if the file does not exist, as after an earlier release, or cannot be read: it only describes, so that is no error."""
        try:
            with open(self._path, encoding="utf-8") as stream:
                found = json.load(stream)["cards"]
            return [{**dict.fromkeys(cards.FIELDS), **card} for card in found if _is_card(card)]
        except (OSError, ValueError, KeyError, RecursionError, TypeError):
            return []

    def after(self, now: Sequence[Card], expected: Collection[str]) -> list[Card]:
        """Return the record, updated with the cards ``now``."""
        return cards.updated_records(self.read(), now, slots.slots_by_address(self._root), expected)

    def write(self, known: Sequence[Card]) -> None:
        """Write the record. On a full disk it stays as it was, and the next call tries again."""
        if known == self.read():
            return
        with contextlib.suppress(OSError):
            replace_json(self._path, {"version": 1, "cards": known}, FILE_MODE)

    def remove(self) -> None:
        for path in (self._path, new_path(self._path)):
            _files.remove(path)


def _is_card(one: Mapping[str, Any]) -> bool:
    """Return whether write() could have written this. The file may have been edited or damaged."""
    texts = [one["uuid"], *one["mig"], *(one[name] for name in _NAMES if one.get(name) is not None)]
    return isinstance(one["index"], int) and isinstance(one["mig"], list) and all(isinstance(text, str) for text in texts)
