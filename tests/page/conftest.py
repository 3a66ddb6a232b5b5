# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fixtures: Debian's Chromium, driven by Playwright, and pages that report errors and requests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from .fleets import AT, Shown

BUILD = Path(__file__).resolve().parents[2] / "build"
PICTURES = BUILD / "page"
SIZES = {"desk": (1440, 900), "phone": (390, 844), "wall": (1920, 1080)}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "Chromium is missing: make browser"
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--disable-dev-shm-usage"])
        yield chromium
        chromium.close()


class Opened:
    """A page with what went wrong in it, and what it asked other hosts for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))

    def picture(self, name: str, *, full: bool = True) -> None:
        self.page.screenshot(path=PICTURES / f"{name}.png", full_page=full)

    def is_too_wide(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


@pytest.fixture
def context(browser: Browser) -> Iterator[Callable[..., Any]]:
    """Make browser contexts that are closed after the test."""
    opened = []

    def make(size: str = "desk", theme: str = "light", **options: Any) -> Any:
        width, height = SIZES[size]
        found = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce", timezone_id="UTC", **options
        )  # fmt: skip
        opened.append(found)
        return found

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def open_file(context: Callable[..., Any], tmp_path: Path) -> Callable[..., Opened]:
    """Open a fleet's page as a file, ``age`` seconds after it was read."""

    def show(shown: Shown, *, age: float = 12, path: str = "", **options: Any) -> Opened:
        file = tmp_path / "fleet.html"
        file.write_text(shown.html(), encoding="utf-8")
        page = context(**options).new_page()
        if options.get("java_script_enabled", True):
            page.clock.install(time=AT + age)
        found = Opened(page)
        page.goto(f"file://{file}{path}")
        return found

    return show
