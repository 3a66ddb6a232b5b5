# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The navigation of the site has a line for each page, and no line without a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site.__main__ import HERE
from tests.site.navigation import Entry, NavigationError, read

ROOT = Path(__file__).parents[3]
GROUPS = ["Start", "How it works", "Run workloads", "Operate", "Fix", "Reference", "Coming from", "Project"]


def test_each_page_is_in_the_navigation() -> None:
    assert list(read(HERE / "navigation.yml", ROOT)) == GROUPS


def test_a_page_without_a_line_and_a_line_without_a_page_are_named(tmp_path: Path) -> None:
    (tmp_path / "docs" / "run").mkdir(parents=True)
    for name in ("README.md", "run/a.md", "run/b.md"):
        (tmp_path / "docs" / name).touch()
    file = tmp_path / "navigation.yml"
    file.write_text("Run:\n  - docs/run/a.md\n  - Short: docs/run/c.md\n  - plugins\nEmpty:\n")
    with pytest.raises(NavigationError) as error:
        read(file, tmp_path)
    assert str(error.value) == "docs/run/b.md is not in navigation.yml: add a line for it\ndocs/run/c.md of navigation.yml does not exist"

    file.write_text("Run:\n  - docs/run/a.md\n  - Short: docs/run/b.md\n")
    assert read(file, tmp_path) == {"Run": [Entry("docs/run/a.md"), Entry("docs/run/b.md", "Short")]}
