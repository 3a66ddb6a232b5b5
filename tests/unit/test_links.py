# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What users read leads only to what they have: the built collection leaves out how it is developed and tested."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
IGNORED = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
TEXTS = [path.relative_to(ROOT) for pattern in ("*.md", "docs/*.md", "roles/*/README.md") for path in sorted(ROOT.glob(pattern))]


def links(text):
    """The targets of a file's relative links, from the collection's root."""
    found = re.findall(r"\]\(([^)#\s]+)", (ROOT / text).read_text())
    return [(ROOT / text.parent / link).resolve().relative_to(ROOT) for link in found if "://" not in link]


def test_there_are_links():
    assert len([link for text in TEXTS for link in links(text)]) > 5


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_links_lead_to_what_is_in_the_collection(text):
    assert [str(link) for link in links(text) if not (ROOT / link).exists()] == []
    assert [str(link) for link in links(text) if any(fnmatch(link.parts[0], pattern) for pattern in IGNORED)] == []
