# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every page of docs/ that is made of the code, as it has to be."""

from __future__ import annotations

from pathlib import Path

from . import architecture, known_traps, metrics, rooms, settings, traps, troubleshooting
from .blocks import fill

DOCS = Path(__file__).resolve().parents[2] / "docs"


def made() -> dict[str, str]:
    """The pages by their names in docs/."""
    return {
        "ALERTS.md": fill(_text("ALERTS.md"), {"metrics": metrics.listed()}),
        "ARCHITECTURE.md": fill(_text("ARCHITECTURE.md"), {"rooms": architecture.listed()}),
        "architecture.svg": architecture.draw(rooms.edges()),
        "SETTINGS.md": settings.page(),
        "TRAPS.md": traps.page(known_traps.TITLES),
        "TROUBLESHOOTING.md": fill(_text("TROUBLESHOOTING.md"), {"known issues": troubleshooting.issues(known_traps.ALL)}),
    }


def _text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")
