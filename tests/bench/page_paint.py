# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the page of a fleet of 1,000 nodes with 8 GPUs each: how long a manager makes it, and how long Chromium takes until it shows it.

``python -m tests.bench.page_paint`` prints only this. The reference for a browser is 1 second, the reference for a manager 1 % of a minute.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.page import fleets

from .fleets import BenchError
from .table import Row, row, table

ROUNDS = 5
BROWSER_S, MANAGER_S = 1.0, 0.6
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def measure() -> list[Row]:
    shown, made = fleets.large(), []
    for _round in range(ROUNDS):
        started = time.perf_counter()
        text = shown.html()
        made.append(time.perf_counter() - started)
    painted, complete = zip(*_in_browser(text), strict=True)
    name = f"page of 1000 nodes, {len(text.encode()) / 1e6:.1f} MB"
    return [
        row(f"{name}: made by a manager / 1 % of a minute (s)", statistics.median(made), MANAGER_S, 1.0),
        row(f"{name}: first paint / 1 second (s)", statistics.median(painted), BROWSER_S, 1.0),
        row(f"{name}: all tiles / 1 second (s)", statistics.median(complete), BROWSER_S, None),
    ]


def _in_browser(text: str) -> list[tuple[float, float]]:
    """Return for each round the seconds until the first paint, and until all tiles are there."""
    program = shutil.which("chromium")
    if not program:
        raise BenchError("Chromium is missing: make browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "fleet.html"
        file.write_text(text, encoding="utf-8")
        chromium = playwright.chromium.launch(executable_path=program, args=["--disable-dev-shm-usage"])
        times = [_open(chromium, file) for _round in range(ROUNDS)]
        chromium.close()
    return times


def _open(browser: Browser, file: Path) -> tuple[float, float]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"file://{file}")
    page.locator(".node").nth(999).wait_for(state="attached")
    complete, painted = page.evaluate("performance.now()"), page.evaluate(PAINTED)
    page.close()
    return painted / 1000, complete / 1000


if __name__ == "__main__":
    print(table(measure()))
