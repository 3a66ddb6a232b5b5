# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Formats the measurements for people."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

Row = dict[str, Any]

HEADER = ("what", "value", "reference", "ratio", "goal", "met")


def row(name: str, value: float, reference: float, goal: float | None) -> Row:
    return {"name": name, "value": value, "reference": reference, "ratio": value / reference, "goal": goal}


def table(rows: list[Row]) -> str:
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    lines = ["  ".join(_aligned(cell, width, column) for column, (cell, width) in enumerate(zip(line, widths, strict=True))) for line in cells]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    goal = row["goal"]
    met = "" if goal is None else "yes" if row["ratio"] <= goal else "NO"
    return (row["name"], _number(row["value"]), _number(row["reference"]), f"{row['ratio']:.2f}", "" if goal is None else str(goal), met)


def _number(value: float) -> str:
    return f"{value:.5f}" if value < 0.1 else f"{value:.2f}"


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def machine() -> str:
    """Return the properties of this machine that affect the figures."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return ", ".join(
        [
            f"{len(os.sched_getaffinity(0))} cores",
            model.group(1) if model else platform.machine(),
            f"{memory:.0f} GiB",
            f"Linux {platform.release()}",
            f"ansible-core {version('ansible-core')}",
            f"Python {platform.python_version()}",
        ]
    )


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}"
