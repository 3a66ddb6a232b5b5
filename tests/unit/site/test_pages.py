# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of the site, their paths, and the targets of their links."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.site import pages
from tests.site.navigation import Entry

ROOT = Path(__file__).parents[3]
URL = "https://example.org/repository"
LISTED = ["docs/README.md", "docs/fix/README.md", "docs/run/jobs.md", "docs/examples/fleet/README.md", "roles/verify/README.md", "SECURITY.md"]


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("docs/README.md", "index"),
        ("docs/fix/README.md", "fix/index"),
        ("docs/run/jobs.md", "run/jobs"),
        ("roles/verify/README.md", "reference/roles/verify"),
        ("docs/ARCHITECTURE.md", "architecture"),
        ("SECURITY.md", "project/security"),
    ],
)
def test_pages_have_their_places(path: str, place: str) -> None:
    assert pages.place_of(path) == place


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("docs/run/jobs.md", "run/jobs.md"),
        ("docs/fix", "fix/index.md"),
        ("README.md", "index.md"),
        ("docs/examples/driver.yml", "examples/driver.yml"),
        ("docs/examples/swarms", f"{URL}/tree/main/docs/examples/swarms"),
        ("docs/examples/fleet", "examples/fleet/index.md"),
        ("docs/run/nothing.md", "docs/run/nothing.md"),
        ("playbooks/provision.yml", f"{URL}/blob/main/playbooks/provision.yml"),
    ],
)
def test_links_lead_to_the_site_or_else_to_the_repository(target: str, found: str) -> None:
    assert pages.leads_to(target, ROOT, LISTED, URL) == found


def test_links_of_a_page_fit_its_place() -> None:
    text = "[a](../run/jobs.md#x) [b](#here) [c](https://example.org/d) [d](README.md)\n```text\n[e](../run/jobs.md)\n```\n![f](../pictures/g.svg)\n"
    changed = pages.with_links(text, "roles/verify/README.md", lambda target: f"to/{target}")
    assert changed.splitlines() == [
        "[a](../../to/roles/run/jobs.md#x) [b](#here) [c](https://example.org/d) [d](../../to/roles/verify/README.md)",
        "```text",
        "[e](../run/jobs.md)",
        "```",
        "![f](../../to/roles/pictures/g.svg)",
    ]


def test_the_start_page_alone_has_the_navigation(tmp_path: Path) -> None:
    (tmp_path / "docs" / "run").mkdir(parents=True)
    for folder in pages.FOLDERS:
        (tmp_path / "docs" / folder).mkdir()
    (tmp_path / "galaxy.yml").write_text(f"repository: {URL}\n")
    (tmp_path / "docs/README.md").write_text("# Start\n[Jobs](run/jobs.md#a)\n")
    (tmp_path / "docs/run/jobs.md").write_text("# Jobs\n## A\n[Start](../README.md)\n")
    pages.write(tmp_path, tmp_path / "site", {"Empty": [], "Run": [Entry("docs/run/jobs.md"), Entry("plugins", "All modules")]})
    assert (tmp_path / "site/run/jobs.md").read_text() == "# Jobs\n## A\n[Start](../index.md)\n"
    assert (tmp_path / "site/index.md").read_text() == (
        "# Start\n[Jobs](run/jobs.md#a)\n\n```{toctree}\n:hidden:\n:caption: Run\n\nrun/jobs\nAll modules <reference/plugins/index>\n```\n"
    )
