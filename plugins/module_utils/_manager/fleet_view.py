# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes what people see of a reading, once for all observers that show it. Private to this collection; it may change without notice."""

from __future__ import annotations

from typing import Any

from .._ledger.reading import Reading
from .._view.fleet_cards import cards
from .._view.status import status


class FleetView:
    """``fault_limit`` is the percentage of GPU nodes that may be paused for a fault."""

    def __init__(self, fault_limit: int) -> None:
        self._fault_limit = fault_limit
        self._shown: tuple[Any, Any] = ({}, [])
        self._of: object = None  # the reading itself would keep all of its tasks in memory

    def of(self, reading: Reading) -> tuple[Any, Any]:
        """Return (status, cards) of the reading."""
        key = (reading.at, id(reading.ledger))
        if key != self._of:
            self._shown, self._of = (status(reading.ledger, self._fault_limit), cards(reading.ledger)), key
        return self._shown
