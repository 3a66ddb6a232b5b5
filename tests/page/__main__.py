# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes the pictures of the page for the docs: `make page-pictures`. Look at them before you commit them.

The page shows an example fleet. With ARGS="--page FILE" it is another page, such as one that tests/e2e/test_day.py has kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.e2e.one_story import page_data

from .fleets import busy

AGE_S = 12
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
# Width, height, theme, and the part of the page at the top of the picture.
SHOTS = {
    "page": (1440, 1500, "light", "verdict"),
    "page-dark": (1440, 1260, "dark", "pending"),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.page")
    parser.add_argument("--page", type=Path, help="a page of a real fleet")
    given = parser.parse_args().page
    html = given.read_text(encoding="utf-8") if given else busy().html()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "fleet.html"
        file.write_text(html, encoding="utf-8")
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for name in SHOTS:
            _draw(chromium, file, name, page_data(html)["at"] + AGE_S)
        chromium.close()
    return 0


def _draw(browser: Browser, file: Path, name: str, now: float) -> None:
    width, height, theme, part = SHOTS[name]
    page = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", timezone_id="UTC"  # type: ignore[arg-type]
    ).new_page()  # fmt: skip
    page.clock.install(time=now)
    page.goto(f"file://{file}")
    page.evaluate("part => document.getElementById(part).scrollIntoView()", part)
    picture = PICTURES / f"{name}.png"
    page.screenshot(path=picture)
    print(f"{picture.name}: {picture.stat().st_size // 1000} kB. Look at it.")


if __name__ == "__main__":
    sys.exit(main())
