# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the Markdown pages of the site, and changes their links to paths of the site."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from .navigation import GENERATED, START_PAGE, Entry

FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
# Files that the site has besides the pages: examples and pictures.
FOLDERS = ("examples", "pictures")


def write(root: Path, source: Path, groups: dict[str, list[Entry]]) -> None:
    """Write each page of the navigation, the start page, and the files that pages link to."""
    for folder in FOLDERS:
        shutil.copytree(root / "docs" / folder, source / folder, ignore=shutil.ignore_patterns("*.md"))
    repository = yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["repository"]
    paths = [START_PAGE, *(entry.path for entries in groups.values() for entry in entries if entry.path not in GENERATED)]
    for path in paths:
        text = with_links((root / path).read_text(encoding="utf-8"), path, lambda target: leads_to(target, root, paths, repository))
        place = source / f"{place_of(path)}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text + (tables_of_contents(groups) if path == START_PAGE else ""), encoding="utf-8")


def place_of(path: str) -> str:
    """Return the path of a repository's page on the site, without a suffix."""
    if role := re.fullmatch(r"roles/(\w+)/README\.md", path):
        return f"reference/roles/{role[1]}"
    if path.startswith("docs/"):
        return re.sub(r"\bREADME$", "index", path.removeprefix("docs/").removesuffix(".md")).lower()
    return f"project/{path.removesuffix('.md').lower()}"


def with_links(text: str, path: str, find: Callable[[str], str]) -> str:
    """Return the text of a page with its relative links changed. ``find`` gets a path of the repository, and returns a path of the site or a URL."""
    here = os.path.dirname(place_of(path))

    def link(match: re.Match[str]) -> str:
        target, hash_sign, anchor = match[2].partition("#")
        if not target or re.match(r"\w+:", target):
            return match[0]
        found = find(os.path.normpath(os.path.join(os.path.dirname(path), target)))
        place = found if "://" in found else os.path.relpath(found, here)
        return f"{match[1]}{place}{hash_sign}{anchor}{match[3]}"

    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in FENCED.split(text))


def leads_to(target: str, root: Path, paths: list[str], repository: str) -> str:
    """Return the path of a file on the site, or its URL in the repository if the site lacks the file. Sphinx warns of missing files."""
    if not (root / target).exists():
        return target
    if target == "README.md":
        return f"{place_of(START_PAGE)}.md"
    for page in (target, f"{target}/README.md"):
        if page in paths:
            return f"{place_of(page)}.md"
    if target.startswith(tuple(f"docs/{folder}/" for folder in FOLDERS)) and (root / target).is_file():
        return target.removeprefix("docs/")
    return f"{repository}/{'tree' if (root / target).is_dir() else 'blob'}/main/{target}"


def tables_of_contents(groups: dict[str, list[Entry]]) -> str:
    """Return the directives that make the navigation. Only the start page of the site has them."""
    return "".join(_table_of_contents(group, entries) for group, entries in groups.items() if entries)


def _table_of_contents(group: str, entries: list[Entry]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {group}", "", *_lines(entries), "```", ""])


def _lines(entries: list[Entry]) -> Iterator[str]:
    for entry in entries:
        place = GENERATED.get(entry.path) or place_of(entry.path)
        yield f"{entry.title} <{place}>" if entry.title else place
