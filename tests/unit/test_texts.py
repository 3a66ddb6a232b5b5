# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of docs/ are up to date and name only files that exist."""

from __future__ import annotations

import shutil

import pytest

from tests.pages import blocks, paths
from tests.pages.__main__ import main
from tests.pages.made import DOCS, PAGES, stale


def test_a_generated_part_replaces_the_former_one():
    page = "a\n<!-- python -m tests.pages: x -->\nold\n<!-- end -->\nb\n"
    assert blocks.fill(page, {"x": "new\n"}) == page.replace("old", "new")
    with pytest.raises(KeyError):
        blocks.fill(page, {"y": "new\n"})


def test_generated_pages_are_current():
    assert list(stale()) == [], "run: python -m tests.pages"


def test_a_check_of_the_pages_names_those_that_differ_and_writes_none(tmp_path, capsys):
    for name in PAGES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(DOCS / name, tmp_path / name)
    (tmp_path / "fix/known-issues.md").write_text("old\n", encoding="utf-8")
    (tmp_path / "pictures/architecture.svg").unlink()
    assert main(["--check"], tmp_path) == 1
    said = "docs/pictures/architecture.svg: differs from what the code makes\ndocs/fix/known-issues.md: differs from what the code makes\n"
    assert capsys.readouterr().out == said
    assert (tmp_path / "fix/known-issues.md").read_text(encoding="utf-8") == "old\n"

    assert main([], tmp_path) == 0
    assert capsys.readouterr().out == "docs/pictures/architecture.svg: written\ndocs/fix/known-issues.md: written\n"
    assert main(["--check"], tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_the_help_lists_the_pages(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert [name for name in PAGES if name not in said] == []


def test_a_cell_does_not_end_its_table():
    assert blocks.table(["h"], [["a|b<c>"]]) == "| h |\n| --- |\n| a\\|b&lt;c> |\n"


@pytest.mark.parametrize("text", ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_that_a_text_names_exist(text):
    found = list(paths.named((paths.ROOT / text).read_text(encoding="utf-8")))
    assert len(found) > 10
    files = paths.present()
    assert [path for path, _names in found if paths.is_missing(path, files)] == []
    assert [f"{path}: {name}" for path, names in found for name in paths.missing_names(path, names)] == []


def test_to_change_x_see_y_names_files_from_the_root():
    table = (paths.ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("| to change | files |")[2].partition("\n\n")[0]
    found = [path for row in table.splitlines()[2:] for path, _names in paths.named(row.split(" | ", 1)[1])]
    assert len(found) > 40
    assert [path for path in found if not (paths.ROOT / path).exists()] == []


def test_a_missing_path_is_found():
    files = ["plugins/module_utils/_gpu/nvml.py", "roles/a/tasks/main.yml"]
    assert [
        path
        for path in ("_gpu/nvml.py", "pu/nvml.py", "plugins/module_utils/", "roles/*/tasks/main.yml", "main.py")
        if paths.is_missing(path, files)
    ] == [
        "pu/nvml.py",
        "main.py",
    ]
    assert list(paths.named("`a/b.py` (`x`, `y`), `c/` and `not a path`, `/var/lib/x.py`")) == [("a/b.py", ["x", "y"]), ("c/", [])]
