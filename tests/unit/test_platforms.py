# Copyright (c) 2026, the fleet.gpu_swarm authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""docs/PLATFORMS.md names for each platform the tests that prove it, or says that none does; here it is held to the tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from tests.lab import rootfs
from tests.runner.stages import stages

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "PLATFORMS.md").read_text(encoding="utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
STAGE = re.compile(r"stage `([\w-]+)`")
# What else a row may say, where it names no test.
WITHOUT = ("by variables only", "never run", "by hand: ", "tried by hand", "all tests")
# Where no other is named, a node is of this release.
BY_DEFAULT = "debian13"


def rows() -> list[tuple[str, str, str]]:
    cells = [[cell.strip() for cell in line.strip("|\n").split(" |")] for line in PAGE.splitlines() if line.startswith("| ")]
    return [(what, node.strip(" `"), proof) for what, node, proof in cells if what != "what"]


ROWS = rows()
FAMILIES = yaml.safe_load((ROOT / "tests/lab/families.yml").read_text())
# One without an os-release of its own only has more programs.
NODES = {*rootfs.releases(), *(name for name, family in FAMILIES.items() if "usr/lib/os-release" in family["files"]), "ssh"}


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def marked_rare(path: Path, name: str) -> bool:
    """By itself, or with its whole file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    own = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    return any("rare" in ast.unparse(part) for part in [*(mark.value for mark in marks), *own.decorator_list])


@pytest.mark.parametrize(("what", "node", "proof"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_row_names_tests_that_exist_or_says_that_there_is_none(what, node, proof):
    tests, named = TEST.findall(proof), STAGE.findall(proof)
    assert tests or named or proof.startswith(WITHOUT), proof
    for path, name in tests:
        assert (ROOT / path).is_file(), path
        assert not name or name in functions_of(ROOT / path), f"{path} has no {name}"
    assert set(named) <= {stage.name for stage in stages()}


@pytest.mark.parametrize(("what", "node", "proof"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_rare_is_said_of_rare_tests_alone(what, node, proof):
    """Of others, `make test` would have to be believed to run them."""
    said = {match[2] for match in re.finditer(r"`([\w/.]+)::(\w+)` \(rare\)", proof)}
    assert said == {name for path, name in TEST.findall(proof) if name and marked_rare(ROOT / path, name)}


@pytest.mark.parametrize(("what", "node", "proof"), [row for row in ROWS if row[1]], ids=[row[0][:40] for row in ROWS if row[1]])
def test_the_tests_of_a_row_have_such_a_node(what, node, proof):
    assert node in NODES, "the lab makes no such node"
    for path, _name in TEST.findall(proof):
        # The fleet of a file stands in it, or beside it for all that have none.
        fleets = [(ROOT / path).read_text(), (ROOT / path).with_name("fleet.yml").read_text()]
        assert node == BY_DEFAULT or any(re.search(rf"^  \w+: .*\b{node}\b", fleet, re.MULTILINE) for fleet in fleets)


def test_every_kind_of_node_that_the_lab_makes_is_listed():
    assert {node for _what, node, _proof in ROWS if node} == NODES


def test_the_readme_has_no_platform_that_is_not_here():
    """Both say the same of what nobody has run."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "(docs/PLATFORMS.md)" in readme
    table = re.search(r"^\| platform \|.*\n(?:\|.*\n)+", readme, re.MULTILINE)
    assert table
    unproven = re.findall(r"^\| (.*?) \| (by variables|never run)", table[0], re.MULTILINE)
    assert unproven
    for platform, verdict in unproven:
        assert any(platform in what and proof.startswith(verdict) for what, _node, proof in ROWS), platform
