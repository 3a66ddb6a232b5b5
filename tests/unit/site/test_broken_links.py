# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of the built site finds broken links."""

from __future__ import annotations

from pathlib import Path

from tests.site.broken_links import find


def test_links_to_missing_files_and_anchors_are_found(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "style.css").touch()
    (tmp_path / "index.html").write_text(
        '<link href="style.css?v=1"><h1 id="top"></h1><a name="old"></a><a href="#top">1</a><a href="#old">2</a><a href="#nothing">3</a>'
        '<a href="run/jobs.html#a%20b">4</a><a href="run/jobs.html#b">5</a><a href="https://example.org/#x">6</a><img src="gone.svg">'
    )
    (tmp_path / "run" / "jobs.html").write_text(
        '<h1 id="a b"></h1><a href="../index.html">1</a><a href="..">2</a><a href="mailto:a@b.c">3</a>'
    )
    assert find(tmp_path) == [
        "index.html: #nothing leads nowhere",
        "index.html: gone.svg leads nowhere",
        "index.html: run/jobs.html#b leads nowhere",
    ]
