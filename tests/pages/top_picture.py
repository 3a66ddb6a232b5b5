# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/pictures/top.svg: the screen of `gpu-swarm top` for a small fleet, as a picture of a terminal."""

from __future__ import annotations

from plugins.module_utils._command import screen, top
from plugins.module_utils._command.written_files import Snapshot
from plugins.module_utils._view import fleet_cards, status

from .status_picture import NOW, fleet, terminal

SIZE = (80, 20)
AGE_S = 12


def draw() -> str:
    """Return the picture as SVG."""
    ledger, now = fleet(), NOW or 0.0
    snapshot = Snapshot(now, "m1", True, status.status(ledger), fleet_cards.cards(ledger))
    picture = top.frame(snapshot, {}, top.State(), SIZE, now + AGE_S)
    return terminal("top", "\n".join(screen.paint(text, colour) for text, colour in picture.lines), SIZE[0])
