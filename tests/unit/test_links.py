# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts for users link only to files in the built collection, which does not contain the tests."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
IGNORED = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
PLACES = ("*.md", "docs/**/*.md", "roles/*/README.md")
NAMING = {".py", ".yml", ".md", ".j2", ".json"}
TEXTS = [path.relative_to(ROOT) for pattern in PLACES for path in sorted(ROOT.glob(pattern))]


def links(text):
    """Return the targets of a file's relative links, from the collection's root."""
    found = re.findall(r"\]\(([^)#\s]+)", (ROOT / text).read_text())
    return [(ROOT / text.parent / link).resolve().relative_to(ROOT) for link in found if "://" not in link]


def anchors(text: Path) -> set[str]:
    """Return GitHub's anchors of the headings of a text: in small letters, without punctuation and Markdown, with hyphens for spaces."""
    body = re.sub(r"^```.*?^```", "", (ROOT / text).read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+?)\s*$", body, re.MULTILINE)]
    again = [f"{heading}-{headings[:place].count(heading)}" for place, heading in enumerate(headings) if heading in headings[:place]]
    return {*headings, *again}


def to_headings(text: Path) -> list[tuple[Path, str]]:
    """Return the file and the anchor of each link to a heading, in this text or another one."""
    found = re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", (ROOT / text).read_text())
    return [((ROOT / text.parent / link).resolve() if link else ROOT / text, anchor) for link, anchor in found if "://" not in link]


def test_there_are_links():
    assert len([link for text in TEXTS for link in links(text)]) > 5


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_links_lead_to_files_in_the_collection(text):
    assert [str(link) for link in links(text) if not (ROOT / link).exists()] == []
    assert [str(link) for link in links(text) if any(fnmatch(link.parts[0], pattern) for pattern in IGNORED)] == []


def test_pages_that_code_and_settings_name_exist():
    """The names are in messages, in comments, and in the documentation of modules and roles."""
    files = [path for folder in ("plugins", "roles", "playbooks", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in NAMING]
    named = [(path, name) for path in files for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8"))]
    assert len(named) > 50
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in named if not (ROOT / name).is_file()] == []


def test_there_are_links_to_headings():
    assert len([anchor for text in TEXTS for _file, anchor in to_headings(text)]) > 5


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_links_to_headings_are_valid(text):
    assert [anchor for file, anchor in to_headings(text) if anchor not in anchors(file)] == []


def test_anchors_are_those_of_github(tmp_path):
    text = tmp_path / "a.md"
    text.write_text("# SSH and `sudo`, a *way*\n```\n# no heading\n```\n## 1. It's: gpu_node -- day-2\n## Again\n## Again\n")
    assert anchors(text) == {"ssh-and-sudo-a-way", "1-its-gpu_node----day-2", "again", "again-1"}
