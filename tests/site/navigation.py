# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads navigation.yml: the groups of the site and their pages."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

# Folders whose Markdown files must all be in the navigation.
COVERED = ("docs/**/*.md", "roles/*/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
START_PAGE = "docs/README.md"
# Pages that are generated; tests/site/reference.py writes them.
GENERATED = {"plugins": "reference/plugins/index"}


class NavigationError(Exception):
    """navigation.yml does not fit the pages."""


class Entry(NamedTuple):
    """A page in the navigation."""

    path: str  # from the root of the repository, or a key of GENERATED
    title: str = ""  # a short title for the navigation; by default, the heading of the page


def read(path: Path, root: Path) -> dict[str, list[Entry]]:
    """Return the entries of each group. Raise NavigationError if navigation.yml lacks a page, or lists a missing file."""
    listed = yaml.safe_load(path.read_text(encoding="utf-8"))
    groups = {group: [_entry(value) for value in values or ()] for group, values in listed.items()}
    named = {entry.path for entries in groups.values() for entry in entries}
    present = {file.relative_to(root).as_posix() for pattern in COVERED for file in root.glob(pattern)}
    missing = [f"{page} is not in {path.name}: add a line for it" for page in sorted(present - named - {START_PAGE})]
    surplus = [f"{page} of {path.name} does not exist" for page in sorted(named - present - {*GENERATED})]
    if missing or surplus:
        raise NavigationError("\n".join([*missing, *surplus]))
    return groups


def _entry(value: str | dict[str, str]) -> Entry:
    if isinstance(value, str):
        return Entry(value)
    ((title, path),) = value.items()
    return Entry(path, title)
