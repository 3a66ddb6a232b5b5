# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds links in HTML pages that lead to no file or no anchor of the site."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and the targets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src"):
                self.targets.add(value or "")


def find(folder: Path) -> list[str]:
    """Return a line for each broken link within the site. Do not follow links to other sites."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    targets = ((path, target) for path, page in pages.items() for target in sorted(page.targets))
    return [f"{path.relative_to(folder)}: {target} leads nowhere" for path, target in targets if _is_broken(path, target, pages)]


def _is_broken(path: Path, target: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return False
    file = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if file.is_dir():
        file /= "index.html"
    if not file.is_file():
        return True
    return bool(parts.fragment) and file in pages and unquote(parts.fragment) not in pages[file].anchors
